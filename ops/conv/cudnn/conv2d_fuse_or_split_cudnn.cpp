// The search among cuDNN's fused engines and the split one. Contracts:
// conv2d_fuse_or_split_cudnn.h.
#include "lathe/ops/conv/cudnn/conv2d_fuse_or_split_cudnn.h"

#include <algorithm>

#include "lathe/core/alignment.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/conv/search/cudnn_settings.h"

namespace lathe::cuda {

namespace {

bool is_split(const ConvEngine& engine) { return engine.index == kSplitEngine; }

class FusedEngines final : public ConvEngines {
 public:
  FusedEngines(const ConvKey& key, const Conv2dOperands& operands, Conv2dPrepared& prepared,
               const SplitEngine& split)
      : key_(key), operands_(operands), prepared_(prepared), split_(split) {}

  std::vector<ConvEngineInfo> suggested(ConvHeuristic heuristic) override {
    std::vector<ConvEngineInfo> all;
    // "Tensor cores", so that the search does not put those that say it before this one.
    if (heuristic == ConvHeuristic::kA) {
      all.push_back({.engine = {kSplitEngine, {}}, .tensor_cores = true});
    }
    try {
      for (ConvEngineInfo& fused : library().suggested(heuristic)) all.push_back(std::move(fused));
    } catch (const CudaError&) {  // a library that does not know the pattern
    } catch (const ShapeError&) {
    }
    return all;
  }
  int64_t prepare(const ConvEngine& engine) override {
    return is_split(engine) ? 0 : library().prepare(engine);
  }
  ConvTime time(const ConvEngine& engine, int runs) override {
    if (!copies_) copies_.emplace(key_.pass, operands_);
    if (!is_split(engine)) return library().time_graph(engine, runs, *copies_, split_.after_fused);
    return conv2d_time_graph(copies_->pool(), operands_.x.device(), runs,
                             [&] { split_.timed_run(copies_->next()); });
  }
  void execute(const ConvEngine& engine) override {
    copies_.reset();
    was_split_ = is_split(engine);
    if (!was_split_) return library().execute(engine);
    library_.reset();
    split_.run(operands_);
  }
  int64_t available_bytes() override {
    return static_cast<int64_t>(available_memory(operands_.x.device()));
  }
  bool capturing() override { return is_capturing(current_stream(operands_.x.device())); }
  bool was_split() const { return was_split_; }

 private:
  Conv2dEngines& library() {
    if (!library_) library_.emplace(key_, operands_, prepared_);
    return *library_;
  }

  const ConvKey& key_;
  const Conv2dOperands& operands_;
  Conv2dPrepared& prepared_;
  const SplitEngine& split_;
  std::optional<Conv2dEngines> library_;
  std::optional<Conv2dTimingCopies> copies_;  // from the first timing to the execution
  bool was_split_ = false;
};

}  // namespace

const Tensor& fused_operand(const Conv2dOperands& operands, int64_t uid) {
  const auto at = std::ranges::find(operands.fused, uid, &FusedOperand::uid);
  LATHE_CHECK(StateError, at != operands.fused.end(), "conv2d: no operand has the uid ", uid);
  return at->tensor;
}

bool conv2d_fuse_or_split(const ConvKey& key, const Conv2dOperands& operands,
                          const SplitEngine& split) {
  Conv2dPrepared& prepared = conv2d_prepared(key, operands.x.device());
  FusedEngines engines(key, operands, prepared, split);
  if (key.mode == ConvMode::kBenchmark && !engines.capturing() && !conv_search().find(key)) {
    // The split engine searches for its own convolutions. It does so before the search for this
    // key, so that no thread waits, within a search, for one that another thread is about to begin.
    try {
      split.timed_run(operands);
    } catch (const OutOfMemoryError&) {  // a fused engine may need less
    }
  }
  conv_search().run(key, engines, prepared.memo);
  return !engines.was_split();
}

std::optional<ConvMs> conv2d_measured(const ConvKey& key) {
  const auto known = conv_search().find(key);
  if (!known || known->engines[known->chosen].outcome != ConvOutcome::kTimed) return std::nullopt;
  ConvMs ms{known->engines[known->chosen].ms, std::nullopt};
  for (const ConvEngineResult& result : known->engines) {
    if (is_split(result.info.engine) && result.outcome == ConvOutcome::kTimed) ms.split = result.ms;
  }
  return ms;
}

bool conv2d_may_fuse() {
  return cudnn::enabled() && cudnn::fusion() && cudnn::benchmark() && !deterministic();
}

bool conv2d_suits_fused(const Tensor& t) {
  return t.defined() && t.ndim() == 4 && t.dtype() == kF16 && t.numel() > 0 && t.dim(1) % 8 == 0 &&
         t.is_contiguous(kChannelsLast) && alignment_of(t.raw_data()) >= 16;
}

bool conv2d_takes_fused(const ConvKey& key, Device device) {
  if (const auto known = conv_search().find(key)) return !is_split(known->info().engine);
  return !is_capturing(current_stream(device));
}

}  // namespace lathe::cuda
