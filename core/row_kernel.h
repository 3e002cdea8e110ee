// RowKernel: an elementwise kernel as a value. Op and dtype choose it once, and it is then called
// for many rows (strided_loop.h): by the op itself, and by a graph that runs several ops on a row
// while it is in the cache.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "lathe/core/dtype.h"
#include "lathe/core/strided_loop.h"

namespace lathe {

class RowKernel {
 public:
  /// Calls row(r, f) for each row r. Operand 0 has elements of `result`, the others of `operands`;
  /// where a kernel says so, its first input has another dtype.
  template <auto row, class F>
  static RowKernel of(DType result, DType operands, const F& f) {
    static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= kRoom);
    RowKernel kernel;
    kernel.result_ = result;
    kernel.operands_ = operands;
    if constexpr (!std::is_empty_v<F>) std::memcpy(kernel.functor_, &f, sizeof(F));
    kernel.call_ = [](const StridedRow& r, const std::byte* bytes) {
      F copy;
      if constexpr (!std::is_empty_v<F>) std::memcpy(&copy, bytes, sizeof(F));
      row(r, copy);
    };
    return kernel;
  }

  /// Element i of the result depends on the operands' elements i only. The result may share no
  /// memory with an operand, unless it is that operand.
  void operator()(const StridedRow& row) const { call_(row, functor_); }

  DType result() const { return result_; }
  DType operands() const { return operands_; }

 private:
  static constexpr size_t kRoom = 16;  // two numbers of f64

  void (*call_)(const StridedRow&, const std::byte*) = nullptr;
  alignas(8) std::byte functor_[kRoom] = {};
  DType result_ = DType::kF32, operands_ = DType::kF32;
};

namespace cpu {
/// The kernel of copies that convert: result, source. copy.cpp.
RowKernel copy_kernel(DType result, DType source);
}  // namespace cpu

}  // namespace lathe
