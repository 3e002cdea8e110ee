// lathe predict FILE…: a trained model's classes for image files. Everything but the images comes
// from the checkpoint.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/json.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/images/image_files.h"
#include "lathe/data/images/image_folder.h"
#include "lathe/graph/graph.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/views.h"
#include "lathe/tools/cli/commands/predict_files.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/inference_graph.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/model_input.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/resume.h"
#include "lathe/tools/cli/training/saved_run.h"
#include "lathe/tools/cli/weights_name.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// The files to look at, and how many inputs could not be used: each is one line of stderr.
struct Files {
  std::vector<std::string> paths;
  int64_t problems = 0;

  // `why` may begin with the name, as messages about files do.
  void skip(const std::string& name, std::string why) {
    ++problems;
    if (!why.starts_with(name)) why = formatted("{}: {}", name, why);
    write_stderr_line(formatted("lathe: skipped {}", printable(why)));
  }
  void add(const std::string& path) {
    std::error_code unreadable;  // opening it tells the reason
    if (!fs::is_directory(path, unreadable)) {
      paths.push_back(path);
      return;
    }
    try {
      data::LeftOut left_out;
      const std::vector<std::string> found = data::images_below(path, &left_out);
      if (found.empty()) {
        skip(path, formatted("holds no images (.jpg, .jpeg, .png, .webp){}",
                             left_out.empty() ? "" : "; left out: " + data::text_of(left_out)));
      } else if (!left_out.empty()) {
        write_stderr_line(formatted("lathe: left out of {}: {}", printable(path),
                                    printable(data::text_of(left_out))));
      }
      paths.insert(paths.end(), found.begin(), found.end());
    } catch (const FileError& e) {
      skip(path, e.message());
    } catch (const DataError& e) {
      skip(path, e.message());
    }
  }
};

// The lines of stdin, without the byte order mark and the CR of Windows. A list that cannot be
// read to its end is an error: nobody would miss the images left out. No name of a file is longer
// than PATH_MAX.
std::vector<std::string> names_on_stdin() {
  std::vector<std::string> names;
  std::string name;
  const auto fail = [&](const std::string& why) {
    throw CommandError(ExitCode::kData,
                       formatted("stdin: {} in line {} of the list", why, names.size() + 1));
  };
  const auto end_line = [&] {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (names.empty() && name.starts_with(kByteOrderMark)) name.erase(0, kByteOrderMark.size());
    if (name.ends_with('\r')) name.pop_back();
    names.push_back(std::exchange(name, {}));
  };
  std::array<char, 1 << 16> block;
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno == EBADF ? "closed" : std::strerror(errno));
    if (count == 0) break;
    for (const char c : std::string_view(block.data(), static_cast<size_t>(count))) {
      if (c == '\n') {
        end_line();
      } else {
        if (c == '\0') fail("a NUL byte");
        if (name.size() == PATH_MAX) fail(formatted("more than {} bytes", PATH_MAX));
        name += c;
      }
    }
  }
  if (!name.empty()) end_line();
  return names;
}

Files files_of(const std::vector<std::string>& words) {
  Files files;
  for (const std::string& word : words) {
    if (word != "-") {
      files.add(word);
      continue;
    }
    for (const std::string& name : names_on_stdin()) {
      if (!name.empty()) files.add(name);
    }
  }
  return files;
}

struct Class {
  size_t number;
  double probability;
};

// The most probable classes, best first; of equal ones the one with the lower number.
std::vector<Class> best_of(std::span<const float> row, size_t count, const std::string& file) {
  if (!std::ranges::all_of(row, [](float p) { return std::isfinite(p); })) {
    throw CommandError(
        ExitCode::kDiverged,
        formatted("{}: with these weights, the model computes no finite probabilities", file));
  }
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](size_t a, size_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
  std::vector<Class> best;
  for (size_t k = 0; k < count; ++k) best.push_back({order[k], static_cast<double>(row[order[k]])});
  return best;
}

