// lathe ckpt show, diff, convert: the content of a checkpoint, the differences of two, and a
// checkpoint's weights, or model, in another format. Reads every format of
// core/formats/tensor_file.h, the weights in ONNX files, and programs of PyTorch.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/data/images/packed_file.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/trace.h"
#include "lathe/ops/random.h"
#include "lathe/tools/cli/commands/ckpt_program.h"
#include "lathe/tools/cli/commands/int8.h"
#include "lathe/tools/cli/commands/op_on_integers.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/model_input.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/resume.h"
#include "lathe/tools/cli/training/saved_run.h"
#include "lathe/train/checkpoint_hashes.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownDigits = 12;

Checkpoint open_file(const std::string& path, const Settings& settings) {
  refuse_folder(path);
  if (data::is_packed_file(path)) {
    throw CommandError(
        ExitCode::kData,
        formatted("{}: is a packed file of images, not of weights; see `lathe data verify`", path));
  }
  if (is_onnx_file(path)) {
    GraphFile file = read_graph_file(path);
    return {.tensors = weights_of(file.graph),
            .metadata = std::move(file.about),
            .has_checksum = false};
  }
  if (is_program_file(path)) {
    return {.tensors = open_program(path)->state_dict(), .metadata = {}, .has_checksum = false};
  }
  return reading_data([&] { return read_tensor_file(path, settings.weights_section); });
}

// Why the weights must not replace the existing file of that name; "" if nothing would be lost.
std::string reason_to_keep(const std::string& path) {
  if (!is_file(path)) return "is no regular file";
  if (InputFile(path).size() == 0) return "";
  const bool safetensors = path.ends_with(".safetensors");
  try {
    if (is_onnx_file(path))
      return jit::is_saved_onnx(path) ? "" : "holds something else than an ONNX model of lathe";
    if (is_program_file(path)) {
      static_cast<void>(open_program(path));
      return "";
    }
    if (is_lathe_file(path)) return is_graph_file(path) ? "" : "holds something else than a graph";
    const auto wanted = safetensors ? TensorFileFormat::kSafetensors : TensorFileFormat::kNpz;
    const TensorFileFormat format = tensor_file_format(path);
    if (safetensors || format == wanted) {
      const Checkpoint file = read_tensor_file(path);
      if (!checkpoint_parts(file.metadata).empty())
        return "is a checkpoint, which holds more than weights";
    }
    return format == wanted ? "" : formatted("holds something else than {}", name_of(wanted));
  } catch (const Error& e) {
    return formatted("may be {} ({})", safetensors ? "a checkpoint" : "something else",
                     e.message());
  }
}

void refuse_to_lose(const std::string& from, const std::string& to) {
  sweep_beside(to);
  const PathKind kind = path_kind(to);
  if (kind == PathKind::kNothing || kind == PathKind::kNowhere) return;
  if (reading_data([&] { return is_same_file(from, to); }))
    throw UsageError(formatted("{} is the file that is converted; name a new file", to));
  if (const std::string reason = reason_to_keep(to); !reason.empty())
    throw UsageError(formatted("{} {}; expected a new file", to, reason));
}

// The two tensors have one shape and type; either may be a view with strides.
bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.bytes())) == 0;
}

// The largest |a - b|; nan if an element is nan in exactly one of them.
double difference(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  double most = 0;
  if (!is_floating(a.dtype())) {  // an int64 may have more digits than a double
    const std::vector<int64_t> x = a.to_vector<int64_t>(), y = b.to_vector<int64_t>();
    for (size_t i = 0; i < x.size(); ++i) {
      const auto [low, high] = std::minmax(x[i], y[i]);
      most = std::max(
          most, static_cast<double>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low)));
    }
    return most;
  }
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    const double d = x[i] == y[i] ? 0 : std::abs(x[i] - y[i]);
    if (!(d <= most)) most = d;
    if (std::isnan(most)) break;
  }
  return most;
}

