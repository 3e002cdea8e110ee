// Batch normalisation against a direct f64 computation, in every form, layout and block split.
#include "lathe/ops/batch_norm.h"

#include "compare.h"
#include "lathe/autograd/engine.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kEps = 1e-5;

struct Case {
  Shape x;
  MemoryFormat format = kContiguous;
};
const Case kCases[] = {
    {{4, 3, 5, 6}},                  // small planes, several channels per block
    {{4, 3, 5, 6}, kChannelsLast},   // 43 pixels per row of a block, last row shorter
    {{2, 64, 4, 4}, kChannelsLast},  // ResNet's widths
    {{2, 64, 4, 4}},
    {{3, 2, 130, 131}},               // planes larger than a block
    {{2, 3, 90, 70}, kChannelsLast},  // several blocks, the last one shorter
    {{2, 200, 10, 10}},               // several blocks per sample, the last with fewer channels
    {{7, 5}},                         // 2-d
    {{300, 130}},
    {{4, 3, 33}},       // 3-d
    {{2, 3, 2, 3, 4}},  // 5-d
    {{1, 1, 3, 1}},     // one channel
    {{5, 1, 1, 1}, kChannelsLast},
    {{2, 0, 3, 3}},
};

struct Reference {
  std::vector<double> y, mean, var, dx, dresidual, dweight, dbias;
};

/// Everything from the definition, in f64, element by element. A ReLU lets those gradients through
/// whose `outputs` are positive: near 0 the sign depends on rounding, and only the op knows its own.
Reference reference(const Shape& shape, const std::vector<double>& x,
                    const std::vector<double>& residual, const std::vector<double>& weight,
                    const std::vector<double>& bias, const std::vector<double>& outputs,
                    const std::vector<double>& dy, bool relu) {
  const int64_t n = shape[0], c = shape[1], total = static_cast<int64_t>(x.size());
  const int64_t plane = n * c == 0 ? 0 : total / (n * c);
  const double m = static_cast<double>(n * plane);
  Reference r;
  r.y.resize(x.size()), r.dx.resize(x.size()), r.dresidual.resize(x.size());
  for (int64_t k = 0; k < c; ++k) {
    const auto each = [&](auto f) {
      for (int64_t i = 0; i < total; ++i) {
        if (i / plane % c == k) f(static_cast<size_t>(i));
      }
    };
    double mean = 0, var = 0, sum_g = 0, sum_gh = 0;
    each([&](size_t i) { mean += x[i] / m; });
    each([&](size_t i) { var += (x[i] - mean) * (x[i] - mean) / m; });
    const double s = 1 / std::sqrt(var + kEps);
    each([&](size_t i) {
      r.y[i] = (x[i] - mean) * s * weight[k] + bias[k] + (residual.empty() ? 0 : residual[i]);
      const double g = relu && outputs[i] <= 0 ? 0 : dy[i];
      if (relu) r.y[i] = std::max(r.y[i], 0.0);
      r.dresidual[i] = g;
      sum_g += g;
      sum_gh += g * (x[i] - mean) * s;
    });
    each([&](size_t i) {
      const double h = (x[i] - mean) * s;
      r.dx[i] = weight[k] * s * (r.dresidual[i] - sum_g / m - h * sum_gh / m);
    });
    r.mean.push_back(mean), r.var.push_back(var);
    r.dweight.push_back(sum_gh), r.dbias.push_back(sum_g);
  }
  return r;
}

Tensor make(const Case& c, DType dtype) {
  const Tensor t = cast(randn(c.x), dtype);
  return c.x.size() == 4 ? t.contiguous(c.format) : t;
}

struct Run {
  Tensor x, residual, weight, bias, mean, var, y, dy;
};

Run run(BatchNormForm form, const Case& c, DType dtype) {
  const DType params = dtype == kF64 ? kF64 : kF32;
  const int64_t channels = c.x[1];
  Run r;
  r.x = make(c, dtype).requires_grad_();
  r.residual = make(c, dtype).requires_grad_();
  r.weight = cast(rand({channels}) + 0.5, params).requires_grad_();
  r.bias = cast(randn({channels}), params).requires_grad_();
  r.mean = zeros({channels}, {.dtype = params});
  r.var = ones({channels}, {.dtype = params});
  r.dy = make(c, dtype);
  const BatchNormOptions opt{.training = true};
  switch (form) {
    case BatchNormForm::kPlain: r.y = batch_norm(r.x, r.weight, r.bias, r.mean, r.var, opt); break;
    case BatchNormForm::kRelu:
      r.y = batch_norm_relu(r.x, r.weight, r.bias, r.mean, r.var, opt);
      break;
    case BatchNormForm::kAddRelu:
      r.y = batch_norm_add_relu(r.x, r.residual, r.weight, r.bias, r.mean, r.var, opt);
      break;
  }
  r.y.backward(r.dy);
  return r;
}

