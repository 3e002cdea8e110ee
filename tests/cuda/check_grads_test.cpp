// The start of a step on the GPU (optim/kernels/check_grads_cuda.cu) against the CPU.
#include "lathe/optim/check_grads.h"

#include <algorithm>
#include <limits>

#include "lathe/core/copy.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Outcome {
  double norm = 0;
  std::vector<double> factors;
  float found_inf = 0;
  std::vector<int64_t> counts;
};

/// check_grads() of copies of `grads` where `device` is, with a count for each gradient.
Outcome check_on(bool on_gpu, const Tensors& grads, double scale, double max_norm, DType dtype) {
  const auto place = [&](const Tensor& t) { return on_gpu ? on_device(t) : t; };
  optim::GradCheck check{.grads = {},
                         .scale = scale == 1 ? Tensor() : place(full({}, scale)),
                         .max_norm = max_norm,
                         .found_inf = place(zeros({})),
                         .total = max_norm > 0 ? place(zeros({}, {.dtype = dtype})) : Tensor(),
                         .factors = place(zeros({2}, {.dtype = kF64}))};
  const Tensor counts = place(full({static_cast<int64_t>(grads.size())}, 4, {.dtype = kI64}));
  std::vector<optim::UpdateItem> items;
  for (size_t i = 0; i < grads.size(); ++i) {
    check.grads.push_back(place(grads[i].clone()));
    items.push_back({.n = grads[i].numel(),
                     .dtype = grads[i].dtype(),
                     .device = check.grads.back().device(),
                     .step = 5,
                     .param = nullptr,
                     .grad = check.grads.back().raw_data(),
                     .buffers = {},
                     .count = on_gpu ? counts.data<int64_t>() + i : nullptr});
  }
  (on_gpu ? optim::cuda::check_grads : optim::cpu::check_grads)(check, items);
  for (size_t i = 0; i < items.size(); ++i) CHECK(items[i].counted == (on_gpu && i < 448));
  return {.norm = check.total.defined() ? on_host(check.total).item<double>() : 0,
          .factors = on_host(check.factors).to_vector<double>(),
          .found_inf = on_host(check.found_inf).item<float>(),
          .counts = on_host(counts).to_vector<int64_t>()};
}

}  // namespace

TEST_CASE("check_grads kernels: norm, factors and flag agree with the CPU, and counts are raised") {
  manual_seed(41);
  Tensors grads;
  for (const DType dtype : {kF32, kF64}) {
    for (const int64_t n : {0, 1, 33, 1025, 5000}) grads.push_back(randn({n}, {.dtype = dtype}));
  }
  for (const DType total : {kF32, kF64}) {
    for (const double scale : {1.0, 1024.0, 3.0}) {
      for (const double max_norm : {0.0, 0.01, 1e9}) {
        const Outcome want = check_on(false, grads, scale, max_norm, total);
        const Outcome got = check_on(true, grads, scale, max_norm, total);
        const double tolerance = total == kF32 ? 1e-7 : 1e-14;  // double sums in another order
        CHECK(got.norm == doctest::Approx(want.norm).epsilon(tolerance));
        CHECK(got.factors[0] == want.factors[0]);
        CHECK(got.factors[1] == doctest::Approx(want.factors[1]).epsilon(tolerance));
        CHECK(got.found_inf == 0);
        CHECK(got.counts == std::vector<int64_t>(grads.size(), 5));
      }
    }
  }
}

TEST_CASE("check_grads kernels: inf and NaN are found wherever they are, and nothing is counted") {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (const int64_t at : {0, 4095, 4096, 8200}) {
      Tensors grads = {zeros({40}), zeros({8201})};
      fill_values(grads[1].narrow(0, at, 1), bad);
      const Outcome got = check_on(true, grads, 2, 1, kF32);
      CHECK(got.found_inf == 1);
      CHECK(got.counts == std::vector<int64_t>{4, 4});
      CHECK(check_on(false, grads, 2, 1, kF32).found_inf == 1);
    }
  }
  // A finite sum of squares beyond f64's range is no overflow of the gradients.
  const Tensors large = {full({3}, 1e200, {.dtype = kF64})};
  CHECK(check_on(true, large, 2, 0, kF64).found_inf == 0);
  CHECK(check_on(false, large, 2, 0, kF64).found_inf == 0);
}

TEST_CASE("check_grads kernels: more counts than one launch takes are left to the update") {
  const Outcome got = check_on(true, Tensors(500, ones({1})), 2, 1, kF32);
  std::vector<int64_t> want(500, 4);
  std::fill_n(want.begin(), 448, 5);
  CHECK(got.counts == want);
}
