// Saves and loads a model's weights. save() writes safetensors (core/formats/safetensors.h); load()
// also reads NumPy's .npz and PyTorch's .pth (core/formats/tensor_file.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lathe/core/formats/safetensors.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// Writes the state dict under its names. Values are row-major (convolution weights OIHW), whatever
/// the layout in memory. The file is replaced atomically: at any moment `path` is the complete old
/// file or the complete new one. Warns if the name suggests another format (".pth").
/// throws: FileError.
LATHE_API void save(const Module& model, const std::string& path,
                    const safetensors::Metadata& metadata = {});

/// The entries of a file that belong to a model.
struct FileWeights {
  StateDict entries;   // under the model's names
  std::string prefix;  // prefix of these names in the file, as in "module."; usually empty
};

/// Reads and checks a weights file. The entries need not fit the model. They become the model's
/// entries as follows:
///   - If the file is a checkpoint (checkpoint.h), only the model's part is read. If a file does
///     not list its parts, entries optimizer.*, scheduler.*, scaler.*, ema.*, rng.*, loader.* and
///     trainer.* are left out, except for those that the model has.
///   - If no name of the file is a name of the model, prefixes are removed, also several in a row:
///     "module." (DistributedDataParallel), "_orig_mod." (torch.compile), "model." (Lightning).
///     "backbone.", "net." and "encoder." (a part of a larger model) are removed only if all names
///     of the model, except for those of its last layer, are there afterwards.
///   - A missing num_batches_tracked, as in old .pth files, is added as 0. A floating
///     num_batches_tracked is rounded to an integer, or set to 0 if it is no valid count.
/// `section` names the dictionary of a .pth file to read, as in pth::ReadOptions.
/// throws: FileError; DataError for a bad file; pth::SectionError.
LATHE_API FileWeights read_weights(const std::string& path, const Module& model,
                                   const std::string& section = {});

/// The shape of the model's entry `name` in a safetensors file or a checkpoint. The file may have
/// the prefixes of read_weights() before the name. Reads and checks the header, not the values.
/// → nullopt if the file has no such entry
/// throws: FileError; DataError for a bad header.
LATHE_API std::optional<Shape> stored_shape(const std::string& path, std::string_view name);

/// Reads and checks the whole file, as read_weights() does, then loads it into the model.
/// → without `strict`: the names of missing and unexpected entries
/// throws: FileError; DataError for a bad file; ValueError naming the file and listing the entries
/// that do not fit. Nothing has changed then.
LATHE_API LoadReport load(Module& model, const std::string& path, const LoadOptions& options = {});

}  // namespace lathe::nn
