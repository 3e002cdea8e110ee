// The kernels of ops/index_kernels/index_cuda.cu and ops/index_kernels/index_sum_cuda.cu against the CPU's: equal to the last
// bit, sums included.
#include "lathe/ops/index.h"

#include "fault.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr DType kNumbers[] = {kF32, kF64, kF16, kBF16, kU8, kI8, kI16, kI32, kI64};

Tensor numbers(const Shape& shape, DType dtype) {
  if (is_floating(dtype)) return randn(shape, {.dtype = dtype});
  if (dtype == kBool) return cast(randint(0, 2, shape, {.dtype = kU8}), kBool);
  return randint(0, 100, shape, {.dtype = dtype});
}

void check_equal(const Tensor& got, const Tensor& want, const std::string& name) {
  const std::string text = difference(on_host(got), want, 0);
  CHECK_MESSAGE(text.empty(), name, ": ", text);
}

struct Slices {
  int64_t outer, n, count, inner;
};

void compare_slices(const Slices& s, DType dtype) {
  const std::string name = concat(dtype, " ", s.outer, " ", s.n, " ", s.count, " ", s.inner);
  const Tensor index = randint(0, s.n, {s.count}, {.dtype = kI64}), d_index = on_device(index);
  const Tensor x = numbers({s.outer, s.n, s.inner}, dtype);
  const Tensor picked = empty({s.outer, s.count, s.inner}, {.dtype = dtype});
  const Tensor got = on_device(zeros(picked.shape(), {.dtype = dtype}));
  cpu::index_select(picked, x, index);
  cuda::index_select(got, on_device(x), d_index);
  check_equal(got, picked, "index_select " + name);
  if (dtype == kBool) return;

  const Tensor sums = empty_like(x), got_sums = on_device(empty_like(x));
  cpu::index_sum(sums, picked, index);
  cuda::index_sum(got_sums, on_device(picked), d_index);
  check_equal(got_sums, sums, "index_sum " + name);
}

void compare_lines(const Tensor& x, int dim, const Tensor& index) {
  const Tensor d_x = on_device(x), d_index = on_device(index);
  const std::string name = concat(x, " along ", dim, " at ", index);
  const Tensor y = empty(index.shape(), {.dtype = x.dtype()});
  const Tensor got = on_device(empty_like(y));
  cpu::gather(y, x, dim, index);
  cuda::gather(got, d_x, dim, d_index);
  check_equal(got, y, "gather " + name);
  if (x.dtype() == kBool) return;

  const Tensor sums = empty(x.shape(), {.dtype = x.dtype()});
  const Tensor got_sums = on_device(empty_like(sums));
  Tensor source = x;
  for (int d = 0; d < x.ndim(); ++d) source = source.slice(d, 0, 1);
  source = source.expand(index.shape());  // any strides, 0 among them
  cpu::scatter_sum(sums, source, dim, index);
  cuda::scatter_sum(got_sums, on_device(source), dim, d_index);
  check_equal(got_sums, sums, "scatter_sum of an expanded tensor " + name);
  cpu::scatter_sum(sums, y, dim, index);
  cuda::scatter_sum(got_sums, on_device(y), dim, d_index);
  check_equal(got_sums, sums, "scatter_sum " + name);
}

}  // namespace

TEST_CASE("index_select, index_sum kernels: equal the CPU for every dtype, unit and length") {
  manual_seed(41);
  for (const DType dtype : kNumbers) {
    for (const Slices& s : {Slices{1, 5, 7, 3}, {2, 3, 40, 1}, {2, 4, 3, 32}}) {
      compare_slices(s, dtype);
    }
  }
  compare_slices({1, 4, 9, 5}, kBool);
  for (const Slices& s :
       {Slices{0, 3, 2, 4}, {2, 3, 0, 4}, {2, 3, 5, 0}, {1, 1, 1100, 1}, {1, 50, 1500, 2}}) {
    compare_slices(s, kF32);
  }
  const Tensor wide = on_device(randn({1, 6, 9})), index = on_device(full({2}, 3, {.dtype = kI64}));
  const Tensor odd = alias(wide, {1, 5, 8}, {40, 8, 1}, 1), y = on_device(zeros({1, 2, 8}));
  cuda::index_select(y, odd, index);  // an address that no packet fits
  check_equal(y, on_host(odd).slice(1, 3, 4).expand({1, 2, 8}), "index_select at an odd address");
}

TEST_CASE("gather, scatter_sum kernels: equal the CPU for every dtype, dimension and layout") {
  manual_seed(42);
  for (const DType dtype : kNumbers) {
    compare_lines(numbers({4, 5}, dtype), 1, randint(0, 5, {3, 7}, {.dtype = kI64}));
    compare_lines(numbers({20, 3}, dtype), 0, randint(0, 20, {70, 2}, {.dtype = kI64}));
  }
  compare_lines(ones({4}, {.dtype = kBool}), 0, randint(0, 4, {6}, {.dtype = kI64}));
  for (const Layout& layout : layouts()) {
    const Tensor x = layout.apply(randn({3, 6, 4}));
    for (int dim = 0; dim < 3; ++dim) {
      Shape shape = {2, 5, 4};
      for (const int64_t length : {0, 1, 40}) {
        shape[dim] = length;
        compare_lines(x, dim, layout.apply(randint(0, x.dim(dim), shape, {.dtype = kI64})));
      }
    }
  }
  compare_lines(randn({300}), 0, randint(0, 300, {1300}, {.dtype = kI64}));
}

TEST_CASE("index kernels: an index out of range raises the fault and spoils nothing else") {
  const Tensor index = on_device(arange(-1, 3)), x = on_device(ones({1, 3, 2}));  // -1 0 1 2
  const auto check_fault = [&](const std::string& op) {
    const FaultReport fault = take_fault();
    REQUIRE(fault.raised == 1);
    CHECK(std::string(fault.op) == op);
    CHECK(fault.position == 0);
    CHECK(fault.value == -1);
    CHECK(fault.limit == 3);
  };
  const Tensor y = on_device(full({1, 4, 2}, 7.0));
  cuda::index_select(y, x, index);
  check_fault("index_select");
  CHECK(on_host(y).sum().item<float>() == 6);
  const Tensor line = on_device(full({4}, 7.0)), three = on_device(ones({3}));
  cuda::gather(line, three, 0, index);
  check_fault("gather");
  CHECK(on_host(line).sum().item<float>() == 3);
  cuda::scatter_sum(three, on_device(ones({4})), 0, index);
  check_fault("scatter_add");
  CHECK(on_host(three).sum().item<float>() == 3);
  const Tensor many = on_device(arange(-1, 39)), sums = on_device(empty({3}));
  cuda::scatter_sum(sums, on_device(ones({40})), 0, many);
  CHECK(take_fault().raised == 1);
  CHECK(on_host(sums).sum().item<float>() == 3);
}
