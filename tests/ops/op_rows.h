// The ops of the table in ops/README.md, each with a call of it, for op_table_test.cpp. They are
// listed by kind in op_rows_elementwise.cpp, op_rows_shapes.cpp and op_rows_layers.cpp.
#pragma once

#include <span>
#include <string>

#include "lathe/lathe.h"

namespace lathe::test {

using T = const Tensor&;

/// An op applied to a tensor of ones [2,2,3,3], or to parts of it.
struct OpRow {
  std::string op;
  Tensor (*f)(T x);
};

std::span<const OpRow> elementwise_rows();
std::span<const OpRow> shape_rows();
std::span<const OpRow> layer_rows();

// --- parts of x, and tensors that go with it ----
inline Tensor matrix(T x) { return x[0][0]; }
inline Tensor one(T x) { return eye(3, x.options()); }
inline Tensor index(T x) { return zeros({3}, {.dtype = kI64, .device = x.device()}); }
inline Tensor mask(T x) { return zeros(x.shape(), {.dtype = kBool, .device = x.device()}); }
inline Tensor stats(T x) {
  return ones({2}, {.dtype = x.dtype() == kF64 ? kF64 : kF32, .device = x.device()});
}

}  // namespace lathe::test
