// Files that --model names. open_model_file() is the place where a file becomes a module.
#include "lathe/tools/cli/training/model_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/format.h"
#include "lathe/core/text/base64.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/suggestion.h"
#include "lathe/graph/graph_module.h"
#include "lathe/graph/trace.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/graph_model.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

using jit::Program, jit::ProgramType;

constexpr std::string_view kFreeOnnxBatch =
    "torch.onnx.export(model, (x,), file, …, dynamo=False, input_names=[\"x\"], "
    "dynamic_axes={\"x\": {0: \"N\"}})";
constexpr std::string_view kFreeBatch =
    "torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))";

[[noreturn]] void refuse_file(const std::string& file, const std::string& why) {
  throw CommandError(ExitCode::kData, formatted("--model {}: {}", file, why));
}

/// "; did you mean resnet18.pt2?" for a file that is not there.
std::string near_file(const std::string& file) {
  const std::string title = title_of_model(file);
  if (is_model_name(title)) return formatted("; --model {} is a model of the library", title);
  const fs::path path(file);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code unreadable;  // then there is no hint
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    if (is_model_file(entry.path().native())) names.push_back(entry.path().filename().string());
  }
  const std::string name = path.filename().string();
  return suggestion(name, {names.begin(), names.end()});
}

/// What the exported program has of a checkpoint: all but the adapters of --lora-rank.
StateDict without_adapters(const StateDict& state, const Checkpoint& checkpoint,
                           const std::string& file) {
  const auto config = checkpoint.metadata.find(kConfigKey);
  if (config == checkpoint.metadata.end() ||
      merge_settings({.saved_config = config->second, .saved_name = file}, kTrain).lora_rank == 0)
    return state;
  StateDict out;
  for (const auto& [name, t] : state) {
    const bool is_adapter = name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight") ||
                            name.ends_with(".lora_embedding_A.weight") ||
                            name.ends_with(".lora_embedding_B.weight");
    if (!is_adapter) out.add(name, t);
  }
  return out;
}

/// A model of a file, with what goes in and comes out. A size that may have any value is absent.
struct FileModel {
  std::unique_ptr<nn::Module> module;
  std::vector<std::string> input_names, output_names;
  std::vector<ProgramType> inputs, outputs;
};

FileModel with_types(std::unique_ptr<Program> program) {
  FileModel out{.input_names = program->input_names(),
                .output_names = program->output_names(),
                .inputs = program->input_types(),
                .outputs = program->output_types()};
  out.module = std::move(program);
  return out;
}

FileModel with_types(std::unique_ptr<jit::GraphModule> model) {
  const jit::Graph& graph = model->training_graph();
  const auto add = [&](const std::vector<int>& values, std::vector<std::string>& names,
                       std::vector<ProgramType>& types) {
    for (const int number : values) {
      const jit::Value& value = graph.values[static_cast<size_t>(number)];
      names.push_back(value.name);
      ProgramType& type = types.emplace_back(ProgramType{.dtype = value.type.dtype});
      for (const jit::Size& size : value.type.shape)
        type.shape.push_back(size.of_batch != 0 ? std::nullopt : std::optional(size.fixed));
    }
  };
  FileModel out;
  add(graph.inputs, out.input_names, out.inputs);
  add(graph.outputs, out.output_names, out.outputs);
  out.module = std::move(model);
  return out;
}

/// `classes`: of a new last layer, in the place of that of the weights.
std::unique_ptr<Program> carried_program(const CarriedProgram& carried,
                                         std::optional<int64_t> classes) {
  const auto load = [&](const StateDict& weights) {
    return std::unique_ptr<Program>(
        new Program(jit::load_program(std::as_bytes(std::span(carried.architecture)), carried.file,
                                      weights, {.classes = classes})));
  };
  if (!classes) return load(carried.weights);
  const std::vector<std::string> head = carried_program(carried, {})->head_parameters();
  StateDict rest;
  for (const auto& [name, tensor] : carried.weights) {
    if (std::ranges::find(head, name) == head.end()) rest.add(name, tensor);
  }
  return load(rest);
}

/// `classes`: of a new last layer. The model of a run that goes on has had it from the beginning.
FileModel open_model_file(const Settings& settings, std::optional<int64_t> classes) {
  const std::string& file = *settings.model;
  if (const auto& carried = settings.program; carried != nullptr) {
    if (!carried->is_start) classes.reset();
    if (is_graph_text(carried->architecture)) {
      return with_types(
          carried_graph_model(carried->architecture, carried->weights, classes, carried->file));
    }
    return with_types(carried_program(*carried, classes));
  }
  if (reading_data([&] { return path_kind(file); }) == PathKind::kNothing)
    refuse_file(file, "there is no such file" + near_file(file));
  return reading_data([&] {
    if (!is_program_file(file)) return with_types(open_graph_model(file, classes));
    return with_types(
        std::unique_ptr<Program>(new Program(jit::load_program(file, {.classes = classes}))));
  });
}

