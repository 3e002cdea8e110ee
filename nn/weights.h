// A model's weights in files. save() writes safetensors (core/formats/safetensors.h); load() also
// reads NumPy's .npz and PyTorch's .pth (core/formats/tensor_file.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lathe/core/formats/safetensors.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// Writes the state dict: its names are the keys; values are row-major (convolution weights OIHW)
/// whatever the layout in memory. The file is replaced in one step: at any moment `path` is the
/// complete old file or the complete new one. A name that promises another format (".pth") is
/// warned about.
/// throws: FileError.
LATHE_API void save(const Module& model, const std::string& path,
                    const safetensors::Metadata& metadata = {});

/// The entries of a file that are meant for a model.
struct FileWeights {
  StateDict entries;   // under the model's names
  std::string prefix;  // what stood before these names in the file: "module."; usually nothing
};

/// Reads and checks a weights file; any model can be tried, nothing need fit.
/// A checkpoint (checkpoint.h) is a weights file with more in it; its other parts are left out. If
/// a file does not name its parts, entries optimizer.*, scheduler.*, scaler.*, ema.*, rng.*,
/// loader.* and trainer.* that the model does not have are left out.
/// If the model has none of the file's names as they are, prefixes are removed, also several in a
/// row: "module." (DistributedDataParallel), "_orig_mod." (torch.compile), "model." (Lightning),
/// and "backbone.", "net." or "encoder." (a part of a larger model) if that leaves all of the
/// model's names, but for those of its last layer.
/// Old .pth files lack num_batches_tracked; the missing entries are added as zeros. Where it was
/// rounded to a floating type it is an integer again.
/// `section`: which dictionary of a .pth file to read, as pth::ReadOptions has it.
/// throws: FileError; DataError for a bad file; pth::SectionError.
LATHE_API FileWeights read_weights(const std::string& path, const Module& model,
                                   const std::string& section = {});

/// The shape that a safetensors file or a checkpoint has for the model's entry `name`, with or
/// without a prefix as above. Its header is read and checked, its values are not.
/// → nullopt: it has no such entry
/// throws: FileError; DataError for a bad header.
LATHE_API std::optional<Shape> stored_shape(const std::string& path, std::string_view name);

/// Reads and checks the whole file, as read_weights() does, then changes the model: all or nothing.
/// → without `strict`: what was missing and unexpected
/// throws: FileError; DataError for a bad file; ValueError naming the file and listing the entries
/// that do not fit.
LATHE_API LoadReport load(Module& model, const std::string& path, const LoadOptions& options = {});

}  // namespace lathe::nn