void check_form(BatchNormForm form, DType dtype) {
  // Sums over up to 50,000 numbers of size 1 are compared with the size of the largest of them.
  const double tol = tolerance_of(dtype);
  for (const Case& c : kCases) {
    CAPTURE(static_cast<int>(form));
    CAPTURE(concat(dtype, c.x, c.format == kChannelsLast ? " NHWC" : ""));
    const Run got = run(form, c, dtype);
    const auto values = [](const Tensor& t) { return t.to_vector<double>(); };
    const bool adds = form == BatchNormForm::kAddRelu;
    const Reference want = reference(
        c.x, values(got.x), adds ? values(got.residual) : std::vector<double>{}, values(got.weight),
        values(got.bias), values(got.y), values(got.dy), form != BatchNormForm::kPlain);
    CHECK(got.y.dtype() == dtype);
    CHECK(got.y.strides() == got.x.strides());
    CHECK(difference(got.y, want.y, tol) == "");
    CHECK(difference(got.x.grad(), want.dx, tol) == "");
    if (adds) CHECK(difference(got.residual.grad(), want.dresidual, tol) == "");
    // Statistics and parameter gradients are f32 also for half inputs; dy is rounded before both
    // computations.
    const double sum_tol = is_half(dtype) ? 1e-4 : tol;
    CHECK(difference(got.weight.grad(), want.dweight, sum_tol) == "");
    CHECK(difference(got.bias.grad(), want.dbias, sum_tol) == "");

    const double m = static_cast<double>(got.x.numel()) / static_cast<double>(c.x[1]);
    std::vector<double> mean, var;
    for (size_t k = 0; k < want.mean.size(); ++k) {
      mean.push_back(0.1 * want.mean[k]);
      var.push_back(0.9 + 0.1 * want.var[k] * m / (m - 1));
    }
    CHECK(difference(got.mean, mean, sum_tol) == "");
    CHECK(difference(got.var, var, sum_tol) == "");
  }
}

}  // namespace

TEST_CASE("batch_norm: values, statistics and gradients are those of the definition") {
  for (const DType dtype : {kF32, kF64}) {
    check_form(BatchNormForm::kPlain, dtype);
    check_form(BatchNormForm::kRelu, dtype);
    check_form(BatchNormForm::kAddRelu, dtype);
  }
}

TEST_CASE("batch_norm: half inputs keep f32 statistics and parameters") {
  for (const DType dtype : {kF16, kBF16}) {
    check_form(BatchNormForm::kPlain, dtype);
    check_form(BatchNormForm::kAddRelu, dtype);
  }
}

TEST_CASE("batch_norm: gradients agree with finite differences, twice") {
  const Tensor w = f64_in({3}, 0.5, 1.5), b = f64({3});
  const Tensor mean = f64({3}), var = f64_in({3}, 0.5, 2.0);
  const BatchNormOptions train{.training = true};
  const Function plain = [&](const Tensors& in) {
    return batch_norm(in[0], in[1], in[2], {}, {}, train);
  };
  const Function relu = [&](const Tensors& in) {
    return batch_norm_relu(in[0], in[1], in[2], {}, {}, train);
  };
  const Function add_relu = [&](const Tensors& in) {
    return batch_norm_add_relu(in[0], in[3], in[1], in[2], {}, {}, train);
  };
  check_gradients({"batch_norm", plain, {f64({2, 3, 2, 2}), w, b}});
  check_gradients({"batch_norm 2-d", plain, {f64({5, 3}), w, b}});
  check_gradients({"batch_norm_relu", relu, {f64({2, 3, 2, 2}), w, b}});
  check_gradients({"batch_norm_add_relu", add_relu, {f64({2, 3, 2, 2}), w, b, f64({2, 3, 2, 2})}});
  check_gradients({"batch_norm eval",
                   [&](const Tensors& in) {
                     return batch_norm(in[0], in[1], in[2], beside(in, mean), beside(in, var));
                   },
                   {f64({2, 3, 2}), w, b}});
  const auto conv = [&](const Tensors& in) {
    return batch_norm_relu_conv2d(in[0], {in[1], in[2], {}, {}}, in[3], train, {.pad = 1});
  };
  check_gradients({"batch_norm_relu_conv2d", conv, {f64({2, 3, 2, 2}), w, b, f64({2, 3, 3, 3})}});
  check_gradients({"batch_norm_relu eval",
                   [&](const Tensors& in) {
                     return batch_norm_relu(in[0], in[1], in[2], beside(in, mean), beside(in, var));
                   },
                   {f64({2, 3, 2}), w, b}});
  check_gradients({"batch_norm_add_relu eval",
                   [&](const Tensors& in) {
                     return batch_norm_add_relu(in[0], in[3], in[1], in[2], beside(in, mean),
                                                beside(in, var));
                   },
                   {f64({4, 3, 2, 2}), w, b, f64({4, 3, 2, 2})}});
  check_gradients({"batch_norm without parameters",
                   [&](const Tensors& in) { return batch_norm(in[0], {}, {}, {}, {}, train); },
                   {f64({2, 3, 2})}});
}

