// The steps of lstm in tile registers (recurrent_lstm_bf16.h) against lstm in f64: with plain loops
// on any processor, with the instructions where they are. And its units (lstm_units.h) against the
// formulas.
#include "lathe/ops/recurrent_kernels/recurrent_lstm_bf16.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "compare.h"
#include "lathe/autograd/engine.h"
#include "lathe/core/copy.h"
#include "lathe/core/half.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/random.h"
#include "lathe/ops/recurrent_kernels/lstm_units.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::vector<cpu::AmxKernels> all_kernels() {
  std::vector<cpu::AmxKernels> all{cpu::amx_kernels_base()};
  if (cpu::has_tile_registers()) all.push_back(cpu::amx_kernels());
  return all;
}

struct Sizes {
  int64_t T, N, H;
};
// A product has up to 32 rows and sums 32 terms; vectors have 16 numbers.
const Sizes kSizes[] = {{1, 1, 1},  {3, 2, 7},   {2, 17, 16}, {4, 33, 31},
                        {2, 9, 33}, {3, 67, 40}, {2, 5, 64},  {5, 16, 67}};

struct Results {
  Tensor states, last_c, d_x, d_h, d_c;
};

struct Problem {
  explicit Problem(const Sizes& s) : sizes(s) {
    manual_seed(21);
    const auto make = [](const Shape& shape) { return randn(shape).to(kBF16); };
    x = make({s.T, s.N, 4 * s.H});
    h = make({s.N, s.H});
    c = make({s.N, s.H});
    w = (randn({4 * s.H, s.H}) * (1 / std::sqrt(static_cast<double>(s.H)))).to(kBF16);
    b = make({4 * s.H});
    dy = make({s.T, s.N, s.H});
    dc = make({s.N, s.H});
  }

  Results by(const cpu::AmxKernels& kernels) const {
    const auto [T, N, H] = sizes;
    const cpu::RecurrentSteps s{full({T + 1, N, H}, NAN, {.dtype = kBF16}),
                                full({T, N, 4 * H}, NAN), full({T + 1, N, H}, NAN)};
    copy_values(select(s.states, 0, 0), h);
    copy_values(select(s.cells, 0, 0), c);
    cpu::lstm_steps_bf16(kernels, s, x, w, b.to(kF32));
    const Tensor d_x = full({T, N, 4 * H}, NAN, {.dtype = kBF16});
    const cpu::RecurrentGradients g{d_x, d_x, zeros({N, H}), dc.to(kF32)};
    cpu::lstm_step_gradients_bf16(kernels, g, s, w, dy);
    return {narrow(s.states, 0, 1, T), select(s.cells, 0, T), g.from_x, g.h, g.c};
  }

  /// By the op in f64. Its products with x are those with an identity, so x is from_x.
  Results exact() const {
    const auto wide = [](const Tensor& t) { return t.to(kF64).detach().requires_grad_(); };
    const Tensor in = wide(x), first_h = wide(h), first_c = wide(c);
    const RecurrentLayer layer{eye(4 * sizes.H, {.dtype = kF64}), w.to(kF64), {}, b.to(kF64)};
    const RecurrentResult r = lstm(in, first_h.unsqueeze(0), first_c.unsqueeze(0), {layer});
    ((r.y * dy.to(kF64)).sum() + (r.c[0] * dc.to(kF64)).sum()).backward();
    return {r.y.detach(), r.c[0].detach(), in.grad(), first_h.grad(), first_c.grad()};
  }

  Sizes sizes;
  Tensor x, h, c, w, b, dy, dc;
};

/// States and gradients of gates are rounded to bf16 in each step.
std::string far_from(const Tensor& got, const Tensor& want) {
  const double m = want.abs().max().item<double>();
  return difference(got.to(kF64), want.to_vector<double>(), 0.02 * m / (m + 1));  // times m + 1
}

std::vector<float> numbers(const Tensor& t) { return t.to(kF32).to_vector<float>(); }

}  // namespace