class Printer {
 public:
  Printer(std::string format, const std::vector<std::string>& names)
      : format_(std::move(format)), names_(names) {
    if (format_ == "csv") write("file,rank,class,name,probability\n");
  }

  void print(const std::string& file, const std::vector<Class>& best) const {
    write(format_ == "csv"    ? csv(file, best)
          : format_ == "json" ? json(file, best)
                              : text(file, best));
  }

 private:
  static void write(const std::string& text) { write_all(STDOUT_FILENO, text, "stdout"); }

  // Where one line is too wide, the file has a line of its own. It is never parted, because it may
  // be copied. A class is parted only where it is wider than the terminal.
  std::string text(const std::string& file, const std::vector<Class>& best) const {
    std::vector<std::string> classes;
    for (const Class& c : best) {
      classes.push_back(formatted("{} {:.2f} %{}", printable(names_[c.number]), 100 * c.probability,
                                  &c == &best.back() ? "" : ","));
    }
    const int width = terminal_width(STDOUT_FILENO);
    const std::string whole = formatted("{}: {}", printable(file), joined(classes, " "));
    if (fits(whole, width)) return whole + "\n";
    std::string lines = printable(file) + ":\n", line = " ";
    for (const std::string& c : classes) {
      const bool begins = &c != &classes.front() && !fits(concat(line, " ", c), width);
      if (begins) lines += wrapped(std::exchange(line, " "), width) + "\n";
      line += " " + c;
    }
    return lines + wrapped(line, width) + "\n";
  }
  std::string csv(const std::string& file, const std::vector<Class>& best) const {
    std::string lines;
    for (size_t k = 0; k < best.size(); ++k) {
      lines += csv_line(Row()
                            .add("file", file)
                            .add("rank", static_cast<int64_t>(k + 1))
                            .add("class", static_cast<int64_t>(best[k].number))
                            .add("name", names_[best[k].number])
                            .add("probability", best[k].probability)) +
               "\n";
    }
    return lines;
  }
  std::string json(const std::string& file, const std::vector<Class>& best) const {
    nlohmann::ordered_json row = {{"file", file}, {"predictions", nlohmann::ordered_json::array()}};
    for (const Class& c : best) {
      row["predictions"].push_back(
          {{"class", c.number}, {"name", names_[c.number]}, {"probability", c.probability}});
    }
    return printable_lines(
               row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) +
           "\n";
  }

  std::string format_;
  const std::vector<std::string>& names_;
};

// A model that its checkpoint describes.
struct Loaded {
  Settings settings;
  ModelInput input;
  Device device;
  std::unique_ptr<nn::Module> model;
  bool gives_probabilities = false;  // its results need no softmax
};

// A graph in the place of a model. Nothing but this says that its scores are of these classes.
class GraphModel final : public nn::Module {
 public:
  GraphModel(jit::Graph graph, std::string file, int64_t classes)
      : graph_(std::move(graph)), file_(std::move(file)), classes_(classes) {}

  // A graph of a fixed batch size computes that many images at a time. Zeros fill the last batch.
  Tensor forward(const Tensor& x) override {
    const int64_t images = x.dim(0), fixed = batch_of(graph_);
    if (fixed == 0 || fixed == images) return computed(x);
    Tensors parts;
    for (int64_t begin = 0; begin < images; begin += fixed) {
      const int64_t count = std::min(fixed, images - begin);
      Tensor part = narrow(x, 0, begin, count);
      if (count < fixed) {
        Shape rest = x.shape();
        rest[0] = fixed - count;
        part = cat({part, zeros(rest, {.dtype = x.dtype(), .device = x.device()})});
      }
      parts.push_back(narrow(computed(part), 0, 0, count));
    }
    return cat(parts);
  }

