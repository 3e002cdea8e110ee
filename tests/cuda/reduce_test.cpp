// The reduction kernels of ops/reduce_kernels/reduce_cuda.cu against the CPU op: every op, dtype, layout and
// kernel.
#include "lathe/ops/reduce.h"

#include <doctest/doctest.h>

#include <limits>

#include "lathe/core/copy.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape x, kept;  // kept: size 1 where reduced
};
const Case kCases[] = {
    {{3, 4}, {1, 1}},
    {{3, 4}, {1, 4}},
    {{33, 31}, {33, 1}},
    {{2, 3, 4, 5}, {1, 3, 1, 1}},  // two reduced dimensions, rows
    {{2, 3, 4, 5}, {2, 1, 4, 1}},
    {{2, 3, 5, 4}, {1, 1, 5, 4}},
    {{3, 1023}, {3, 1}},   // a warp per result
    {{2, 1025}, {2, 1}},   // a block per result
    {{9001}, {1}},         // two chunks
    {{300, 11}, {1, 11}},  // columns, many rows
    {{5, 300}, {1, 300}},  // more columns than a block is wide
    {{3000, 3}, {1, 3}},   // columns in chunks
    {{7, 1}, {7, 1}},      // nothing is reduced
    {{}, {}},
    {{0, 3}, {1, 3}},  // of nothing
    {{3, 0}, {1, 0}},  // no results
};

constexpr ReduceOp kAny[] = {ReduceOp::kSum,  ReduceOp::kProd, ReduceOp::kAmax,
                             ReduceOp::kAmin, ReduceOp::kAll,  ReduceOp::kAny};
constexpr ReduceOp kFloating[] = {ReduceOp::kMean, ReduceOp::kVar, ReduceOp::kStd, ReduceOp::kNorm,
                                  ReduceOp::kLogSumExp};

void compare(ReduceOp op, const Tensor& x, const Shape& kept, int64_t correction = 1) {
  if (x.numel() == 0 && (op == ReduceOp::kAmax || op == ReduceOp::kAmin)) return;  // an error
  DType dtype = x.dtype();
  if (op == ReduceOp::kAll || op == ReduceOp::kAny) dtype = kBool;
  if ((op == ReduceOp::kSum || op == ReduceOp::kProd) && !is_floating(dtype)) dtype = kI64;
  const Tensor device_x = on_device(x);
  const Tensor want = empty(kept, {.dtype = dtype});
  const Tensor got = empty(kept, {.dtype = dtype, .device = device_x.device()});
  cpu::reduce(op, want, x, correction);
  cuda::reduce(op, got, device_x, correction);
  const std::string wrong = difference(on_host(got), want, tolerance_of(dtype));
  CHECK_MESSAGE(wrong.empty(), "op ", static_cast<int>(op), " of ", concat(x, " to ", kept), ": ",
                wrong);
}

}  // namespace

TEST_CASE("reduce kernels: agree with the CPU for every op, case and layout") {
  for (const Case& c : kCases) {
    const Tensor x = randn(c.x);
    for (const Layout& layout : layouts()) {
      CAPTURE(layout.name);
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kVar}) {
        compare(op, layout.apply(x), c.kept);
      }
    }
    for (const ReduceOp op : kAny) compare(op, x, c.kept);
    for (const ReduceOp op : kFloating) compare(op, x, c.kept, 0);
  }
}

TEST_CASE("reduce kernels: every dtype") {
  const Shape kept{5, 1, 3};
  for (const DType dtype : {kF16, kBF16, kF32, kF64}) {
    const Tensor x = randn({5, 40, 3}, {.dtype = dtype});
    for (const ReduceOp op : kAny) compare(op, x, kept);
    for (const ReduceOp op : kFloating) compare(op, x, kept);
    // Read in packets, of rows and of columns; the rows of `odd` begin anywhere.
    const Tensor even = randn({80, 264}, {.dtype = dtype}),
                 odd = randn({5, 1031}, {.dtype = dtype});
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAmax, ReduceOp::kVar, ReduceOp::kNorm, ReduceOp::kLogSumExp}) {
      for (const Shape& even_kept : {Shape{80, 1}, Shape{1, 264}, Shape{1, 1}})
        compare(op, even, even_kept);
      compare(op, odd, {5, 1});
    }
  }
  for (const DType dtype : {kBool, kU8, kI8, kI16, kI32, kI64}) {
    for (const int64_t high : {1, 2, 100}) {
      const Tensor x = cast(randint(0, high, {5, 40, 3}, {.dtype = kI64}), dtype);
      for (const ReduceOp op : kAny) compare(op, x, kept);
    }
  }
}