TEST_CASE("lstm of bf16: states and gradients agree with lstm in f64") {
  const int before = num_threads();
  for (const Sizes& sizes : kSizes) {
    const Problem problem(sizes);
    const Results want = problem.exact();
    for (const cpu::AmxKernels& kernels : all_kernels()) {
      std::optional<Results> one;
      for (const int threads : {1, 2, 3}) {
        set_num_threads(threads);
        INFO("T ", sizes.T, " N ", sizes.N, " H ", sizes.H, " threads ", threads);
        const Results got = problem.by(kernels);
        CHECK(far_from(got.states, want.states) == "");
        CHECK(far_from(got.last_c, want.last_c) == "");
        CHECK(far_from(got.d_x, want.d_x) == "");
        CHECK(far_from(got.d_h, want.d_h) == "");
        CHECK(far_from(got.d_c, want.d_c) == "");
        if (!one) one = got;
        CHECK(numbers(got.states) == numbers(one->states));
        CHECK(numbers(got.last_c) == numbers(one->last_c));
        CHECK(numbers(got.d_x) == numbers(one->d_x));
        CHECK(numbers(got.d_h) == numbers(one->d_h));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("lstm of bf16: without a gradient the gates of one step are kept, and y is the same") {
  const Problem p({5, 6, 40});
  const RecurrentLayer layer{eye(160).to(kBF16), p.w, {}, p.b};
  const Tensor h = p.h.unsqueeze(0), c = p.c.unsqueeze(0);
  const Tensor with = p.x.detach().requires_grad_();
  CHECK(numbers(lstm(p.x, h, c, {layer}).y) == numbers(lstm(with, h, c, {layer}).y.detach()));
}

namespace {

template <class X>
X from_double(double x) {
  if constexpr (sizeof(X) == 2) return half_detail::bfloat16_from_float(static_cast<float>(x));
  return static_cast<X>(x);
}
template <class X>
double to_double(X x) {
  if constexpr (sizeof(X) == 2) return half_detail::float_from_bfloat16(x);
  return x;
}

/// Two rows of 37 units of 40, from the third on. 1 ulp of bf16 and some of f32 may be lost.
template <class X>
void check_units(void (*forward)(const cpu::LstmForward<X, float>&),
                 void (*backward)(const cpu::LstmBackward<X, float>&)) {
  constexpr int64_t kRows = 2, kH = 40, kFirst = 2, kCount = 37, kG = 4 * kH;
  const double exactness = sizeof(X) == 2 ? 0x1p-8 : 1e-6;
  const auto filled = [](int64_t n, double step) {
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = static_cast<float>(6 * std::sin(step * static_cast<double>(i + 1)));
    return v;
  };
  const auto as_x = [](const std::vector<float>& v) {
    std::vector<X> x;
    for (const float number : v) x.push_back(from_double<X>(number));
    return x;
  };
  const std::vector<float> sums = filled(kRows * kG, 0.7), bias = filled(kG, 0.3),
                           c_before = filled(kRows * kH, 1.1), dh = filled(kRows * kH, 0.4);
  const std::vector<X> x = as_x(filled(kRows * kG, 0.9)), dy = as_x(filled(kRows * kH, 0.2));
  std::vector<float> c(kRows * kH), gates(kRows * kG), dc = filled(kRows * kH, 0.5);
  const std::vector<float> dc_after = dc;
  std::vector<X> h(kRows * kH), d_gates(kRows * kG);
  forward({.size = {kRows, kCount, kH},
           .sums = sums.data() + kFirst,
           .sum_row = kG,
           .sum_gate = kH,
           .x = x.data() + kFirst,
           .bias = bias.data() + kFirst,
           .c_before = c_before.data() + kFirst,
           .c = c.data() + kFirst,
           .gates = gates.data() + kFirst,
           .h = h.data() + kFirst,
           .h_row = kH});
  backward({.size = {kRows, kCount, kH},
            .dh = dh.data() + kFirst,
            .dh_row = kH,
            .dy = dy.data() + kFirst,
            .dc = dc.data() + kFirst,
            .gates = gates.data() + kFirst,
            .c = c.data() + kFirst,
            .c_before = c_before.data() + kFirst,
            .d_gates = d_gates.data() + kFirst,
            .d_row = kG});
  const auto near = [&](double got, double want, double relative) {
    return std::fabs(got - want) <= relative * std::fabs(want) + 2e-6;
  };
  for (int64_t at = 0; at < kRows * kH; ++at) {
    const int64_t row = at / kH, unit = at % kH;
    const auto i = static_cast<size_t>(at);
    CAPTURE(row);
    CAPTURE(unit);
    if (unit < kFirst || unit >= kFirst + kCount) {
      CHECK(c[i] == 0);
      CHECK(dc[i] == dc_after[i]);
      continue;
    }
    double gate[4];
    for (int64_t k = 0; k < 4; ++k) {
      const auto place = static_cast<size_t>(row * kG + k * kH + unit);
      const double sum = double{sums[place]} + to_double(x[place]) +
                         double{bias[static_cast<size_t>(k * kH + unit)]};
      gate[k] = k == 2 ? std::tanh(sum) : 1 / (1 + std::exp(-sum));
      CHECK(near(gates[place], gate[k], 1e-6));
    }
    const double cell = gate[1] * c_before[i] + gate[0] * gate[2], t = std::tanh(cell);
    CHECK(near(c[i], cell, 1e-6));
    CHECK(near(to_double(h[i]), gate[3] * t, exactness));
    const double d = double{dh[i]} + to_double(dy[i]);
    const double d_cell = dc_after[i] + d * gate[3] * (1 - t * t);
    CHECK(near(dc[i], d_cell * gate[1], 4e-6));
    const double want[4] = {
        d_cell * gate[2] * gate[0] * (1 - gate[0]), d_cell * c_before[i] * gate[1] * (1 - gate[1]),
        d_cell * gate[0] * (1 - gate[2] * gate[2]), d * t * gate[3] * (1 - gate[3])};
    for (int64_t k = 0; k < 4; ++k) {
      const double got = to_double(d_gates[static_cast<size_t>(row * kG + k * kH + unit)]);
      CHECK(std::fabs(got - want[k]) <= exactness * std::fabs(want[k]) + 2e-5);
    }
  }
}

}  // namespace

TEST_CASE("lstm: units agree with the formulas") {
  check_units<float>(cpu::plain_lstm_forward, cpu::plain_lstm_backward);
  check_units<uint16_t>(cpu::plain_lstm_forward, cpu::plain_lstm_backward);
  if (!has_avx512()) return;
  check_units<float>(cpu::lstm_forward_avx512, cpu::lstm_backward_avx512);
  check_units<uint16_t>(cpu::lstm_forward_avx512, cpu::lstm_backward_avx512);
}

TEST_CASE("lstm: units keep NaN and take infinite sums") {
  const auto check = [](auto forward) {
    const float sums[8] = {NAN, 3e38f, -3e38f, 1e4f, -INFINITY, INFINITY, 0, -1e4f};
    const float zeros[8] = {}, before[2] = {2, 2};
    float c[2], gates[8], h[2];
    forward(cpu::LstmForward<float, float>{.size = {1, 2, 2},
                                           .sums = sums,
                                           .sum_row = 8,
                                           .sum_gate = 2,
                                           .x = zeros,
                                           .bias = zeros,
                                           .c_before = before,
                                           .c = c,
                                           .gates = gates,
                                           .h = h,
                                           .h_row = 2});
    CHECK(std::isnan(gates[0]));
    CHECK(gates[1] == 1);
    CHECK(gates[2] < 1e-30f);
    CHECK(gates[3] == 1);
    CHECK(gates[4] == -1);
    CHECK(gates[5] == 1);
    CHECK(gates[6] == 0.5f);
    CHECK(gates[7] < 1e-30f);
    CHECK(std::isnan(h[0]));
    CHECK(c[1] == 3);
  };
  check([](const auto& units) { cpu::plain_lstm_forward(units); });
  if (has_avx512()) check([](const auto& units) { cpu::lstm_forward_avx512(units); });
}