TEST_CASE("batch_norm: an unused gradient is not computed and the others are the same") {
  const Tensor x = randn({4, 3, 2, 2}), residual = randn({4, 3, 2, 2}), w = ones({3}),
               b = randn({3});
  const Tensor dy = randn({4, 3, 2, 2});
  const BatchNormOptions train{.training = true};
  const auto gradients = [&](const Tensors& wanted) {
    for (const Tensor& t : {x, residual, w, b}) t.requires_grad_(false);
    for (const Tensor& t : wanted) t.requires_grad_();
    const Tensor y = batch_norm_add_relu(x, residual, w, b, {}, {}, train);
    return grad({y}, wanted, {.grad_outputs = {dy}});
  };
  const Tensors all = gradients({x, residual, w, b});
  CHECK(difference(gradients({x})[0], all[0], 0) == "");
  CHECK(difference(gradients({residual})[0], all[1], 0) == "");
  CHECK(difference(gradients({w})[0], all[2], 0) == "");
  CHECK(difference(gradients({b, x})[0], all[3], 0) == "");
}

TEST_CASE("batch_norm: evaluation uses the running statistics and changes nothing") {
  const Tensor x = randn({2, 2, 3, 3}), mean = tensor({0.5f, -1.f}), var = tensor({4.f, 0.25f});
  const Tensor y = batch_norm(x, {}, {}, mean, var);
  std::vector<double> want = x.to_vector<double>();
  for (size_t i = 0; i < want.size(); ++i) {
    const bool first = i / 9 % 2 == 0;
    want[i] = (want[i] - (first ? 0.5 : -1.0)) / std::sqrt((first ? 4.0 : 0.25) + kEps);
  }
  CHECK(difference(y, want, 1e-6) == "");
  CHECK(mean.version() == 0);
  CHECK(var.version() == 0);
}

TEST_CASE("batch_norm: a momentum that nothing uses is not looked at") {
  const Tensor x = randn({4, 3}), mean = randn({3}), var = rand({3}) + 0.5;
  for (const double momentum : {-1.0, 2.0, std::nan("")}) {
    CHECK(difference(batch_norm(x, {}, {}, mean, var, {.momentum = momentum}),
                     batch_norm(x, {}, {}, mean, var), 0) == "");
    CHECK(difference(batch_norm(x, {}, {}, {}, {}, {.training = true, .momentum = momentum}),
                     batch_norm(x, {}, {}, {}, {}, {.training = true}), 0) == "");
  }
}

TEST_CASE("batch_norm: momentum weighs the new value, the variance is the unbiased one") {
  const Tensor x =
      tensor({{1.f}, {2.f}, {3.f}, {6.f}});  // mean 3, biased variance 3.5, unbiased 14/3
  const Tensor mean = tensor({1.f}), var = tensor({2.f});
  batch_norm(x, {}, {}, mean, var, {.training = true, .momentum = 0.25});
  CHECK(mean.item<float>() == doctest::Approx(0.75 * 1 + 0.25 * 3));
  CHECK(var.item<float>() == doctest::Approx(0.75 * 2 + 0.25 * 14.0 / 3));
  CHECK(mean.version() == 1);
}

TEST_CASE("batch_norm: a large mean costs no digits of the variance") {
  const Tensor x =
      randn({8, 2, 64, 64}) + 10000.0;  // sum of squares - square of sums would lose all
  const Tensor mean = zeros({2}), var = zeros({2});
  batch_norm(x, {}, {}, mean, var, {.training = true, .momentum = 1.0});
  const Tensor exact = lathe::var(cast(x, kF64), {0, 2, 3});
  CHECK(difference(var, exact, 1e-5) == "");
}

