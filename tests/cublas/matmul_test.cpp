// Matrix products through cuBLASLt against the CPU: on a GPU, or on the emulated one over the
// emulated cuBLASLt.
#include "lathe/ops/matmul.h"

#include <optional>

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../same_memory.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/stream.h"

using namespace lathe;
using namespace lathe::test;

TEST_SUITE_BEGIN("cublas" * cuda_case());

namespace {

const Device kGpu(DeviceType::kCUDA);

Tensor there(const Tensor& t) { return t.defined() ? same_memory_on(kGpu, t) : t; }

/// f32 sums in another order: the rule of products.
double tolerance(DType dtype) { return dtype == kF32 ? kDeviceTolerance : tolerance_of(dtype); }

void check_close(const Tensor& got, const Tensor& want, const std::string& name,
                 std::optional<double> tol = {}) {
  CHECK_MESSAGE(got.is_contiguous(), name);
  const std::string text = difference(got.cpu(), want, tol.value_or(tolerance(want.dtype())));
  CHECK_MESSAGE(text.empty(), name, ": ", text);
}

void compare(const Tensor& a, const Tensor& b, std::optional<double> tol = {}) {
  check_close(cuda::matmul(there(a), there(b)), cpu::matmul(a, b), concat(a, " x ", b), tol);
}

void compare_linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  check_close(cuda::linear(there(x), there(w), there(bias)), cpu::linear(x, w, bias),
              concat("linear ", x, " ", w));
}

const std::pair<Shape, Shape> kSizes[] = {
    {{1, 1}, {1, 1}},       {{3, 5}, {5, 4}},       {{65, 17}, {17, 66}},   {{16, 64}, {64, 8}},
    {{1, 9}, {9, 4}},       {{4, 9}, {9, 1}},       {{2, 0}, {0, 3}},       {{0, 4}, {4, 3}},
    {{3, 2, 7}, {3, 7, 5}}, {{0, 2, 3}, {0, 3, 2}}, {{1, 3, 4}, {1, 4, 2}}, {{5, 300}, {300, 6}},
};

}  // namespace

TEST_CASE("matmul: cuBLAS agrees with the CPU for every size and dtype") {
  manual_seed(91);
  for (const auto& [a, b] : kSizes) {
    for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
      compare(randn(a, {.dtype = dtype}), randn(b, {.dtype = dtype}));
    }
    compare(randint(-9, 9, a), randint(-9, 9, b));  // integers are our own kernel's
  }
}

TEST_CASE("matmul: factors of every layout, batches of one matrix") {
  manual_seed(92);
  for (const Layout& left : layouts()) {
    for (const Layout& right : layouts()) {
      compare(left.apply(randn({2, 9, 20})), right.apply(randn({2, 20, 7})));
      compare(left.apply(randn({9, 20})), right.apply(randn({20, 7})));
    }
  }
  compare(randn({1, 6, 8}).expand({3, 6, 8}), randn({3, 8, 5}));
  compare(randn({4, 1}).expand({4, 30}), randn({1, 5}).expand({30, 5}));
  compare(randn({3, 8, 6}).transpose(1, 2), randn({3, 8, 5}));
  compare(randn({9, 20}).slice(1, 1, 20), randn({40, 7}).slice(0, 0, 38, 2));
}

TEST_CASE("linear: with and without a bias, whatever the layouts") {
  manual_seed(93);
  for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
    const auto random = [&](const Shape& shape) { return randn(shape, {.dtype = dtype}); };
    compare_linear(random({7, 40}), random({10, 40}), random({10}));
    compare_linear(random({7, 40}), random({10, 40}), {});
    compare_linear(random({3, 70}), random({5, 70}), random({10}).slice(0, 0, 10, 2));
    compare_linear(random({4, 0}), random({5, 0}), random({5}));
    compare_linear(random({0, 4}), random({5, 4}), random({5}));
    compare_linear(random({4, 3}), random({1, 3}), random({1}));
    compare_linear(random({9, 6}).transpose(0, 1), random({9, 4}).transpose(0, 1), random({4}));
  }
}

TEST_CASE("matmul: f32 stays f32 unless TF32 is on") {
  manual_seed(94);
  const Tensor a = rand({40, 60}), b = rand({60, 30});
  compare(a, b);
  set_tf32(true);
  compare(a, b, 2e-3);
  set_tf32(false);
}

TEST_CASE("matmul: the same bits again") {
  manual_seed(95);
  for (const DType dtype : {kF32, kF16, kBF16}) {
    const Tensor a = randn({33, 2000}, {.dtype = dtype, .device = kGpu});
    const Tensor b = randn({2000, 17}, {.dtype = dtype, .device = kGpu});
    const Tensor first = cuda::matmul(a, b).cpu();
    for (int i = 0; i < 3; ++i) CHECK(difference(cuda::matmul(a, b).cpu(), first, 0) == "");
  }
}

TEST_CASE("linear: gradients on the GPU are those of the CPU") {
  manual_seed(96);
  const Tensor x = randn({6, 12}), w = randn({5, 12}), bias = randn({5});
  const auto gradients = [&](Device device) {
    Tensors in;
    for (const Tensor& t : {x, w, bias}) {
      in.push_back(t.to(device).detach());
      in.back().requires_grad_();
    }
    linear(in[0], in[1], in[2]).square().sum().backward();
    return Tensors{in[0].grad().cpu(), in[1].grad().cpu(), in[2].grad().cpu()};
  };
  const Tensors want = gradients(kCPU), got = gradients(kGpu);
  for (size_t i = 0; i < want.size(); ++i) {
    CHECK(difference(got[i], want[i], kDeviceTolerance) == "");
  }
}

TEST_CASE("linear: the bias's gradient, which may come with that of the weight") {
  manual_seed(98);
  for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
    for (const int64_t out : {8, 5}) {
      const Tensor dy = randn({9, out}, {.dtype = dtype}), x = randn({9, 16}, {.dtype = dtype});
      const LinearParamGrads got = cuda::linear_param_grads(there(dy), there(x)),
                             want = cpu::linear_param_grads(dy, x);
      check_close(got.dw, want.dw, concat("dw ", dy));
      check_close(got.db, want.db, concat("db ", dy));
    }
  }
}

TEST_CASE("matmul: on a stream of its own") {
  manual_seed(97);
  const Tensor a = randn({5, 6}), b = randn({6, 7});
  const OwnedStream stream(kGpu);
  const StreamScope on(stream);
  compare(a, b);
}

TEST_SUITE_END();