// "key = value"; or "key =" and the lines of the value, indented so that none is taken for a key.
std::string metadata_text(std::string_view key, std::string_view value) {
  if (value.find('\n') == std::string_view::npos)
    return formatted("{} = {}", printable(key), printable(value));
  std::string text = formatted("{} =", printable(key));
  while (!value.empty()) {
    const size_t end = std::min(value.find('\n'), value.size());
    text += formatted("\n  {}", printable(value.substr(0, end)));
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return text;
}

StateDict weights_in(const Checkpoint& file) {
  return checkpoint_parts(file.metadata).empty() ? file.tensors : checkpoint_section(file, "model");
}

// The model that a run trained, and what it takes.
struct TrainedModel {
  std::string name;
  std::unique_ptr<nn::Module> model;
  Shape input;  // of one image
};

// The file says which model it is, as a checkpoint of a run, or as weights of one that say what
// their images are; `what` needs that.
TrainedModel trained_model(const Checkpoint& file, const std::string& from, const char* what) {
  const auto config = file.metadata.find(kConfigKey), name = file.metadata.find("lathe.model");
  const bool says_model = name != file.metadata.end() && !input_entries(file.metadata).empty();
  if (config == file.metadata.end() && !says_model)
    throw UsageError(
        formatted("{}: this file does not say which model it is of, which {} needs to know. A "
                  "checkpoint of a run says it, and so do its weights as .safetensors",
                  from, what));
  SettingSources run;
  run.saved_name = from;
  if (config != file.metadata.end()) run.saved_config = config->second;
  Settings settings = merge_settings(run, kTrain);
  if (config == file.metadata.end()) {
    settings.model = name->second;
    settings.dataset = "folder";
    settings.image_size = model_input_in(file.metadata, from).side;
    choose_stem(settings, from);
  }
  take_carried_program(settings, file, from);
  take_model_file(settings);
  complete(settings, {});
  const StateDict weights = weights_in(file);
  ModelShape shape{.classes = settings.classes, .in_channels = settings.in_channels};
  if (!is_model_file(*settings.model)) {
    shape = shape_of_weights(weights,
                             [&](const ModelShape& s) { return make_empty_model(settings, s); });
  }
  TrainedModel out{*settings.model, make_empty_model(settings, shape), {}};
  std::optional<nn::Lora> lora;
  if (has_adapters(weights)) lora = tune(*out.model, settings).lora;
  out.model->load_state_dict(weights);
  if (lora) lora->merge();
  const int64_t side = *settings.image_size;
  out.input = {1, shape.in_channels, side, side};
  return out;
}

// The program that the file is, or that --model names, with the file's weights. Null if neither is.
std::unique_ptr<jit::Program> program_in(const std::string& from, const Settings& settings) {
  if (is_program_file(from)) return open_program(from);
  if (!settings.model) return nullptr;
  if (reading_data([&] { return metadata_in(from); }).contains(std::string(kProgramKey)))
    throw UsageError(formatted("{} carries its own program; leave out --model", from));
  auto program = open_program(*settings.model);
  load_weights(*program, from, {}, settings.weights_section);
  return program;
}

// The graph of a file, or of the model that a checkpoint describes; `what` is made of it.
GraphFile graph_in(const std::string& from, const char* what, const Settings& settings,
                   const Output& out) {
  refuse_folder(from);
  if (const auto program = program_in(from, settings))
    return {graph_of_program(*program, from, out), {}};
  if (!data::is_packed_file(from) && reading_data([&] { return is_graph_file(from); }))
    return read_graph_file(from);
  const Checkpoint file = open_file(from, settings);
  const TrainedModel trained = trained_model(file, from, what);
  trained.model->eval();
  GraphFile graph{{}, input_entries(file.metadata)};
  graph.about.emplace("lathe.model", fs::path(trained.name).filename().string());
  if (auto* const program = dynamic_cast<jit::Program*>(trained.model.get())) {
    graph.graph = graph_of_program(*program, from, out);
    return graph;
  }
  if (const auto* const module = dynamic_cast<const jit::GraphModule*>(trained.model.get())) {
    graph.graph = module->graph();
    return graph;
  }
  Shape two = trained.input;  // with one, contiguous() may do nothing, and is not seen
  two[0] = 2;
  graph.graph = jit::trace(*trained.model, rand(two));
  return graph;
}

// How many tensors of the model were written.
size_t write_graph(const std::string& to, const std::string& from, bool as_onnx,
                   const Settings& settings, const Output& out) {
  GraphFile file = graph_in(from, as_onnx ? "ONNX" : "a graph", settings, out);
  if (settings.int8) make_int8(file, from, settings, out);
  if (as_onnx) {
    const auto name = file.about.find("lathe.model");
    running_graph(from, [&] {
      jit::save_onnx(file.graph, to,
                     {.name = name == file.about.end() ? "model" : title_of_model(name->second),
                      .metadata = file.about});
    });
  } else {
    jit::save(file.graph, to, file.about);
  }
  return file.graph.state().size();
}

// A program with the weights of a file, or with those of the checkpoint that carries it. How many
// tensors they are.
size_t write_program(const std::string& to, const std::string& from, const Settings& settings) {
  std::unique_ptr<nn::Module> model = program_in(from, settings);
  if (model == nullptr) model = trained_model(open_file(from, settings), from, "a .pt2 file").model;
  const auto* const program = dynamic_cast<const jit::Program*>(model.get());
  const bool is_graph = dynamic_cast<const jit::GraphModule*>(model.get()) != nullptr;
  if (program == nullptr)
    throw UsageError(
        formatted("{}: its model is {}; only a program that PyTorch exported becomes a .pt2 file "
                  "again",
                  from, is_graph ? "a graph" : "one of the library"));
  jit::save_program(*program, to);
  return program->state_dict().size();
}

// The weights alone, of a checkpoint, of a file of them or of a graph.
size_t write_weights(const std::string& to, const std::string& from, const Settings& settings) {
  StateDict weights;
  refuse_folder(from);
  safetensors::Metadata all, about;  // about: without the keys that make it a checkpoint
  const bool is_other = is_program_file(from) || data::is_packed_file(from);
  if (!is_other && reading_data([&] { return is_graph_file(from); })) {
    GraphFile file = read_graph_file(from);
    weights = weights_of(file.graph);
    if (const std::string op = op_on_integers(file.graph); !op.empty()) {
      throw CommandError(
          ExitCode::kData,
          formatted("{}: it has a {} with weights of 8 bits, and no model loads the weights of a "
                    "graph of 8-bit integers; convert the file that this graph was made from",
                    from, op));
    }
    all = std::move(file.about);
  } else {
    Checkpoint file = open_file(from, settings);
    weights = weights_in(file);
    if (has_adapters(weights) && file.metadata.contains(std::string(kConfigKey)))
      weights = trained_model(file, from, "merging its adapters").model->state_dict();
    all = std::move(file.metadata);
  }
  for (const char* key : {"lathe.model", "lathe.dataset", "lathe.epoch", "lathe.step"}) {
    if (const auto found = all.find(key); found != all.end()) about.insert(*found);
  }
  about.merge(input_entries(all));
  if (const auto program = all.find(std::string(kProgramKey)); program != all.end())
    about.insert(*program);
  write_tensor_file(to, weights, to.ends_with(".npz") ? safetensors::Metadata() : about);
  return weights.size();
}

// The widths of the columns of ckpt show.
struct EntryColumns {
  size_t part = 10, name = 44, type = 20, bytes = 11;
};

// A terminal that is too narrow for these gets columns as wide as what is in them.
EntryColumns columns_for(const std::vector<train::EntryHash>& entries, int width) {
  EntryColumns usual, least{1, 1, 1, 1};
  const size_t all = usual.part + usual.name + usual.type + usual.bytes + 4 + kShownDigits;
  if (width == 0 || all <= static_cast<size_t>(width)) return usual;
  for (const train::EntryHash& e : entries) {
    least.part = std::max(least.part, columns_of(printable(e.part)));
    least.name = std::max(least.name, columns_of(printable(e.name)));
    least.type = std::max(least.type, e.type.size());
    least.bytes = std::max(least.bytes, std::to_string(e.bytes).size());
  }
  // Where only the longest names do not fit, their rows alone are broken.
  constexpr size_t kUsefulName = 24;
  const size_t others = least.part + least.type + least.bytes + 4 + kShownDigits;
  const size_t left = static_cast<size_t>(width) - std::min(others, static_cast<size_t>(width));
  if (left >= kUsefulName) least.name = std::min(least.name, left);
  return least;
}

}  // namespace

