// One recorded step: the model and its batch are made as the commands that train make them.
#include "lathe/tools/cli/observe/recorded_step.h"
#include "lathe/core/text/terminal.h"

#include <cmath>
#include <memory>
#include <unordered_map>
#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/formatted.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/random_batch.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {
namespace {

struct Batch {
  std::string text;
  ModelShape shape;
  Tensor x, y;
};

// The classes and channels of random numbers: those of the weights, where the call says neither.
ModelShape synthetic_shape(Settings& settings) {
  const ModelShape asked{.classes = settings.classes, .in_channels = settings.in_channels};
  const Settings usual;
  const bool is_open = asked.classes == usual.classes && asked.in_channels == usual.in_channels;
  if (settings.weights.empty() || !is_open) return asked;
  if (!settings.image_size) settings.image_size = 32;
  choose_stem(settings, settings.weights);
  const ModelShape shape = shape_in_file(settings, settings.weights);
  const auto is_in = [](const char* key, int64_t value) {  // as the flags
    const Setting& setting = *find_setting(key);
    return static_cast<double>(value) >= setting.min && static_cast<double>(value) <= setting.max;
  };
  return is_in("classes", shape.classes) && is_in("in-channels", shape.in_channels) ? shape : asked;
}

Batch synthetic_batch(Settings& settings, Device device) {
  const ModelShape shape = synthetic_shape(settings);
  const RandomBatch made = random_batch(settings, shape, device, settings.batch_size.value_or(128));
  return {.text = "a batch of random numbers", .shape = shape, .x = made.x, .y = made.y};
}

Batch batch_of_dataset(const Settings& settings, Device device) {
  const auto images = open_dataset(settings, Part::kTrain, true);
  Input input = make_input(images, settings, device, true);
  return reading_data([&] {
    for (auto& [x, y] : input.batches()) {
      return Batch{.text = formatted("the first batch of {}", *settings.dataset),
                   .shape = {.classes = images->classes(), .in_channels = images->channels()},
                   .x = x,
                   .y = y};
    }
    throw UsageError(formatted("--dataset {}: has no training image", *settings.dataset));
  });
}

double norm_of(const Tensor& t) {
  const Tensor host = empty(t.shape(), {.dtype = kF64});
  copy_values(host, t);
  double sum = 0;
  for (int64_t i = 0; i < host.numel(); ++i) sum += host.data<double>()[i] * host.data<double>()[i];
  return std::sqrt(sum);
}

std::vector<RecordedLeaf> named_leaves(const autograd::RecordedGraph& graph,
                                       const nn::Module& model) {
  std::unordered_map<const TensorImpl*, std::string> names;
  for (const auto& [name, p] : model.named_parameters()) names.emplace(p.handle().get(), name);
  std::vector<RecordedLeaf> leaves;
  for (const Tensor& leaf : graph.leaves) {
    const auto at = names.find(leaf.handle().get());
    leaves.push_back({.name = at == names.end() ? "" : at->second,
                      .shape = leaf.shape(),
                      .dtype = leaf.dtype()});
    if (leaf.grad().defined()) leaves.back().gradient_norm = norm_of(leaf.grad());
  }
  return leaves;
}

}  // namespace

RecordedStep record_step(Settings& settings) {
  const std::string chosen = choose_model(settings, settings.weights);
  if (!settings.model) settings.model = "resnet8";
  const bool reads_data = settings.dataset.has_value();
  if (reads_data) complete(settings, look_around(settings));
  const Device device = prepare_compute(settings);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const Batch batch =
      reads_data ? batch_of_dataset(settings, device) : synthetic_batch(settings, device);
  if (!settings.weights.empty()) {
    if (!settings.image_size) settings.image_size = batch.x.shape()[2];
    choose_stem(settings, settings.weights);
  }
  const auto model = make_model(settings, batch.shape);
  if (!settings.weights.empty()) {
    const std::vector<std::string> lines =
        load_weights(*model, settings.weights, {}, settings.weights_section);
    if (!chosen.empty()) write_stderr_line(printable(chosen));
    for (const std::string& line : lines) write_stderr_line(printable(line));  // names of the file
  }
  place_model(*model, device, settings);
  model->train();

  RecordedStep step{
      .model = *settings.model, .data = batch.text, .input = batch.x.shape(), .graph = {}};
  std::optional<debug::ValueRanges> ranges;
  if (settings.ranges) ranges.emplace();
  autograd::GraphRecorder recorder;
  const Tensor loss = cross_entropy(scores_of(*model, batch.x, settings), batch.y);
  loss.backward();
  step.graph = recorder.graph({loss});
  step.leaves = named_leaves(step.graph, *model);
  step.loss = loss.item<double>();
  if (ranges) {
    step.ranges = ranges->rows();
    step.ranges_table = ranges->table();
  }
  return step;
}

std::string tensor_text(DType dtype, const Shape& shape) { return concat(dtype, shape); }

std::string short_layer(const std::string& path) {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1024) return formatted("{} B", bytes);
  if (bytes < 1024 * 1024) return formatted("{:.1f} KiB", value / 1024);
  if (bytes < 1024 * 1024 * 1024) return formatted("{:.2f} MiB", value / (1 << 20));
  return formatted("{:.2f} GiB", value / (1 << 30));
}

double gradient_norm(const RecordedStep& step) {
  double sum = 0;
  for (const RecordedLeaf& leaf : step.leaves) {
    const double norm = leaf.gradient_norm.value_or(0);
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

}  // namespace lathe::cli