TEST_CASE(
    "batch_norm kernels: a gradient in two parts, and results in the memory of the gradient") {
  for (const BatchNormForm form :
       {BatchNormForm::kPlain, BatchNormForm::kRelu, BatchNormForm::kAddRelu}) {
    for (const Case& c : kCases) {
      for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
        CAPTURE(static_cast<int>(form));
        CAPTURE(concat(dtype, c.x, c.format == kChannelsLast ? " NHWC" : ""));
        const bool add = form == BatchNormForm::kAddRelu;
        const Tensor residual = add ? make(c, dtype) : Tensor(), dy = make(c, dtype),
                     part = make(c, dtype);
        const DType params = compute_dtype(dtype);
        BatchNormCall call{form,
                           make(c, dtype),
                           {},
                           {},
                           cast(rand({c.x[1]}) + 0.5, params),
                           cast(randn({c.x[1]}), params),
                           true};
        const Tensor y = cpu::batch_norm_train(call, residual, kEps, {});
        for (const bool in_parts : {false, true}) {
          BatchNormGrads want{true, add, true, {}, {}, {}, {}};
          const Tensor whole = in_parts ? dy + part : dy;
          cpu::batch_norm_backward(want, call, whole, add ? y : Tensor());
          for (const bool free : {false, true}) {
            CAPTURE(in_parts);
            CAPTURE(free);
            const Tensor first = dy.clone(), second = part.clone();
            BatchNormGrads got{true, add, true, {}, {}, {}, {}};
            if (in_parts) got.second_dy = second;
            got.dy_is_free = got.second_is_free = free;
            cpu::batch_norm_backward(got, call, first, add ? y : Tensor());
            // Half: the sum of both parts is rounded when it is written, not before it is added up.
            // So the sums differ by m roundings, whose sum grows with the root of m.
            const double tol = is_half(dtype) && in_parts ? tolerance_of(dtype) : 0;
            const double m = static_cast<double>(numel_of(c.x)) / static_cast<double>(c.x[1]);
            CHECK(difference(got.dx, want.dx, tol) == "");
            if (add) CHECK(difference(got.dresidual, want.dresidual, tol) == "");
            CHECK(difference(got.dweight, want.dweight, tol * std::sqrt(m)) == "");
            CHECK(difference(got.dbias, want.dbias, tol * std::sqrt(m)) == "");
            if (numel_of(c.x) == 0) continue;
            CHECK((add ? got.dresidual : got.dx).shares_storage(first) == free);
            if (add) CHECK(got.dx.shares_storage(second) == (free && in_parts));
            if (free) continue;
            CHECK(difference(first, dy, 0) == "");
            CHECK(difference(second, part, 0) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("batch_norm: the number of threads changes no bit") {
  const Tensor x = randn({16, 24, 31, 17}), w = rand({24}), b = randn({24}),
               dy = randn({16, 24, 31, 17});
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    std::vector<Tensors> results;
    const int before = num_threads();
    for (const int threads : {1, 3, 16}) {
      set_num_threads(threads);
      const Tensor xt = x.contiguous(format).clone().requires_grad_(),
                   wt = w.clone().requires_grad_();
      const Tensor y = batch_norm_relu(xt, wt, b, {}, {}, {.training = true});
      y.backward(dy);
      results.push_back({y, xt.grad(), wt.grad()});
    }
    set_num_threads(before);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(difference(results[0][i], results[1][i], 0) == "");
      CHECK(difference(results[0][i], results[2][i], 0) == "");
    }
  }
}

TEST_CASE("batch_norm: NaN stays NaN, also through the relu") {
  const Tensor x = ones({2, 1, 2, 2});
  x.select(0, 0).fill_(std::nan(""));
  const Tensor y = batch_norm_relu(x, {}, {}, zeros({1}), ones({1}));
  CHECK(std::isnan(y.to_vector<float>()[0]));
  CHECK_FALSE(std::isnan(y.to_vector<float>()[7]));
}

TEST_CASE("batch_norm: an empty batch gives an empty result and leaves the statistics") {
  const Tensor x = zeros({0, 3, 4, 4}).requires_grad_(), w = ones({3}).requires_grad_();
  const Tensor mean = ones({3}), var = ones({3});
  const Tensor y = batch_norm(x, w, {}, mean, var, {.training = true});
  CHECK(y.shape() == Shape{0, 3, 4, 4});
  CHECK(mean.version() == 0);
  y.backward(zeros({0, 3, 4, 4}));
  CHECK(difference(w.grad(), {0, 0, 0}, 0) == "");
  CHECK(x.grad().shape() == x.shape());
}

TEST_CASE("batch_norm: evaluation's gradient does not notice a later update of the statistics") {
  const Tensor x = randn({4, 2}).requires_grad_(), mean = zeros({2}), var = ones({2});
  const Tensor w = ones({2}).requires_grad_();
  const Tensor y = batch_norm(x, w, {}, mean, var);
  mean.fill_(7.0);
  y.backward(ones({4, 2}));
  CHECK(difference(w.grad(), cast(sum(x, {0}), kF64) / std::sqrt(1 + kEps), 1e-5) == "");
}

TEST_CASE("batch_norm: an input changed in between is noticed") {
  const Tensor leaf = randn({4, 2}).requires_grad_();
  const Tensor x = leaf * 2.0;
  const Tensor y = batch_norm(x, {}, {}, {}, {}, {.training = true});
  x.add_(1.0);
  CHECK_THROWS_WITH_AS(y.backward(ones({4, 2})), doctest::Contains("in-place"), StateError);
}

TEST_CASE("batch_norm: running out of memory anywhere leaves the statistics") {
  const Tensor x = randn({4, 3, 2, 2}).requires_grad_(), w = ones({3}).requires_grad_();
  const Tensor mean = zeros({3}), var = ones({3});
  FaultPoint& fault = host_allocator().fault();
  const auto run = [&] { batch_norm_add_relu(x, x, w, {}, mean, var, {.training = true}); };
  fault.count();
  run();
  const int64_t allocations = fault.calls();
  fault.disarm();
  REQUIRE(allocations >= 3);
  const std::vector<float> mean_before = mean.to_vector<float>(),
                           var_before = var.to_vector<float>();
  const uint32_t version = mean.version();
  for (int64_t n = 1; n <= allocations; ++n) {
    CAPTURE(n);
    {
      const ArmedFault armed(fault, n);
      CHECK_THROWS_AS(run(), OutOfMemoryError);
    }
    CHECK(mean.to_vector<float>() == mean_before);
    CHECK(var.to_vector<float>() == var_before);
    CHECK(mean.version() == version);
  }
}

TEST_CASE("batch_norm: errors name the values, and leave the statistics") {
  const Tensor x = zeros({2, 3, 4, 4}), mean = zeros({3}), var = ones({3});
  const BatchNormOptions train{.training = true};
  CHECK_THROWS_WITH_AS(
      batch_norm(zeros({1, 3}), {}, {}, mean, var, train),
      doctest::Contains("training needs more than one value per channel (x: f32[1,3]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(batch_norm(zeros({1, 3}), {}, {}, {}, {}), ShapeError);  // its own statistics too
  CHECK_THROWS_WITH_AS(
      batch_norm(x, ones({4}), {}, mean, var),
      doctest::Contains("weight must be [3], one number per channel of x (weight: f32[4]@cpu"),
      ShapeError);
  CHECK_THROWS_WITH_AS(batch_norm(cast(x, kF16), cast(ones({3}), kF16), {}, mean, var),
                       doctest::Contains("weight must be f32 for x of f16"), DTypeError);
  CHECK_THROWS_WITH_AS(batch_norm(zeros({3}), {}, {}, mean, var),
                       doctest::Contains("x must be [N,C]"), ShapeError);
  CHECK_THROWS_WITH_AS(
      batch_norm(x, {}, {}, mean, var, {.training = true, .num_batches = zeros({})}),
      doctest::Contains("num_batches must be a 0-d i64"), DTypeError);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, {}, mean, {}), doctest::Contains("go together"),
                       ValueError);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, {}, mean, var, {.eps = -1}),
                       doctest::Contains("eps must be 0 or more, got -1"), ValueError);
  CHECK_THROWS_WITH_AS(
      batch_norm(x, {}, {}, mean, var, {.training = true, .momentum = std::nan("")}),
      doctest::Contains("momentum must be in [0, 1]"), ValueError);
  CHECK_THROWS_WITH_AS(
      batch_norm_add_relu(x, zeros({2, 3, 4, 5}), {}, {}, mean, var, train),
      doctest::Contains("residual must have x's shape (residual: f32[2,3,4,5]@cpu"), ShapeError);
  CHECK_THROWS_AS(batch_norm_add_relu(x, {}, {}, {}, mean, var, train), ValueError);
  CHECK_THROWS_AS(batch_norm(zeros({2, 3}, {.dtype = kI64}), {}, {}, {}, {}), DTypeError);
  CHECK(mean.version() == 0);
}
