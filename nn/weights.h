// A model's weights in files. save() writes safetensors (core/formats/safetensors.h); load() also reads
// NumPy's .npz and PyTorch's .pth (core/formats/tensor_file.h).
#pragma once

#include <string>

#include "lathe/core/formats/safetensors.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// Writes the state dict: names are the keys, values row-major (convolution weights OIHW) whatever
/// the layout in memory. The file is replaced in one step: `path` is always a complete old or new
/// file.
/// throws: FileError.
LATHE_API void save(const Module& model, const std::string& path,
                    const safetensors::Metadata& metadata = {});

/// Reads and checks the whole file, then changes the model: all or nothing.   → what was missing
/// and unexpected (not strict). A checkpoint (checkpoint.h) is a weights file with more in it: its
/// other parts are passed over, and so are, in a file that names no parts, entries optimizer.*,
/// scheduler.*, scaler.*, ema.*, rng.*, loader.* and trainer.* that the model does not have. A .pth
/// file from before batch norms counted their batches is completed with zeros.
/// throws: FileError, DataError (the file), ValueError naming the file and listing the entries that
/// do not fit.
LATHE_API LoadReport load(Module& model, const std::string& path, const LoadOptions& options = {});

}  // namespace lathe::nn