std::string type_text(const ProgramType& type) {
  std::string text = concat(type.dtype, "[");
  for (size_t d = 0; d < type.shape.size(); ++d)
    text += concat(d == 0 ? "" : ",", type.shape[d] ? concat(*type.shape[d]) : std::string("N"));
  return text + "]";
}

std::string types_text(const std::vector<std::string>& names,
                       const std::vector<ProgramType>& types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i)
    text += concat(i == 0 ? "" : ", ", names[i], " ", type_text(types[i]));
  return text;
}

std::string_view loader_of(const std::string& file) {
  return is_program_file(file) ? "jit::load_program"
         : is_onnx_file(file)  ? "jit::load_onnx_module"
                               : "jit::GraphModule";
}

/// What the command asks of a model's images; absent: any.
struct ImageShape {
  std::optional<int64_t> channels, side;
  int64_t classes = 0;
};

/// throws: CommandError (kData) for a model that is no classifier of images.
ImageShape image_shape(const FileModel& model, const std::string& file) {
  const std::vector<ProgramType>&in = model.inputs, &out = model.outputs;
  const auto fail = [&](std::string_view why) {
    refuse_file(file, formatted("it computes {} from {}; {}", types_text(model.output_names, out),
                                types_text(model.input_names, in), why));
  };
  if (in.size() != 1 || out.size() != 1)
    fail(
        formatted("the command trains models of one input and one result; a C++ program can train "
                  "this one ({})",
                  loader_of(file)));
  const auto& x = in[0].shape;
  const auto& y = out[0].shape;
  const bool is_classifier = x.size() == 4 && is_floating(in[0].dtype) && y.size() == 2 && y[1];
  if (!is_classifier)
    fail(
        formatted("the command trains models from images [N,channels,size,size] to scores "
                  "[N,classes]; a C++ program can train this one ({})",
                  loader_of(file)));
  if (x[0])
    fail(
        formatted("it takes only batches of {} images, but other sizes are needed, too: export it "
                  "again with {}",
                  *x[0], is_program_file(file) ? kFreeBatch : kFreeOnnxBatch));
  if (x[2] && x[3] && *x[2] != *x[3]) fail("the command's images have as many rows as columns");
  return {.channels = x[1], .side = x[2] ? x[2] : x[3], .classes = *y[1]};
}

/// The file of weights in --model WEIGHTS/NAME, which carries the program; "" for other names.
std::string carrier_of(const std::string& model) {
  const std::string folder = fs::path(model).parent_path().string();
  const bool is_file =
      !folder.empty() && reading_data([&] { return path_kind(folder); }) == PathKind::kFile;
  return is_file ? folder : "";
}

/// Takes the program that `file` carries, if any, as that of a new run.
void start_with_program(Settings& settings, const std::string& file) {
  take_carried_program(settings, file);
  if (settings.program == nullptr) return;
  auto start = *settings.program;
  start.is_start = true;
  settings.program = std::make_shared<const CarriedProgram>(std::move(start));
}

/// The way out if --weights carries a program and --model names one of other classes. "" for other
/// weights.
std::string own_head_hint(const Settings& settings) {
  if (settings.weights.empty() || settings.program != nullptr) return "";
  const auto about = reading_data([&] { return metadata_in(settings.weights); });
  if (!about.contains(std::string(kProgramKey))) return "";
  return formatted("; without --model, {} keeps the last layer that it was trained with",
                   settings.weights);
}

}  // namespace

void take_carried_program(Settings& settings, const Checkpoint& checkpoint,
                          const std::string& file) {
  const auto carried = checkpoint.metadata.find(std::string(kProgramKey));
  const bool is_file = settings.model && is_model_file(*settings.model);
  if (carried == checkpoint.metadata.end() || !is_file) return;
  const bool has_parts = !checkpoint_parts(checkpoint.metadata).empty();
  std::string architecture;
  try {
    architecture = from_base64(carried->second);
  } catch (const DataError& e) {
    LATHE_FAIL(DataError, file, ": ", kProgramKey, ": ", e.message());
  }
  settings.program = std::make_shared<const CarriedProgram>(CarriedProgram{
      .architecture = std::move(architecture),
      .weights =
          without_adapters(has_parts ? checkpoint_section(checkpoint, "model") : checkpoint.tensors,
                           checkpoint, file),
      .file = file});
}