 private:
  Tensor computed(const Tensor& x) const {
    Tensor y = running_graph(file_, [&] { return graph_(x); });
    if (!(y.shape() == Shape{x.dim(0), classes_}))
      throw CommandError(ExitCode::kData,
                         concat(file_, ": the graph's result must be [", x.dim(0), ",", classes_,
                                "], images and classes (got: ", y, ")"));
    return y;
  }

  jit::Graph graph_;
  std::string file_;
  int64_t classes_;
};

// A graph in a file, which says all by itself.
Loaded load_graph(const Invocation& call, const std::string& file) {
  for (const char* key : {"model", "stem", "image-size"}) {
    if (is_flag_given(call.sources, key) && call.settings.model != file)
      throw UsageError(
          formatted("--{}: leave it out, because the graph {} determines it", key, file));
  }
  GraphFile graph = read_graph_file(file);
  Loaded out{.settings = {}, .input = model_input_of(graph, file), .device = kCPU, .model = {}};
  const int64_t batch = batch_of(graph.graph), pixels = out.input.side * out.input.side;
  if (batch > kMostSide * kMostSide / pixels) {
    throw CommandError(ExitCode::kData, formatted("{}: this graph computes batches of {} images of "
                                                  "{} x {}: together more than {} pixels",
                                                  file, batch, out.input.side, out.input.side,
                                                  kMostSide * kMostSide));
  }
  SettingSources sources = call.sources;
  sources.saved_name = file;
  Settings& settings = out.settings = merge_settings(sources, kPredict);
  if (settings.amp != "off")
    throw UsageError(
        formatted("--amp {}: leave it out, because the graph {} determines the number types",
                  settings.amp, file));
  settings.image_size = out.input.side;
  if (!settings.model) settings.model = "resnet18";  // for settings that a graph does not use
  if (!settings.dataset) settings.dataset = "folder";
  complete(settings, {.usable_cpus = usable_cpus()});
  out.device = prepare_compute(settings);
  out.gives_probabilities = gives_probabilities(graph.graph);
  graph.graph.to(out.device);
  out.model =
      with_views(std::make_unique<GraphModel>(std::move(graph.graph), file,
                                              static_cast<int64_t>(out.input.class_names.size())),
                 settings);
  return out;
}

constexpr int64_t kUsualSide = 224;  // of images for torchvision's models

// The input of weights that say nothing of it, as those of other programs. Says what is assumed.
ModelInput input_of_weights(const std::string& file, const Settings& settings) {
  const ModelShape shape = shape_in_file(settings, file);
  constexpr int64_t kMostClasses = 1'000'000;
  if (shape.in_channels != 3 || shape.classes < 1 || shape.classes > kMostClasses) {
    throw CommandError(ExitCode::kData,
                       formatted("{}: this file does not say how images are prepared for its "
                                 "model. lathe can assume torchvision's way only for a {} with 3 "
                                 "channels and at least one class (channels: {}, classes: {})",
                                 file, *settings.model, shape.in_channels, shape.classes));
  }
  const int64_t side = *settings.image_size;
  if (!settings.quiet) {
    write_stderr_line(
        formatted("{} names neither its classes nor how images are prepared for it. lathe calls "
                  "the classes 0 to {} and prepares images as for torchvision's models: the middle "
                  "{} x {} (--image-size), with ImageNet's mean and deviation",
                  printable(file), shape.classes - 1, side, side));
  }
  return usual_input(shape.classes, side);
}

