// The portable matrix product of ops/matmul_kernels/matmul_cuda.cu against the CPU's.
#include "lathe/ops/matmul.h"

#include "lathe/ops/matmul_kernels/matmul_cuda.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape a, b;
};
const Case kCases[] = {
    {{1, 1}, {1, 1}},           {{3, 5}, {5, 4}},       {{65, 17}, {17, 66}},
    {{130, 16}, {16, 3}},       {{2, 0}, {0, 3}},       {{0, 4}, {4, 3}},
    {{3, 2, 7}, {3, 7, 5}},     {{0, 2, 3}, {0, 3, 2}}, {{5, 600}, {600, 6}},
    {{2, 3, 530}, {2, 530, 4}},  // terms in several parts
};

/// f32 sums in another order: 1e-4 as the rule for products says.
double tolerance(DType dtype) { return dtype == kF32 ? 1e-4 : tolerance_of(dtype); }

void compare(const Tensor& a, const Tensor& b) {
  const Tensor want = cpu::matmul(a, b), got = cuda::portable_matmul(on_device(a), on_device(b));
  CHECK(got.dtype() == want.dtype());
  const std::string text = difference(on_host(got), want, tolerance(a.dtype()));
  CHECK_MESSAGE(text.empty(), concat(a, " x ", b), ": ", text);
}

}  // namespace

TEST_CASE("matmul kernels: agree with the CPU for every size, layout and dtype") {
  manual_seed(61);
  for (const Case& c : kCases) compare(randn(c.a), randn(c.b));
  for (const Layout& left : layouts()) {
    for (const Layout& right : layouts()) {
      compare(left.apply(randn({2, 9, 20})), right.apply(randn({2, 20, 7})));
    }
  }
  for (const DType dtype : {kF16, kBF16, kF64}) {
    compare(randn({9, 40}, {.dtype = dtype}), randn({40, 20}, {.dtype = dtype}));
  }
  for (const DType dtype : {kU8, kI8, kI16, kI32, kI64}) {
    compare(randint(0, 120, {5, 40}, {.dtype = dtype}), randint(0, 120, {40, 6}, {.dtype = dtype}));
  }
  compare(randn({1, 6, 8}).expand({3, 6, 8}), randn({3, 8, 5}));  // a batch of one matrix
  compare(randn({4, 1}).expand({4, 30}), randn({1, 5}).expand({30, 5}));
}

TEST_CASE("linear kernels: agree with the CPU, with and without a bias") {
  manual_seed(62);
  const auto compare_linear = [](const Tensor& x, const Tensor& w, const Tensor& bias) {
    const Tensor want = cpu::linear(x, w, bias);
    const Tensor got =
        cuda::portable_linear(on_device(x), on_device(w), bias.defined() ? on_device(bias) : bias);
    const std::string text = difference(on_host(got), want, tolerance(x.dtype()));
    CHECK_MESSAGE(text.empty(), concat(x, " ", w), ": ", text);
  };
  for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
    const auto random = [&](const Shape& shape) { return randn(shape, {.dtype = dtype}); };
    compare_linear(random({7, 40}), random({10, 40}), random({10}));
    compare_linear(random({7, 40}), random({10, 40}), {});
    compare_linear(random({3, 700}), random({5, 700}), random({10}).slice(0, 0, 10, 2));
    compare_linear(random({4, 0}), random({5, 0}), random({5}));
    compare_linear(random({9, 6}).transpose(0, 1), random({9, 4}).transpose(0, 1), random({4}));
  }
}