ExitCode run_ckpt_show(const Invocation& call) {
  const Output out(call.settings.json);
  const Checkpoint file = open_file(call.words[0], call.settings);
  const std::vector<train::EntryHash> entries = train::hash_entries(file);
  const EntryColumns columns = columns_for(entries, terminal_width(STDOUT_FILENO));
  for (const train::EntryHash& e : entries) {
    out.text(formatted("{:<{}} {:<{}} {:<{}} {:>{}} {}", printable(e.part), columns.part,
                       printable(e.name), columns.name, e.type, columns.type, e.bytes,
                       columns.bytes, e.sha256.substr(0, kShownDigits)));
    out.row(Row()
                .add("event", "entry")
                .add("part", e.part)
                .add("name", e.name)
                .add("type", e.type)
                .add("bytes", e.bytes)
                .add("sha256", e.sha256));
  }
  for (const train::PartHash& p : train::hash_parts(entries)) {
    out.text(formatted("{:<10} {} entries, {} bytes, sha256 {}", printable(p.part), p.entries,
                       p.bytes, p.sha256));
    out.row(Row()
                .add("event", "part")
                .add("part", p.part)
                .add("entries", p.entries)
                .add("bytes", p.bytes)
                .add("sha256", p.sha256));
  }
  Row metadata;
  metadata.add("event", "metadata").add("checksum", file.has_checksum);
  for (const auto& [key, all] : file.metadata) {
    const std::string value =
        key == kProgramKey ? formatted("{} digits of base64", all.size()) : all;
    const std::string text = metadata_text(key, value);
    if (text.find('\n') == text.npos) {
      out.text(text);
    } else {
      out.verbatim(text);  // a config may be copied
    }
    metadata.add(key, value);
  }
  out.row(metadata);
  return ExitCode::kDone;
}