TEST_CASE("reduce kernels: overlapping, channels-last and far-apart elements") {
  const Tensor x = randn({2, 6, 3, 5}).contiguous(kChannelsLast);
  compare(ReduceOp::kSum, x, {1, 6, 1, 1});
  compare(ReduceOp::kMean, x, {2, 1, 3, 5});
  compare(ReduceOp::kVar, x, {2, 6, 1, 1});
  compare(ReduceOp::kSum, randn({4, 1}).expand({4, 50}), {4, 1});
  compare(ReduceOp::kSum, randn({1, 50}).expand({40, 50}), {1, 50});
  compare(ReduceOp::kAmax, randn({}).expand({3, 4}), {1, 1});
}

TEST_CASE("reduce kernels: NaN and infinity go where the CPU puts them") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t n : {3, 40, 1100}) {
    const Tensor x = randn({7, n});
    x.select(0, 1).fill_(-kInf);
    x.select(0, 2).fill_(kInf);
    x.select(0, 3).select(0, n - 1).fill_(kInf);
    x.select(0, 4).select(0, 1).fill_(-kInf);
    x.select(0, 5).select(0, 2).fill_(nan);
    x.select(0, 6).fill_(nan);
    for (const Tensor& t : {x, cast(x, kF64)}) {
      for (const ReduceOp op : kAny) compare(op, t, {7, 1});
      for (const ReduceOp op : kFloating) compare(op, t, {7, 1});
    }
  }
}

TEST_CASE("reduce kernels: a large mean does not cost the variance its digits") {
  const Tensor x = cast(randn({2000}, {.dtype = kF64}) + 1e4, kF32);
  for (const Shape& shape : {Shape{2000, 1}, Shape{1, 2000}, Shape{1000, 2}}) {
    const Tensor rows = on_device(x.reshape(shape));
    const Shape kept{1, shape[1]};
    const Tensor exact = empty(kept, {.dtype = kF64});
    cpu::reduce(ReduceOp::kVar, exact, cast(x, kF64).reshape(shape), 0);
    const Tensor got = empty(kept, {.device = rows.device()});
    cuda::reduce(ReduceOp::kVar, got, rows, 0);
    CHECK(difference(on_host(got), exact, 1e-5) == "");
  }
}

TEST_CASE("reduce kernels: offsets beyond 32 bits") {
  // Few elements, far apart; the rest of the memory is never touched.
  const int64_t far = (int64_t{1} << 31) + 8;
  const Tensor room = empty({far + 64}, {.dtype = kU8, .device = kernel_device()});
  const Tensor x = alias(room, {2, 3, 2}, {far, 5, 2}, 0);
  const Tensor values = cast(randint(0, 100, {2, 3, 2}, {.dtype = kI64}), kU8);
  copy_values(x, on_device(values));
  for (const Shape& kept : {Shape{1, 1, 1}, Shape{2, 1, 2}, Shape{1, 3, 1}, Shape{2, 3, 2}}) {
    const Tensor want = empty(kept, {.dtype = kI64});
    const Tensor got = empty(kept, {.dtype = kI64, .device = x.device()});
    cpu::reduce(ReduceOp::kSum, want, values, 0);
    cuda::reduce(ReduceOp::kSum, got, x, 0);
    CHECK(difference(on_host(got), want, 0) == "");
  }
}

TEST_CASE("reduce kernels: halves are summed in f32, norms in f64") {
  compare(ReduceOp::kSum, full({4096}, 1.0, {.dtype = kF16}), {1});  // f16 would stop at 2048
  compare(ReduceOp::kNorm, full({100}, 1e30), {1});
  compare(ReduceOp::kNorm, full({100}, 1e-30), {1});
}