void take_carried_program(Settings& settings, const std::string& file) {
  if (!settings.model || !is_model_file(*settings.model)) return;
  const std::optional<Checkpoint> from = reading_data([&]() -> std::optional<Checkpoint> {
    if (!metadata_in(file).contains(std::string(kProgramKey))) return {};
    return safetensors::read(file);
  });
  if (from) take_carried_program(settings, *from, file);
}

bool take_start_program(Settings& settings, const std::string& file) {
  const safetensors::Metadata about = reading_data([&] { return metadata_in(file); });
  const auto name = about.find("lathe.model");
  if (!about.contains(std::string(kProgramKey)) || name == about.end()) return false;
  if (!is_model_file(name->second)) return false;
  settings.model = formatted("{}/{}", file, fs::path(name->second).filename().string());
  start_with_program(settings, file);
  return true;
}

void take_model_file(Settings& settings) {
  if (!settings.model || !is_model_file(*settings.model)) return;
  if (settings.program == nullptr) {
    const std::string weights = carrier_of(*settings.model);
    if (!weights.empty()) start_with_program(settings, weights);
  }
  const std::string& file = *settings.model;
  const ImageShape shape = image_shape(open_model_file(settings, {}), file);
  settings.classes = shape.classes;
  if (shape.channels) settings.in_channels = *shape.channels;
  if (!shape.side) return;
  if (settings.image_size && *settings.image_size != *shape.side) {
    throw UsageError(formatted("--model {} takes images of {} x {}, not --image-size {}", file,
                               *shape.side, *shape.side, *settings.image_size));
  }
  settings.image_size = shape.side;
}

void refuse_model_file(const Settings& settings, std::string_view command) {
  if (!is_model_file(*settings.model)) return;
  throw UsageError(
      formatted("--model {}: {} looks at convolutions of the library's models; lathe "
                "bench step --layers has the time of each layer of a file",
                *settings.model, command));
}

std::unique_ptr<nn::Module> model_of_file(const Settings& settings, const ModelShape& shape) {
  const std::string& file = *settings.model;
  FileModel model =
      open_model_file(settings, settings.new_head ? std::optional(shape.classes) : std::nullopt);
  const ImageShape takes = image_shape(model, file);
  if (takes.channels && *takes.channels != shape.in_channels) {
    refuse_file(file, formatted("it takes images of {} channels, and these have {}",
                                *takes.channels, shape.in_channels));
  }
  if (takes.classes != shape.classes) {
    refuse_file(file,
                formatted("it tells {} classes apart, and the data has {}; --new-head begins with "
                          "a new last layer{}",
                          takes.classes, shape.classes, own_head_hint(settings)));
  }
  model.module->to(kF32);
  return std::move(model.module);
}

bool are_of_model_file(const Settings& settings, std::string_view weights) {
  return settings.model && *settings.model == weights && is_model_file(weights);
}

jit::Graph traced_program(Program& program, int64_t batch, bool any_batch) {
  program.eval();
  const NoGrad off;
  const Tensors parameters = program.parameters();
  const auto floating =
      std::ranges::find_if(parameters, [](const Tensor& p) { return is_floating(p.dtype()); });
  Tensors examples = program.example_inputs(batch);
  for (Tensor& x : examples) {
    if (is_floating(x.dtype()) && floating != parameters.end()) x = x.to(floating->dtype());
  }
  return jit::trace([&](const Tensors& inputs) { return program.run(inputs); }, examples,
                    {.dynamic_batch = any_batch, .module = &program});
}

bool gives_probabilities(nn::Module& model) {
  if (const auto* const graph = dynamic_cast<const jit::GraphModule*>(&model))
    return gives_probabilities(graph->graph());
  auto* const program = dynamic_cast<Program*>(&model);
  if (program == nullptr) return false;
  const bool was_training = program->is_training();
  bool gives = false;
  try {
    gives = gives_probabilities(traced_program(*program, 1, false));
  } catch (const Error&) {  // it does not run on such images, or is no graph: its end is not known
  }
  program->train(was_training);
  return gives;
}

void warn_of_probabilities(nn::Module& model, const Settings& settings, Log& log) {
  if (!gives_probabilities(model)) return;
  log.warning(
      formatted("--model {} ends in a softmax or sigmoid, but the loss expects logits: export it "
                "without that last op",
                *settings.model));
}

safetensors::Metadata program_entry(const nn::Module& model) {
  if (const auto* const program = dynamic_cast<const Program*>(&model))
    return {{std::string(kProgramKey), to_base64(program->architecture())}};
  if (const auto* const graph = dynamic_cast<const jit::GraphModule*>(&model))
    return {{std::string(kProgramKey), to_base64(graph_text(*graph))}};
  return {};
}

}  // namespace lathe::cli
