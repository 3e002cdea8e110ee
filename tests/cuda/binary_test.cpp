// The kernels of ops/elementwise_kernels/binary_cuda.cu and ops/elementwise_kernels/where_cuda.cu against the CPU ops: every op and dtype,
// and every way in which core/gpu/pointwise.cuh reads its operands.
#include <doctest/doctest.h>

#include "lathe/ops/binary.h"
#include "lathe/ops/where.h"
#include "libm_error.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const BinaryOp kLastOp = BinaryOp::kLogicalXor;

bool is_compare(BinaryOp op) { return op >= BinaryOp::kEq; }
bool is_float_only(BinaryOp op) {
  return op == BinaryOp::kDiv || op == BinaryOp::kHypot || op == BinaryOp::kAtan2 ||
         (op >= BinaryOp::kReluGrad && op <= BinaryOp::kGeluTanhGrad);
}

/// Of the larger of f32's and f64's error; -1: none.
double ulps_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAtan2: return 3;
    case BinaryOp::kPow: return 4;
    case BinaryOp::kHypot: return 3;
    case BinaryOp::kGeluGrad:
    case BinaryOp::kGeluTanhGrad: return 16;  // erf, exp or tanh, 2 each, times up to 6 at |x| = 3
    default: return -1;
  }
}

double form_ulps_of(BinaryOp op) {
  return op == BinaryOp::kAtan2 ? 2 : op == BinaryOp::kPow ? 1 : 0;
}

void compare(BinaryOp op, const Tensor& out_like, const Tensor& a, const Tensor& b) {
  const DType dtype = is_compare(op) ? kBool : a.dtype();
  const Tensor want = empty_like(out_like, dtype);
  const Tensor got = empty_like(on_device(out_like), dtype);
  cpu::binary(op, want, a, b);
  cuda::binary(op, got, on_device(a), on_device(b));
  const double ulps = is_floating(dtype) ? ulps_of(op) : -1;
  const double tolerance = ulps < 0 ? 0 : libm_error(dtype, ulps, form_ulps_of(op));
  const std::string text = difference(on_host(got), want, tolerance);
  CHECK_MESSAGE(text.empty(), "op ", static_cast<int>(op), " ", concat(a), ", ", concat(b), ": ",
                text);
}

Tensor sample(const Shape& shape, DType dtype) {
  if (is_floating(dtype)) return randn(shape, {.dtype = dtype});
  if (dtype == kBool) return cast(randint(0, 2, shape), kBool);
  return randint(0, 12, shape, {.dtype = dtype});
}

}  // namespace

TEST_CASE(
    "binary kernels: equal the CPU op, libm's functions aside bit for bit, for every op and "
    "dtype") {
  for (int i = 0; i <= static_cast<int>(kLastOp); ++i) {
    const auto op = static_cast<BinaryOp>(i);
    for (int d = 0; d < kNumDTypes; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (is_float_only(op) && !is_floating(dtype)) continue;
      if (dtype == kBool && !is_compare(op)) continue;
      const Tensor a = sample({3, 21}, dtype), b = sample({3, 21}, dtype);
      compare(op, a, a, b);
    }
  }
}

