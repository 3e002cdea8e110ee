// The unary kernels of ops/elementwise_kernels/unary_cuda.cu against the CPU op: every op, every dtype, dense and
// strided.
#include <doctest/doctest.h>

#include "lathe/core/x86_levels.h"
#include "lathe/ops/unary.h"
#include "libm_error.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {
/// Of the larger of f32's and f64's error. What is made of such a function adds its roundings.
double ulps_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::kExpm1:
    case UnaryOp::kLog:
    case UnaryOp::kLog1p:
    case UnaryOp::kLog2: return 1;
    case UnaryOp::kExp:
    case UnaryOp::kSin:
    case UnaryOp::kCos:
    case UnaryOp::kTanh:
    case UnaryOp::kCosh:
    case UnaryOp::kLog10:
    case UnaryOp::kExp2:
    case UnaryOp::kAsin:
    case UnaryOp::kAcos:
    case UnaryOp::kAtan:
    case UnaryOp::kErf: return 2;
    case UnaryOp::kSinh:
    case UnaryOp::kAsinh:
    case UnaryOp::kAtanh: return 3;
    case UnaryOp::kTan:
    case UnaryOp::kAcosh: return 4;
    case UnaryOp::kSigmoid:
    case UnaryOp::kElu:
    case UnaryOp::kGelu:
    case UnaryOp::kGeluTanh:
    case UnaryOp::kSilu:
    case UnaryOp::kSoftplus: return 2 + 4;
    default: return -1;  // arithmetic, roots and comparisons: exact or rounded to the nearest
  }
}

double form_ulps_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::kSin:
    case UnaryOp::kCos:
    case UnaryOp::kTan: return 1;
    default: break;
  }
  if (!has_avx512()) return 0;
  switch (op) {  // ops/avx512_math.h
    case UnaryOp::kExp:
    case UnaryOp::kLog: return 1;
    case UnaryOp::kTanh: return 2;
    case UnaryOp::kSigmoid:
    case UnaryOp::kSilu:
    case UnaryOp::kGelu:
    case UnaryOp::kGeluTanh: return 4;
    default: return 0;
  }
}

void compare(UnaryOp op, const Tensor& x, UnaryParams params) {
  const DType dtype = op >= UnaryOp::kIsNan ? kBool : x.dtype();
  const Tensor want = empty_like(x, dtype), device_x = on_device(x);
  const Tensor got = empty_like(device_x, dtype);
  cpu::unary(op, want, x, params);
  cuda::unary(op, got, device_x, params);
  const double ulps = ulps_of(op),
               tolerance = ulps < 0 ? 0 : libm_error(dtype, ulps, form_ulps_of(op));
  const std::string text = difference(on_host(got), want, tolerance);
  CHECK_MESSAGE(text.empty(), "op ", static_cast<int>(op), " ", concat(x), ": ", text);
}
}  // namespace

TEST_CASE(
    "unary kernels: equal the CPU op, libm's functions aside bit for bit, for every op and dtype, "
    "and every layout in f32") {
  const UnaryParams params{0.5, 2.0};
  for (int i = 0; i <= static_cast<int>(UnaryOp::kIsFinite); ++i) {
    const auto op = static_cast<UnaryOp>(i);
    for (const Layout& layout : layouts()) compare(op, layout.apply(randn({7, 45})), params);
    for (const DType dtype : {kF16, kBF16, kF64}) {
      compare(op, randn({3, 20}, {.dtype = dtype}), params);
    }
    compare(op, zeros({0, 3}), params);
    compare(op, full({}, -1.5), params);
  }
  for (const UnaryOp op :
       {UnaryOp::kNeg, UnaryOp::kAbs, UnaryOp::kSign, UnaryOp::kSquare, UnaryOp::kRelu}) {
    for (const DType dtype : {kU8, kI8, kI16, kI32, kI64}) {
      compare(op, randint(0, 100, {3, 20}, {.dtype = dtype}), params);
    }
  }
}
