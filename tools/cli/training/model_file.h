// --model FILE: a program that PyTorch exported (graph/pt2/program.h), as a model like those of the
// library.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lathe/core/state_dict.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// Key of a checkpoint's metadata. Its value is the program of --model FILE without the weights, in
/// base64, so that a run does not need that file any more.
inline constexpr std::string_view kProgramKey = "lathe.program";

struct CarriedProgram {
  std::string architecture;  // jit::Program::architecture()
  StateDict weights;         // the checkpoint's
  std::string file;          // the checkpoint, for messages
};

/// Makes a checkpoint's program the one of --model, if that is a file and the checkpoint carries
/// one. The file that --model names is then not read, and may be gone.
/// throws: DataError for a damaged program.
void take_carried_program(Settings& settings, const Checkpoint& checkpoint,
                          const std::string& file);
/// Like the overload above, for a file of weights or a checkpoint. The file is read if it carries a
/// program.
/// throws: CommandError (kData), DataError if it cannot be read.
void take_carried_program(Settings& settings, const std::string& file);

/// If --model is a file, takes from it what is chosen for other models, or given: --classes,
/// --in-channels, and the --image-size unless the program takes any. Does nothing otherwise. Call
/// it before anything is chosen.
/// throws: CommandError (kData) if there is no such file, or it is no classifier of batches of
/// images: with what the command would need, and how to export that; UsageError for another
/// --image-size than the program's; DataError if it cannot be read.
void take_model_file(Settings& settings);

/// Refuses a file as --model. For commands that look at the convolutions of a model of the library,
/// `command` being the command's name.
/// throws: UsageError if --model is a file.
void refuse_model_file(const Settings& settings, std::string_view command);

/// The model of --model FILE, or of the program that a checkpoint carries, on the CPU in f32. With
/// --new-head its last layer is new, for the classes of `shape`.
/// throws: CommandError (kData) if it is of other classes or channels than `shape`; as
/// take_model_file().
std::unique_ptr<nn::Module> model_of_file(const Settings& settings, const ModelShape& shape);

/// Whether these weights are those in the file that --model names.
bool are_of_model_file(const Settings& settings, std::string_view weights);

/// What the checkpoints of a run with this model carry: kProgramKey, if it is a program.
safetensors::Metadata program_entry(const nn::Module& model);

}  // namespace lathe::cli
