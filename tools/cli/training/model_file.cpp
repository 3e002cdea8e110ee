// Files that --model names. open_model_file() is the place where a file becomes a module.
#include "lathe/tools/cli/training/model_file.h"

#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/format.h"
#include "lathe/core/text/base64.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/suggestion.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

using jit::Program, jit::ProgramType;

constexpr std::string_view kEnding = ".pt2";
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
    if (entry.path().extension() == kEnding) names.push_back(entry.path().filename().string());
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

/// `classes`: of a new last layer. A program that is carried had one from the beginning.
std::unique_ptr<Program> open_model_file(const Settings& settings, std::optional<int64_t> classes) {
  const std::string& file = *settings.model;
  const jit::ProgramOptions options{.classes = classes};
  if (const auto& carried = settings.program; carried != nullptr) {
    return std::unique_ptr<Program>(new Program(jit::load_program(
        std::as_bytes(std::span(carried->architecture)), carried->file, carried->weights)));
  }
  if (reading_data([&] { return path_kind(file); }) == PathKind::kNothing)
    refuse_file(file, "there is no such file" + near_file(file));
  if (!file.ends_with(kEnding)) {
    refuse_file(
        file,
        "a graph only infers, which lathe predict and lathe bench infer do with --weights; to "
        "train the model, export it with torch.export.save as a .pt2 file");
  }
  return reading_data(
      [&] { return std::unique_ptr<Program>(new Program(jit::load_program(file, options))); });
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

/// What the command asks of a program's images; absent: any.
struct ImageShape {
  std::optional<int64_t> channels, side;
  int64_t classes = 0;
};

/// throws: CommandError (kData) for a program that is no classifier of images.
ImageShape image_shape(const Program& program, const std::string& file) {
  const std::vector<ProgramType> in = program.input_types(), out = program.output_types();
  const auto fail = [&](std::string_view why) {
    refuse_file(file,
                formatted("it computes {} from {}; {}", types_text(program.output_names(), out),
                          types_text(program.input_names(), in), why));
  };
  if (in.size() != 1 || out.size() != 1)
    fail(
        "the command trains models of one input and one result; a C++ program can train this one "
        "(jit::load_program)");
  const auto& x = in[0].shape;
  const auto& y = out[0].shape;
  const bool is_classifier = x.size() == 4 && is_floating(in[0].dtype) && y.size() == 2 && y[1];
  if (!is_classifier)
    fail(
        "the command trains models from images [N,channels,size,size] to scores [N,classes]; a C++ "
        "program can train this one (jit::load_program)");
  if (x[0])
    fail(
        formatted("it takes only batches of {} images, but other sizes are needed, too: export it "
                  "again with {}",
                  *x[0], kFreeBatch));
  if (x[2] && x[3] && *x[2] != *x[3]) fail("the command's images have as many rows as columns");
  return {.channels = x[1], .side = x[2] ? x[2] : x[3], .classes = *y[1]};
}

}  // namespace

void take_carried_program(Settings& settings, const Checkpoint& checkpoint,
                          const std::string& file) {
  const auto carried = checkpoint.metadata.find(std::string(kProgramKey));
  const bool is_file = settings.model && is_model_file(*settings.model);
  if (carried == checkpoint.metadata.end() || !is_file) return;
  const bool has_parts = !checkpoint_parts(checkpoint.metadata).empty();
  settings.program = std::make_shared<const CarriedProgram>(CarriedProgram{
      .architecture = from_base64(carried->second),
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

void take_model_file(Settings& settings) {
  if (!settings.model || !is_model_file(*settings.model)) return;
  const std::string& file = *settings.model;
  const ImageShape shape = image_shape(*open_model_file(settings, {}), file);
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
  auto program =
      open_model_file(settings, settings.new_head ? std::optional(shape.classes) : std::nullopt);
  const ImageShape takes = image_shape(*program, file);
  if (takes.channels && *takes.channels != shape.in_channels) {
    refuse_file(file, formatted("it takes images of {} channels, and these have {}",
                                *takes.channels, shape.in_channels));
  }
  if (takes.classes != shape.classes) {
    refuse_file(file,
                formatted("it tells {} classes apart, and the data has {}; --new-head begins with "
                          "a new last layer",
                          takes.classes, shape.classes));
  }
  program->to(kF32);
  return program;
}

bool are_of_model_file(const Settings& settings, std::string_view weights) {
  return settings.model && *settings.model == weights && is_model_file(weights);
}

safetensors::Metadata program_entry(const nn::Module& model) {
  const auto* const program = dynamic_cast<const Program*>(&model);
  if (program == nullptr) return {};
  return {{std::string(kProgramKey), to_base64(program->architecture())}};
}

}  // namespace lathe::cli
