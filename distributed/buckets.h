// Bucket: gradients that travel between ranks as one tensor. Used by reducer.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::distributed {

/// True if a and b can lie in one piece of memory: they have one dtype and one device.
bool travel_together(const Tensor& a, const Tensor& b);

/// The gradients of some parameters of one dtype and device, one after another in one piece of
/// memory, and behind them a mark for each.
class Bucket {
 public:
  Bucket(const Tensors& parameters, std::vector<size_t> members);

  const std::vector<size_t>& members() const { return members_; }
  int64_t bytes() const;

  /// Makes sure that nobody else sees the memory: where somebody holds a gradient that lies in it,
  /// takes new memory. `fresh`: in any case; a graph that is recorded then has it for itself.
  void take_memory(bool fresh = false);
  /// The place of the k-th member's gradient, with the strides of its parameter.
  Tensor gradient(size_t k) const;
  /// All marks, one dimension.
  Tensor marks() const;
  const Tensor& memory() const { return memory_; }

 private:
  std::vector<size_t> members_;
  Tensors parameters_;            // of the members
  std::vector<int64_t> offsets_;  // in elements; the last one is where the marks begin
  Tensor memory_;
};

/// Divides the parameters into buckets. Each takes parameters in `order` until it has
/// `first_bytes` (the first one) or `bytes`. Buckets come in the order of their last members.
std::vector<Bucket> make_buckets(const Tensors& parameters, const std::vector<size_t>& order,
                                 int64_t first_bytes, int64_t bytes);

}  // namespace lathe::distributed
