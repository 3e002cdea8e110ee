// The lines of a training's start. Contract: train_lines.h.
#include "lathe/tools/cli/commands/train_lines.h"

#include "lathe/core/format.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/graph/graph_module.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/nn/summary.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/training_recipes.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/graph_model.h"
#include "lathe/tools/cli/training/model_file.h"

namespace lathe::cli {
namespace {

// A batch that was not asked for may be most of a small data set.
void say_if_steps_are_few(const Settings& settings, const StartPoint& start, int64_t per_epoch,
                          int64_t images, Log& log) {
  constexpr int64_t kFew = 8;
  if (per_epoch >= kFew || start.settings.batch_size || start.from) return;
  log.line(
      formatted("the {} training images make only {} of {} in an epoch; a smaller --batch-size "
                "makes more steps",
                images, count_text(per_epoch, "step"), *settings.batch_size));
}

void say_what_runs(const Settings& settings, Device device, const RunCounts& counts,
                   const std::filesystem::path& folder, Log& log) {
  log.line(
      formatted("{} on {}: {} parameters, {} training images, {} of {} on {}{} with {}{}{}; {}",
                *settings.model, *settings.dataset, counts.parameters, counts.images,
                count_text(counts.steps, "step"), *settings.batch_size * settings.accumulate,
                counts.ranks > 1 ? formatted("{} ranks, each on ", counts.ranks) : "",
                concat(device), count_text(*settings.threads, "thread"),
                counts.memory.empty() ? "" : ", ", counts.memory, folder.string()));
}

void say_how_it_computes(const Settings& settings, Device device, Log& log) {
  const std::string remarks[] = {device_remark(settings),
                                 convolution_remark(cpu::onednn_info(), device)};
  for (const std::string& remark : remarks) {
    if (!remark.empty()) log.choice(remark);
  }
}

// An ONNX file does not say which of its tensors are weights, and may have lost some of its layers.
void say_what_onnx_lacks(const jit::GraphModule& model, const std::string& file, Log& log) {
  constexpr size_t kMost = 10;
  const std::string folded = jit::folded_remark(model.training_graph());
  if (!folded.empty()) log.warning(formatted("{} {}", file, folded));
  std::vector<std::string> names = doubtful_weights(model);
  if (names.empty()) return;
  if (names.size() > kMost) {
    names.resize(kMost);
    names.emplace_back("…");
  }
  log.line(
      formatted("these train, too, because an ONNX file does not tell weights from constants: {}; "
                "--freeze NAME keeps one as it is",
                joined(names, ", ")));
}

}  // namespace

void say_what_trains(nn::Module& model, const Settings& settings, const Tuned& tuned, Log& log) {
  if (const std::string remark = frozen_head_remark(model, settings); !remark.empty())
    log.warning(remark);
  if (const Frozen& frozen = tuned.frozen; frozen.parameters > 0) {
    log.line(formatted(
        "frozen: {} of {} parameter tensors, {} of {} numbers in them, and {} batch norms",
        frozen.parameters, model.parameters().size(), frozen.values, nn::count_parameters(model),
        frozen.norms.size()));
  }
  if (tuned.lora) log.line("adapters: " + joined(tuned.lora->layers(), ", "));
  const auto* const graph = dynamic_cast<const jit::GraphModule*>(&model);
  if (graph != nullptr && is_onnx_file(*settings.model))
    say_what_onnx_lacks(*graph, *settings.model, log);
}

void say_start(const Settings& settings, const RunData& data, const StartPoint& start,
               const Unchanged& same, const RunCounts& counts, Device device, Log& log) {
  say_how_it_computes(settings, device, log);
  if (const std::string recipe = recipe_remark(settings, device.is_cuda()); !recipe.empty())
    log.line(recipe);
  say_what_runs(settings, device, counts, start.folder, log);
  log.line(choice_of_best(settings, data));
  if (views_of(settings))
    log.line(formatted("evaluations average the scores over {} views of each image: --tta {}",
                       settings.tta == "mirror" ? 2 : 6, settings.tta));
  const std::string left_out =
      data::left_out_text({data.train_set.get(), data.val_set.get(), data.test_set.get()});
  if (!left_out.empty()) log.line(left_out);
  if (!same.evaluated)
    log.line(
        "the evaluations use other images or views than before: the best accuracy so far no longer "
        "counts");
  say_if_steps_are_few(settings, start, counts.per_epoch, counts.images, log);
  if (const auto& names = data.train_set->class_names(); names.size() == 1) {
    log.warning(formatted(
        "all training images are of one class, {}: the model has nothing to tell apart", names[0]));
  }
  if (start.from)
    log.line(formatted("going on from {}, step {}{}", start.file.string(), counts.begin,
                       start.record ? ", with images, loss and evaluations of this command in "
                                      "place of the program's"
                                    : ""));
}

}  // namespace lathe::cli