Loaded load(const Invocation& call) {
  const std::string file = weights_of(call.settings);
  if (reading_data([&] { return is_graph_file(file); })) return load_graph(call, file);
  const safetensors::Metadata metadata = reading_data([&] { return metadata_in(file); });
  Loaded out{.settings = {}, .input = {}, .device = kCPU, .model = {}};
  // A checkpoint of lathe has them since it was last resumed, or it is refused; so are weights that
  // were made of such a checkpoint.
  const bool says_input = !input_entries(metadata).empty() || metadata.contains(kConfigKey) ||
                          metadata.contains("lathe.model");
  if (says_input) out.input = model_input_in(metadata, file);
  SettingSources sources = call.sources;
  if (const auto config = metadata.find(kConfigKey); config != metadata.end())
    sources.saved_config = config->second;
  sources.saved_name = file;
  Settings& settings = out.settings = merge_settings(sources, kPredict);
  if (const auto model = metadata.find("lathe.model"); !settings.model && model != metadata.end())
    settings.model = model->second;
  if (!settings.model && is_model_file(file)) settings.model = file;
  if (!settings.model) fail_unknown_model(call.settings, file);
  take_carried_program(settings, file);
  take_model_file(settings);
  if (says_input) settings.image_size = out.input.side;
  if (!settings.image_size) settings.image_size = kUsualSide;
  if (!settings.dataset) settings.dataset = "folder";
  complete(settings, {.usable_cpus = usable_cpus()});
  choose_stem(settings, file);
  if (!says_input) out.input = input_of_weights(file, settings);
  out.device = prepare_compute(settings);
  out.model =
      make_empty_model(settings, {.classes = static_cast<int64_t>(out.input.class_names.size()),
                                  .in_channels = out.input.channels});
  out.gives_probabilities = gives_probabilities(*out.model);
  if (!are_of_model_file(settings, file)) {
    for (const std::string& line : load_weights(*out.model, file, {}, settings.weights_section))
      write_stderr_line(printable(line));
  }
  place_model(*out.model, out.device, settings);
  out.model->eval();
  Log log(settings.quiet);
  const int64_t side = out.input.side;
  out.model = with_views(for_inference(std::move(out.model), {out.input.channels, side, side},
                                       out.device, settings, log),
                         settings);
  return out;
}

}  // namespace

ExitCode predict_files(const Invocation& call) {
  for (const char* key : {"index", "split"}) {
    if (call.sources.flags.contains(key))
      throw UsageError(formatted("--{} chooses images of the data set: leave out the files", key));
  }
  const Settings& asked = call.settings;
  std::error_code unreadable;  // it is for a hint
  const std::string& first = call.words[0];
  const bool has_file = asked.model && is_model_file(*asked.model);
  if (asked.run_dir.empty() && asked.weights.empty() && !has_file) {
    if (fs::exists(fs::path(first) / "config.toml", unreadable))
      throw UsageError(formatted("which model? For that of the run, give --run-dir {}", first));
    if (names_weights(first))
      throw UsageError(formatted("which model? For that of the file, give --weights {}", first));
  }
  Loaded loaded = load(call);
  const Settings& settings = loaded.settings;
  Files files = files_of(call.words);
  const auto images = std::make_shared<data::ImageFiles>(
      files.paths, data::ImageFilesOptions{.transform = transform_of(loaded.input),
                                           .one_channel = loaded.input.channels == 1});
  const size_t classes = loaded.input.class_names.size();
  const size_t top = std::min(classes, static_cast<size_t>(settings.top));
  const Printer printer(settings.json ? "json" : settings.format, loaded.input.class_names);
  if (!files.paths.empty()) {
    Input input{make_loader(images, settings, false), loaded.device};
    const NoGrad no_grad;
    int64_t next = 0;  // the loader keeps the order
    for (auto& [x, y] : input.batches()) {
      const Tensor scores = scores_of(*loaded.model, x, settings);
      const std::vector<float> rows =
          (loaded.gives_probabilities ? scores : softmax(scores, 1)).to_vector<float>();
      const float* row = rows.data();
      for (const int64_t number : y.to_vector<int64_t>()) {
        const int64_t i = next++;
        if (number < 0) {
          files.skip(images->path(i), images->error(i));
        } else {
          printer.print(images->path(i), best_of({row, classes}, top, images->path(i)));
        }
        row += classes;
      }
    }
  }
  if (files.problems > 0) {
    throw CommandError(ExitCode::kData,
                       formatted("predict: {} of the inputs could not be read", files.problems));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
