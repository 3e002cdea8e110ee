// Calibration images and the quantised graph of `lathe ckpt convert --int8`. Contract: int8.h.
#include "lathe/tools/cli/commands/int8.h"
#include "lathe/core/text/terminal.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "lathe/core/files/paths.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/data/batch.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/images/image_files.h"
#include "lathe/data/images/image_folder.h"
#include "lathe/graph/quantize/quantize.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {

using train::Row;
namespace {

constexpr int64_t kBatch = 16;  // of calibration: all activations of one are kept

/// The images of --calibration, prepared as those that will be predicted.
std::shared_ptr<data::ImageFiles> images_of_folder(const GraphFile& file, const std::string& from,
                                                   const std::string& folder) {
  if (!reading_data([&] { return is_folder(folder); }))
    throw CommandError(ExitCode::kData,
                       formatted("--calibration {}: this is not a folder", folder));
  std::vector<std::string> paths = reading_data([&] { return data::images_below(folder); });
  const ModelInput input = model_input_of(file, from);
  return std::make_shared<data::ImageFiles>(
      std::move(paths), data::ImageFilesOptions{.transform = transform_of(input),
                                                .one_channel = input.channels == 1});
}

/// The training images of the run whose checkpoint `from` is, without random changes.
std::shared_ptr<data::Dataset> images_of_run(const std::string& from,
                                             const std::string& data_root) {
  const bool can_say =
      reading_data([&] { return tensor_file_format(from) == TensorFileFormat::kSafetensors; });
  SettingSources run;
  run.saved_name = from;
  if (can_say) {
    const safetensors::Metadata about =
        reading_data([&] { return safetensors::read_metadata(from); });
    if (const auto config = about.find(kConfigKey); config != about.end())
      run.saved_config = config->second;
  }
  if (run.saved_config.empty()) {
    throw UsageError(
        formatted("--int8 needs images: {} is not a checkpoint of a run, so there are no training "
                  "images to take; name a folder of images with --calibration",
                  from));
  }
  // A checkpoint does not say where its machine has the data; the run's folder does.
  const auto beside = std::filesystem::path(from).parent_path() / "config.toml";
  if (reading_data([&] { return is_there(beside); })) {
    run.config_path = beside.string();
    run.of_finished_run = true;
  }
  Settings settings = merge_settings(run, kTrain);
  if (!data_root.empty()) settings.data_root = data_root;
  complete(settings, look_around(settings));
  return open_dataset(settings, Part::kTrain, false);
}

/// What --int8 looks at.
struct Calibration {
  std::vector<Tensors> batches;
  std::vector<int64_t> unreadable;  // rows of files that cannot be read
};

/// `count` rows, evenly chosen, in batches. A graph of one size of batch (`fixed`) gets batches of
/// that size alone.
Calibration look_at(const data::Dataset& images, int64_t count, int64_t fixed) {
  const int64_t size = images.size(), taken = std::min(size, count);
  const int64_t most = fixed > 0 ? fixed : kBatch;
  Calibration out;
  for (int64_t begin = 0; begin < taken; begin += most) {
    std::vector<int64_t> rows;
    for (int64_t i = begin; i < std::min(taken, begin + most); ++i)
      rows.push_back(i * size / taken);
    const data::Batch batch = reading_data([&] { return data::read_batch(images, rows); });
    std::vector<int64_t> readable;  // files that cannot be read have no number
    const std::vector<int64_t> numbers = batch.y.to_vector<int64_t>();
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] >= 0) {
        readable.push_back(static_cast<int64_t>(i));
      } else {
        out.unreadable.push_back(rows[i]);
      }
    }
    if (readable.empty() || (fixed > 0 && std::ssize(readable) < fixed)) continue;
    out.batches.push_back({index_select(batch.x, 0, tensor(readable))});
  }
  return out;
}

jit::QuantizeOptions options_of(const Settings& settings) {
  jit::QuantizeOptions options;
  for (const std::string& word : split_list(settings.keep_f32)) {
    if (word == "first") {
      options.first = false;
    } else if (word == "last") {
      options.last = false;
    } else {
      options.keep.push_back(word);
    }
  }
  return options;
}

}  // namespace

void check_int8_flags(const Invocation& call, bool makes_graph) {
  for (const char* key : {"calibration", "calibration-images", "keep-f32", "data-root"}) {
    if (call.sources.flags.contains(key) && !call.settings.int8)
      throw UsageError(formatted("--{} has no effect without --int8", key));
  }
  if (call.sources.flags.contains("data-root") && !call.settings.calibration.empty())
    throw UsageError(
        "--data-root and --calibration both name the images for --int8: leave one of them out");
  if (call.sources.flags.contains("int8") && call.settings.int8 && !makes_graph)
    throw UsageError("--int8 makes a graph: expected a file name that ends with .lathe or .onnx");
}

void make_int8(GraphFile& file, const std::string& from, const Settings& settings,
               const Output& out) {
  std::shared_ptr<data::ImageFiles> files;
  if (!settings.calibration.empty()) files = images_of_folder(file, from, settings.calibration);
  std::shared_ptr<data::Dataset> images = files;
  if (!files) images = images_of_run(from, settings.data_root);
  const int64_t fixed = batch_of(file.graph);
  const auto [batches, unreadable] = look_at(*images, settings.calibration_images, fixed);
  if (files && !unreadable.empty()) {
    write_stderr_line(formatted("lathe: --calibration: {} of {} images cannot be read, such as {}",
                                unreadable.size(),
                                std::min(files->size(), settings.calibration_images),
                                printable(files->error(unreadable.front()))));
  }
  if (batches.empty()) {
    throw CommandError(ExitCode::kData,
                       fixed > 1 ? formatted("--int8: the graph in {} computes batches of {} "
                                             "images, and the calibration has no batch of that "
                                             "many readable images",
                                             from, fixed)
                                 : "--int8: no image for the calibration can be read");
  }
  const jit::QuantizationReport report =
      running_graph(from, [&] { return jit::quantize(file.graph, batches, options_of(settings)); });
  if (report.layers.empty()) {
    throw CommandError(ExitCode::kData,
                       formatted("{}: --int8 found no convolution or linear layer in f32", from));
  }
  std::string table = report.text();
  table.pop_back();  // text() ends the line
  out.text(table);
  for (const jit::QuantizedLayer& layer : report.layers) {
    out.row(Row()
                .add("event", "layer")
                .add("name", layer.name)
                .add("op", layer.op)
                .add("quantized", layer.quantized)
                .add("low", static_cast<double>(layer.low))
                .add("high", static_cast<double>(layer.high))
                .add("dtype", concat(layer.dtype))
                .add("scale", layer.scale)
                .add("alone_db", layer.own_db)
                .add("db", layer.sqnr_db));
  }
}

}  // namespace lathe::cli
