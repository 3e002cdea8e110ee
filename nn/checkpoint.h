// Checkpoints: all state that decides the next training step, in one safetensors file
// (core/formats/safetensors.h).
//   conv1.weight, …                       the part "model", under its own names
//   optimizer.group.0.lr, loader.seed, …  every other part, with its name as the prefix
//   rng.cpu, rng.cuda.0, …                the default generators (core/random/random_state.h)
//   metadata                              lathe.checkpoint: the format's version; lathe.parts: the
//                                         parts' names in order; what else the caller gives
// So a checkpoint is also a weights file: nn::load reads the model from it. A part is any object
// with state_dict() and load_state_dict().
//
//   save_checkpoint(path, {{"model", model}, {"optimizer", opt}, {"loader", loader}});
//   load_checkpoint(path, {{"model", model}, {"optimizer", opt}, {"loader", loader}});
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/formats/safetensors.h"
#include "lathe/core/state_dict.h"

namespace lathe {

/// The version of a checkpoint's layout. A file with a higher version is refused.
inline constexpr int kCheckpointVersion = 1;

/// An object with state_dict() and load_state_dict(). load_state_dict() must either load everything
/// or change nothing.
template <class T>
concept Checkpointable = requires(T& object, const StateDict& state) {
  { object.state_dict() } -> std::convertible_to<StateDict>;
  object.load_state_dict(state);
};

/// A named part of a checkpoint. Refers to `object`, which must outlive the part.
class LATHE_API CheckpointPart {
 public:
  template <Checkpointable T>
  CheckpointPart(std::string name, T& object)
      : name_(std::move(name)),
        state_([&object] { return object.state_dict(); }),
        load_([&object](const StateDict& state) { object.load_state_dict(state); }) {}

  const std::string& name() const { return name_; }
  StateDict state() const { return state_(); }
  void load(const StateDict& state) const { load_(state); }

 private:
  std::string name_;
  std::function<StateDict()> state_;
  std::function<void(const StateDict&)> load_;
};

using CheckpointParts = std::vector<CheckpointPart>;

/// A checkpoint in memory.
using Checkpoint = safetensors::Contents;

/// Writes the state of all parts and of the default generators to `path`, atomically: at any moment
/// `path` is the complete old file or the complete new one. A failed save leaves no other file
/// behind. Waits for the device.
/// throws: FileError; what the parts throw; ValueError for one of these:
///   - a part's name that is taken, empty, "rng" or contains a dot
///   - an entry of the model whose name begins with the name of another part and a dot
///   - a metadata key lathe.checkpoint or lathe.parts
LATHE_API void save_checkpoint(const std::string& path, const CheckpointParts& parts,
                               const safetensors::Metadata& metadata = {});

/// Reads and checks the whole file, then loads the parts and the default generators. If anything
/// fails, parts and generators are unchanged. For this, load_checkpoint() holds a copy of the
/// parts' state during the call. Parts of the file that are not in `parts` are ignored.
/// → the metadata that the caller of save_checkpoint() gave
/// throws: FileError; DataError for a bad file (see read_checkpoint); ValueError naming the file
/// and listing the parts that it lacks and, for each part, the entries that are missing, unexpected
/// or of another shape.
LATHE_API safetensors::Metadata load_checkpoint(const std::string& path,
                                                const CheckpointParts& parts);

// --- in pieces: for a copy that is written later, or to read a file without having its parts -----

/// The contents of the file that save_checkpoint would write, for safetensors::write. The tensors
/// share their memory with the parts.
/// throws: ValueError for the names that save_checkpoint() refuses; what the parts throw.
LATHE_API Checkpoint collect_checkpoint(const CheckpointParts& parts,
                                        const safetensors::Metadata& metadata = {});

/// Reads a file and checks its format and its checksum.
/// throws: FileError; DataError for a file that is damaged, holds weights only, or has a version
/// above kCheckpointVersion.
LATHE_API Checkpoint read_checkpoint(const std::string& path);

/// Like load_checkpoint, from memory. Error messages call the file `name`.
LATHE_API void restore_checkpoint(const Checkpoint& checkpoint, const CheckpointParts& parts,
                                  std::string_view name);

/// The names of the parts that a file's metadata lists; empty for a file that is no checkpoint.
LATHE_API std::vector<std::string> checkpoint_parts(const safetensors::Metadata& metadata);

/// The entries of one part, or of "rng", under the names that the part gave them.
LATHE_API StateDict checkpoint_section(const Checkpoint& checkpoint, std::string_view part);

}  // namespace lathe
