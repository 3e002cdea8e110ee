// GpuDescription: a GPU that need not be there, described well enough for cuDNN to plan for it
// (gpu/cudnn_described.h). In every build.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// What the data sheet promises, in operations and bytes per second; 0: not known. A multiplication
/// with addition is 2 operations; sums of halves are f32, without sparsity.
struct GpuPeaks {
  double half_flops = 0, tf32_flops = 0, f32_flops = 0, bytes = 0;
};

struct GpuDescription {
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
  GpuPeaks peaks = {};  // of a known GPU, or of a file that names one as its device
  std::string json;  // the whole description, in the form that cuDNN 9.8 and later reads and writes
};

/// The GPUs that gpu_description() knows by name: "h200", "h100", "a100", "l4", "rtx4090". Their
/// descriptions are made by hand from data sheets, not read from a GPU.
LATHE_API std::span<const std::string_view> known_gpus();

/// The GPU of this name, or the one that the file of this path describes.
/// throws: ValueError if it is neither a name nor a file; FileError; DataError naming the file and
/// what is wrong in it.
LATHE_API GpuDescription gpu_description(const std::string& name_or_path);

/// A description from its text: a JSON object with all the keys that cuDNN needs. Others may stand
/// beside them.
/// throws: DataError naming the key that is missing or has a wrong value, or saying that it is no
/// JSON, is nested too deep, or holds a value that cannot be read.
LATHE_API GpuDescription parse_gpu_description(std::string_view json);

}  // namespace lathe