ExitCode run_ckpt_diff(const Invocation& call) {
  const Output out(call.settings.json);
  const Checkpoint a = open_file(call.words[0], call.settings),
                   b = open_file(call.words[1], call.settings);
  int64_t differences = 0, entries = static_cast<int64_t>(a.tensors.size());  // of both
  const auto report = [&](const std::string& name, const std::string& what, double most) {
    ++differences;
    out.text(formatted("{:<44} {}", printable(name), printable(what)));
    out.row(Row().add("event", "difference").add("name", name).add("what", what).add("most", most));
  };
  for (const auto& [name, x] : a.tensors) {
    const Tensor* const y = b.tensors.find(name);
    if (y == nullptr) {
      report(name, formatted("only in {}", call.words[0]), NAN);
    } else if (!(x.shape() == y->shape()) || x.dtype() != y->dtype()) {
      report(name, concat(x, " and ", *y), NAN);
    } else if (!same_bits(x, *y)) {
      const double most = difference(x, *y);
      report(name,
             most == 0 ? "differs only in the sign of zeros or in the bits of NaNs"
                       : formatted("differs by up to {:.3g}", without_sign_of_nan(most)),
             most);
    }
  }
  for (const auto& [name, y] : b.tensors) {
    if (a.tensors.contains(name)) continue;
    report(name, formatted("only in {}", call.words[1]), NAN);
    ++entries;
  }
  if (differences > 0) {
    throw CommandError(ExitCode::kCheckFailed,
                       formatted("{} of {} entries differ", differences, entries));
  }
  out.text(formatted("the same {} entries, bit by bit", entries));
  out.row(Row().add("event", "same").add("entries", entries));
  return ExitCode::kDone;
}

ExitCode run_ckpt_convert(const Invocation& call) {
  const Output out(call.settings.json);
  const std::string &from = call.words[0], &to = call.words[1];
  const bool npz = to.ends_with(".npz"), onnx = is_onnx_file(to);
  const bool graph = is_lathe_file(to), program = is_program_file(to);
  if (!npz && !onnx && !graph && !program && !to.ends_with(".safetensors"))
    throw UsageError(formatted(
        "{}: expected a name that ends with .safetensors, .npz, .onnx, .lathe or .pt2", to));
  check_int8_flags(call, onnx || graph);
  Settings settings = call.settings;
  if (!is_flag_given(call.sources, "model"))
    settings.model.reset();  // LATHE_MODEL is for trainings
  check_model_flag(settings, from, to);
  refuse_to_lose(from, to);
  size_t entries = 0;
  if (onnx || graph) {
    entries = write_graph(to, from, onnx, settings, out);
  } else if (program) {
    entries = write_program(to, from, settings);
  } else {
    entries = write_weights(to, from, settings);
  }
  out.text(formatted("{}, {} entries of the model", written_text(to), entries));
  out.row(Row()
              .add("event", "converted")
              .add("file", to)
              .add("entries", static_cast<int64_t>(entries)));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
