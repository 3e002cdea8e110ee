// Which settings a command takes: groups of the table, and single ones by their keys.
//
// A new setting of a group belongs to all commands that take the group. A key in `also` of a
// command that does not take the key's group has the reason beside it.
#pragma once

#include <array>
#include <string_view>

#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct Takes {
  const Takes* base = nullptr;  // whose settings it takes, too
  std::array<Group, 16> groups = {};
  std::string_view also = {};  // keys, with a space between two
  bool for_gpu = false;        // what a recipe says for a GPU counts on any machine

  bool has(const Setting& setting) const;
  /// True if this is `other` or is based on `other`.
  bool includes(const Takes& other) const;

  bool operator==(const Takes&) const = default;
};

inline constexpr Takes kNothing;

// --- training ----
inline constexpr Takes kTrain{
    .groups = {Group::kTraining, Group::kFineTuning, Group::kGradients, Group::kOptimizer,
               Group::kImages, Group::kTrainingImages, Group::kBatch, Group::kLoading,
               Group::kModel, Group::kWeights, Group::kPrecision, Group::kCompute, Group::kOneStep,
               Group::kProgress},
    // val-split without split: it looks at all parts.
    .also = "tta val-split pin-memory recompute run-dir json"};
inline constexpr Takes kTrainings{.base = &kTrain, .also = "seeds"};  // others repeat one
inline constexpr Takes kDoctor{.base = &kTrain, .also = "steps"};  // one profile, no two trainings
inline constexpr Takes kTips{.base = &kTrain, .also = "seconds"};
inline constexpr Takes kCkptVerify{.base = &kTrain, .groups = {Group::kTwoTrainings}};
inline constexpr Takes kLaunch{.groups = {Group::kRanks}};

// --- what a training could be ----
inline constexpr Takes kFindLr{
    .groups = {Group::kFineTuning, Group::kGradients, Group::kOptimizer, Group::kImages,
               Group::kTrainingImages, Group::kBatch, Group::kLoading, Group::kModel,
               Group::kWeights, Group::kPrecision, Group::kCompute, Group::kRangeTest,
               Group::kProgress},
    // val-split without split: its steps are on the training images.
    .also = "val-split recompute svg write-config json"};
inline constexpr Takes kFindBatch{
    .groups = {Group::kOptimizer, Group::kModel, Group::kShape, Group::kPrecision, Group::kCompute,
               Group::kLargestBatch},
    // kBatch without batch-size, which it finds.
    .also = "image-size seed recompute write-config json"};
inline constexpr Takes kFindWorkers{
    .groups = {Group::kImages, Group::kTrainingImages, Group::kBatch, Group::kLoading},
    .also = "write-config json"};
inline constexpr Takes kPlan{
    .groups = {Group::kModel, Group::kShape, Group::kBatch, Group::kPrecision, Group::kRoofline},
    // Of kOptimizer, kGradients and kCompute what changes the launches of a step.
    .also =
        "recipe optimizer momentum muon-rest no-decay-norm clip-grad-norm device tf32 "
        "recompute gpu svg json",
    .for_gpu = true};
inline constexpr Takes kAlgosPlan{
    .groups = {Group::kModel, Group::kShape, Group::kBatch, Group::kPrecision},
    // Of kCompute what cuDNN is asked with.
    .also = "tf32 deterministic workspace-limit gpu json"};

// --- trained models ----
inline constexpr Takes kEval{
    .groups = {Group::kImages, Group::kBatch, Group::kSplit, Group::kLoading, Group::kModel,
               Group::kWeights, Group::kPrecision, Group::kCompute, Group::kMistakes,
               Group::kProgress},
    .also = "tta pin-memory run-dir json"};
inline constexpr Takes kPredict{
    .groups = {Group::kImages, Group::kBatch, Group::kSplit, Group::kModel, Group::kWeights,
               Group::kPrecision, Group::kCompute, Group::kPrediction},
    // kLoading without data-cache: it looks at an image once.
    .also = "tta workers prefetch-factor run-dir json"};
inline constexpr Takes kReport{
    .groups = {Group::kImages, Group::kBatch, Group::kSplit, Group::kLoading, Group::kModel,
               Group::kPrecision, Group::kCompute, Group::kProgress},
    .also = "tta evaluate pin-memory output json"};
inline constexpr Takes kWatch{.groups = {Group::kLooks}, .also = "json"};

// --- models and their steps ----
inline constexpr Takes kSummary{
    .groups = {Group::kModel, Group::kShape},
    .also = "image-size input-size json"};  // kBatch: of one image, without numbers
inline constexpr Takes kExplain{
    .groups = {Group::kImages, Group::kBatch, Group::kModel, Group::kWeights, Group::kShape,
               Group::kPrecision, Group::kCompute},
    .also = "ranges run-dir json"};
inline constexpr Takes kGraph{.groups = {Group::kImages, Group::kBatch, Group::kModel,
                                         Group::kShape, Group::kPrecision, Group::kCompute},
                              .also = "output run-dir json"};
inline constexpr Takes kBenchStep{
    .groups = {Group::kModel, Group::kShape, Group::kBatch, Group::kPrecision, Group::kCompute,
               Group::kOneStep, Group::kStepChecks, Group::kRoofline},
    .also = "recompute seconds json"};
inline constexpr Takes kBenchInfer{
    .groups = {Group::kModel, Group::kShape, Group::kBatch, Group::kPrecision, Group::kCompute},
    // weights without weights-section: a graph is one file of Lathe.
    .also = "weights clients int8 seconds json"};
inline constexpr Takes kBenchConv{
    .groups = {Group::kModel, Group::kShape, Group::kBatch, Group::kCompute, Group::kConvolutions,
               Group::kRoofline},
    .also = "layout seconds svg json"};  // kPrecision without amp: it has --dtype
inline constexpr Takes kBenchKernels{.groups = {Group::kCompute}, .also = "seconds json"};
inline constexpr Takes kBenchLoader{
    .groups = {Group::kImages, Group::kTrainingImages, Group::kBatch, Group::kLoading},
    .also = "seconds json"};

// --- data ----
inline constexpr Takes kDataFetch{.groups = {Group::kProgress},
                                  .also = "data-root json"};  // kImages: a word names the set
inline constexpr Takes kDataVerify{
    .groups = {Group::kProgress},
    // kImages: a word names the set. It makes no batch and computes nothing else on the device.
    .also = "data-root image-size threads json"};
inline constexpr Takes kDataPrepare{.groups = {Group::kImages, Group::kProgress},
                                    // It makes no batch and computes nothing on the device.
                                    .also = "image-size seed threads json"};

// --- files, and the rest ----
inline constexpr Takes kAlgos{.also = "algo-cache json"};  // kCompute: it looks at the file alone
inline constexpr Takes kCkpt{.also = "weights-section json"};  // kWeights: a word names the file
inline constexpr Takes kCkptConvert{.base = &kCkpt,
                                    .groups = {Group::kInt8},
                                    // kImages: the run names the set. kModel: a program has no
                                    // options.
                                    .also = "data-root int8 model"};
inline constexpr Takes kInfo{.also = "json"};

}  // namespace lathe::cli