TEST_CASE("binary kernels: every layout and broadcast, dense in packets or element by element") {
  const struct {
    Shape a, b;
  } shapes[] = {
      {{7, 45}, {7, 45}},         // dense with a rest
      {{6, 32}, {32}},            // a bias: dense rows, the second operand repeats
      {{2, 3, 4, 8}, {3, 1, 1}},  // one number per channel
      {{2, 3, 5, 7}, {3, 1, 1}},  // the same with rows that make no packets
      {{4, 1, 16}, {5, 1}},       // both broadcast
      {{7, 45}, {1}},
      {{1, 5}, {3, 1}},
      {{1025}, {1025}},
      {{31}, {1}},
      {{1}, {1}},
      {{0, 3}, {1, 3}},
  };
  for (const BinaryOp op : {BinaryOp::kSub, BinaryOp::kLt}) {
    for (const auto& s : shapes) {
      const Shape shape = broadcast_shapes("test", s.a, s.b);
      const Tensor dense = zeros(shape);
      for (const Layout& layout : layouts()) {
        compare(op, dense, layout.apply(randn(s.a)), layout.apply(randn(s.b)));
        compare(op, dense, layout.apply(randn(s.b)), layout.apply(randn(s.a)));
      }
    }
  }
  const Tensor nhwc = contiguous(randn({2, 5, 3, 4}), kChannelsLast);
  compare(BinaryOp::kAdd, nhwc, nhwc, contiguous(randn({2, 5, 3, 4}), kChannelsLast));
  compare(BinaryOp::kAdd, nhwc, nhwc, randn({5, 1, 1}));  // a bias in NHWC
  compare(BinaryOp::kAdd, nhwc, nhwc, randn({2, 5, 3, 4}));
  const Tensor line = randn({66});
  const Tensor odd = line.narrow(0, 1, 64);  // dense but not aligned to a packet
  compare(BinaryOp::kMul, odd, odd, line.narrow(0, 2, 64));
  compare(BinaryOp::kMul, odd, odd, odd.narrow(0, 0, 1).expand({64}));
}

TEST_CASE("binary kernels: a 0-d CPU operand is a number, on either side") {
  for (const DType dtype : {kF32, kF16, kI64}) {
    const Tensor x = sample({5, 9}, dtype), number = sample({}, dtype);
    const Tensor want = empty_like(x), got = empty_like(on_device(x));
    cpu::binary(BinaryOp::kSub, want, x, number);
    cuda::binary(BinaryOp::kSub, got, on_device(x), number);
    CHECK(difference(on_host(got), want, 0) == "");
    cpu::binary(BinaryOp::kSub, want, number, x);
    cuda::binary(BinaryOp::kSub, got, number, on_device(x));
    CHECK(difference(on_host(got), want, 0) == "");
  }
}

TEST_CASE("binary kernels: in place") {
  const Tensor x = randn({33, 5}), y = randn({33, 5});
  const Tensor want = empty_like(x), device_x = on_device(x.clone());
  cpu::binary(BinaryOp::kAdd, want, x, y);
  cuda::binary(BinaryOp::kAdd, device_x, device_x, on_device(y));
  CHECK(difference(on_host(device_x), want, 0) == "");
}

TEST_CASE("where kernel: equals the CPU op for every dtype, layout and broadcast") {
  const auto compare_where = [](const Tensor& out_like, const Tensor& cond, const Tensor& a,
                                const Tensor& b) {
    const Tensor want = empty_like(out_like), got = empty_like(on_device(out_like));
    cpu::where(want, cond, a, b);
    cuda::where(got, on_device(cond), on_device(a), on_device(b));
    const std::string text = difference(on_host(got), want, 0);
    CHECK_MESSAGE(text.empty(), concat(cond), " ", concat(a), " ", concat(b), ": ", text);
  };
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    const Tensor a = sample({3, 21}, dtype);
    compare_where(a, sample({3, 21}, kBool), a, sample({3, 21}, dtype));
  }
  for (const Layout& layout : layouts()) {
    const Tensor out = zeros({4, 5, 16});
    compare_where(out, layout.apply(sample({4, 5, 16}, kBool)), layout.apply(randn({4, 5, 16})),
                  layout.apply(randn({5, 1})));
    compare_where(out, layout.apply(sample({5, 1}, kBool)), randn({1}), layout.apply(randn({16})));
  }
  compare_where(zeros({0, 3}), zeros({1, 3}, {.dtype = kBool}), zeros({0, 3}), zeros({1}));
  // A 0-d CPU operand is a number.
  const Tensor cond = sample({5, 9}, kBool), x = randn({5, 9}), number = tensor(2.5f);
  const Tensor got = empty_like(on_device(x));
  cuda::where(got, on_device(cond), number, on_device(x));
  CHECK(difference(on_host(got), where(cond, number, x), 0) == "");
  cuda::where(got, on_device(cond), on_device(x), number);
  CHECK(difference(on_host(got), where(cond, x, number), 0) == "");
}
