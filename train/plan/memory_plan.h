// The memory of a step on a GPU: what two small steps took and gave back on the CPU, at any batch,
// replayed on the allocator itself (core/memory/block_pool.h) over addresses that nothing touches.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/plan/step_recording.h"

namespace lathe::plan {

/// Takes a block, or gives it back. Its bytes lie on a line over the batch; where those of the two
/// steps do not, the line rises by whole bytes, rounded up.
struct MemoryStep {
  int64_t block = 0;
  bool taken = false;
  int64_t bytes = 0, bytes_per_image = 0;  // for no image, and for each
};

/// What a process does with a GPU's memory, from the model's weights to the end of the third step.
struct MemoryScript {
  std::vector<MemoryStep> steps;
  size_t last_step = 0;  // where the third step begins
};

/// What a step takes and gives back on a GPU, where half copies stay (autograd/half_copy.h),
/// gradients of weights stay half, and batch norm gets two gradients, which are added up before the
/// watcher of the recording sees them. All that is used within an op is left out: what the CPU's
/// kernels and library take, and what the GPU's would, which are workspaces of cuDNN and cuBLASLt,
/// copies with filled-up channels (of 512 fp16 images at 224 x 224: 411 MB) and partial sums.
/// throws: StateError if the two recordings do not take the same blocks.
LATHE_API MemoryScript memory_script(const StepRecording& a, const StepRecording& b);

struct PlannedMemory {
  int64_t peak_allocated = 0;  // of the third step, the allocator's rounding included
  int64_t reserved = 0;        // what the allocator then holds of the GPU
};

/// The script at `batch` on a GPU with so much memory.   → none if it does not suffice
LATHE_API std::optional<PlannedMemory> replay(const MemoryScript& script, int64_t batch,
                                              int64_t memory_bytes);

/// What largest_batch() tries at most.
inline constexpr int64_t kMostImages = int64_t{1} << 24;

/// What the allocator has given out after each block that the third step takes or gives back, to
/// the last one that it takes (behind which the recorded process ends): bytes at `batch` on a GPU
/// with so much memory. Empty if it does not suffice.
LATHE_API std::vector<int64_t> memory_over_step(const MemoryScript& script, int64_t batch,
                                                int64_t memory_bytes);

/// The most images that fit, 0 if not even one does. kMostImages stands for that many or more.
LATHE_API int64_t largest_batch(const MemoryScript& script, int64_t memory_bytes);

}  // namespace lathe::plan
