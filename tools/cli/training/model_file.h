// --model FILE: a program that PyTorch exported (.pt2, graph/pt2/program.h), or a graph (.onnx,
// .lathe, graph/graph_module.h), as a model like those of the library. What this header says of
// programs is true of graphs, too.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lathe/core/state_dict.h"
#include "lathe/graph/graph.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// Key of a checkpoint's metadata. The value under this key is the program of --model FILE without
/// the weights, in base64, so that a run does not need FILE any more. If FILE holds a Lathe graph
/// (is_graph_file()), the value is the text of this graph.
inline constexpr std::string_view kProgramKey = "lathe.program";

struct CarriedProgram {
  std::string architecture;  // jit::Program::architecture(), or graph_text()
  StateDict weights;         // the checkpoint's
  std::string file;          // the checkpoint, for messages
  bool is_start = false;     // a new run begins with it: --new-head replaces its last layer
};

/// If --model is a file and the checkpoint carries a program, --model means this program from then
/// on. The file that --model names is then not read, and need not exist.
/// throws: DataError for a damaged program.
void take_carried_program(Settings& settings, const Checkpoint& checkpoint,
                          const std::string& file);
/// Like take_carried_program() with a checkpoint, for the checkpoint or weights in `file`. Reads no
/// more than the metadata of `file` if it carries no program.
/// throws: CommandError (kData), DataError if `file` cannot be read.
void take_carried_program(Settings& settings, const std::string& file);

/// If a file of weights carries a program, makes it the model of a new run. --model is then
/// WEIGHTS/NAME: the file of weights, and the name of the program's own file. With this name in its
/// config.toml the run can begin again.
/// → whether the file carries a program
/// throws: what take_carried_program() throws.
bool take_start_program(Settings& settings, const std::string& file);

/// If --model is a file, takes --classes and --in-channels from the file, and --image-size unless
/// the program takes images of any size. Takes the program, too, if --model is WEIGHTS/NAME. Does
/// nothing for other models. Call it before any setting is chosen.
/// throws: CommandError (kData) if there is no such file, or if the program is no classifier of
/// batches of images (the message says what the command needs, and how to export it); UsageError
/// for another --image-size than the program's; DataError if the file cannot be read.
void take_model_file(Settings& settings);

/// Refuses a file as --model. For commands that need the convolutions of a model of the library.
/// `command` is the command's name.
/// throws: UsageError if --model is a file.
void refuse_model_file(const Settings& settings, std::string_view command);

/// The model of --model FILE, or of the program that a checkpoint carries, on the CPU in f32. With
/// --new-head its last layer is new, for the classes of `shape`.
/// throws: CommandError (kData) if the program has other classes or channels than `shape`; what
/// take_model_file() throws.
std::unique_ptr<nn::Module> model_of_file(const Settings& settings, const ModelShape& shape);

/// True if `weights` names the same file as --model.
bool are_of_model_file(const Settings& settings, std::string_view weights);

/// The program's graph in evaluation mode. Its inputs are those of the export, with the batch size
/// `batch` if the export left it free. With `any_batch` the graph takes batches of any size. Leaves
/// the program in evaluation mode.
/// throws: jit::TraceError; what the program throws.
jit::Graph traced_program(jit::Program& program, int64_t batch, bool any_batch);

/// True if the model's results are probabilities. The models of the library give logits; for a file
/// its graph tells (graph_file.h). The model must be on the CPU.
bool gives_probabilities(nn::Module& model);

/// Warns if gives_probabilities(model), because a training's loss takes logits.
void warn_of_probabilities(nn::Module& model, const Settings& settings, Log& log);

/// The metadata that checkpoints of a run with this model carry: the entry kProgramKey if the model
/// is a file's, otherwise nothing.
safetensors::Metadata program_entry(const nn::Module& model);

}  // namespace lathe::cli
