// The one loop behind every elementwise kernel on the CPU: any strides, any broadcasting, and inner
// rows that are few and long. It walks the nest of core/loop_nest.h.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"

namespace lathe {

/// One row of a strided loop: for operand k, element i is at `data[k] + i * step[k]` (bytes).
struct StridedRow {
  char* const* data;
  const int64_t* step;
  int64_t size;

  template <class T>
  T* at(int k) const {
    return reinterpret_cast<T*>(data[k]);
  }
  /// True if operand k is dense (or the row has one element).
  template <class T>
  bool dense(int k) const {
    return step[k] == static_cast<int64_t>(sizeof(T)) || size == 1;
  }
};

/// An operand: a tensor seen with the loop's dimensions. Broadcast dimensions have stride 0.
struct StridedOperand {
  char* data = nullptr;
  int64_t element_bytes = 0;
  Strides strides;  // in elements, one per dimension of the loop's shape
};

/// The strides with which `t` is read as a tensor of the larger `shape`: aligned right, and stride
/// 0 where t has size 1.
LATHE_API Strides broadcast_strides(const Tensor& t, const Shape& shape);

/// Runs `row` over all elements of `shape`, for at most 4 operands, the first being the output.
/// Dimensions are sorted by the output's strides, and merged where all operands allow it. From
/// kParallelGrain elements on, the rows are divided among the pool's threads. What a row computes
/// does not depend on the thread that runs it.
LATHE_API void strided_loop(const Shape& shape, std::initializer_list<StridedOperand> operands,
                            FunctionRef<void(const StridedRow&)> row);

/// Like strided_loop() of a shape, for tensors: all of them broadcast to `out`'s shape.
LATHE_API void strided_loop(const Tensor& out, FunctionRef<void(const StridedRow&)> row);
LATHE_API void strided_loop(const Tensor& out, const Tensor& a,
                            FunctionRef<void(const StridedRow&)> row);
LATHE_API void strided_loop(const Tensor& out, const Tensor& a, const Tensor& b,
                            FunctionRef<void(const StridedRow&)> row);
LATHE_API void strided_loop(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c,
                            FunctionRef<void(const StridedRow&)> row);

/// The least number of elements that one thread should get, for cheap arithmetic.
inline constexpr int64_t kParallelGrain = 32768;

}  // namespace lathe
