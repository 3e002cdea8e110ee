// RandomStart: where a random call starts, as ops hand it to their kernels. Generators are in
// core/random/generator.h.
#pragma once

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe {

/// A RandomStart as the argument of a kernel.
struct PhiloxStart {
  uint64_t seed, offset;
  const Generator::State* base;  // in the GPU's memory, or null

  /// The key and the first counter of the call.
  LATHE_HD Generator::State state() const {
    if (base == nullptr) return {seed, offset};
    return {base->seed, base->offset + offset};
  }
};

/// Where a random call starts. Most often the host knows it. In a CUDA graph each launch starts
/// elsewhere: then `offset` counts from a state in the GPU's memory, which the launch sets.
class LATHE_API RandomStart {
 public:
  RandomStart(Generator::State start) : start_(start) {}
  /// base  i64 [2] on a GPU: a seed and an offset
  RandomStart(Tensor base, uint64_t offset) : start_{0, offset}, base_(std::move(base)) {}

  /// For the CPU and for cuRAND.
  /// throws: StateError if only the GPU knows it.
  operator Generator::State() const;
  /// Valid as long as this object or a copy of it lives.
  PhiloxStart in_kernel() const;

 private:
  Generator::State start_;
  Tensor base_;
};

/// Counters for a random op on `device` that needs `words` words, of `generator` or, if that is
/// null, of the device's default one. While the device's work is captured by a cuda::Graph, each
/// launch takes its own (core/capture/cuda_graph.h).
/// throws: StateError in a capture that no cuda::Graph makes, or if the generator was seeded or set
/// back in the capture to before its first draw there.
LATHE_API RandomStart reserve_words(Generator* generator, Device device, int64_t words);

}  // namespace lathe
