// Attention of bf16 in tile registers (attention_bf16.h) against sums in f64: with plain loops on
// any processor, with the instructions where they are.
#include "lathe/ops/matmul_kernels/attention_bf16.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "compare.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/matmul_kernels/attention_rows.h"
#include "lathe/ops/matmul_kernels/few_rows_bf16.h"
#include "lathe/ops/random.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<cpu::Bf16AttentionKernels> all_kernels() {
  std::vector<cpu::Bf16AttentionKernels> all{
      {cpu::amx_kernels_base(), cpu::attention_tiles_base()}};
  if (cpu::has_tile_registers()) all.push_back(cpu::bf16_kernels());
  return all;
}

struct Bf16Case {
  const char* name;
  int64_t heads, shared, L, S, D, E;
  double scale = 0.3;
  bool causal = false;
  // b: of bools, f: of floats, l: of floats, some the lowest; h: hides all keys from every other
  // query; t: floats that lie transposed; s: one row of bools for all heads and queries
  char mask = ' ';
};
const Bf16Case kCases[] = {
    {"one number", 1, 1, 1, 1, 1, 1},
    {"a block", 1, 1, 32, 32, 32, 32},
    {"less than a block", 2, 1, 31, 31, 31, 31},
    {"more than a block", 2, 2, 33, 33, 33, 33},
    {"heads of 64", 4, 2, 67, 131, 64, 64},
    {"a tile of queries more", 1, 1, 129, 97, 40, 72},
    {"a tile of keys more", 1, 1, 61, 257, 16, 17},
    {"two tiles of keys less", 2, 1, 35, 511, 80, 8},
    {"causal", 2, 1, 150, 150, 24, 24, 0.3, true},
    {"causal, more keys", 1, 1, 70, 290, 24, 24, 0.3, true},
    {"causal, fewer keys", 1, 1, 290, 70, 24, 24, 0.3, true},
    {"bools", 2, 2, 40, 45, 16, 16, 0.3, false, 'b'},
    {"bools, causal", 2, 1, 140, 300, 16, 16, 0.3, true, 'b'},
    {"floats", 2, 2, 65, 33, 16, 16, 0.3, false, 'f'},
    {"lowest floats", 2, 1, 40, 70, 16, 16, 0.3, true, 'l'},
    {"floats that lie transposed", 1, 1, 45, 61, 16, 16, 0.3, false, 't'},
    {"one row of bools", 4, 2, 33, 290, 16, 16, 0.3, true, 's'},
    {"rows that see nothing", 1, 1, 37, 41, 16, 16, 0.3, false, 'h'},
    {"a negative scale", 2, 1, 40, 70, 16, 16, -0.4, true},
    {"scale 0", 1, 1, 5, 7, 16, 16, 0},
};

struct Results {
  Tensor y, dq, dk, dv;
};

struct Problem {
  explicit Problem(const Bf16Case& c) : shape(c) {
    manual_seed(11);
    const auto make = [](const Shape& s) { return randn(s).to(kBF16); };
    q = make({c.heads, c.L, c.D});
    k = make({c.shared, c.S, c.D});
    v = make({c.shared, c.S, c.E});
    dy = make({c.heads, c.L, c.E});
    how = {.scale = c.scale, .least = -kInfinity, .causal = c.causal};
    if (c.mask == 'b') how.mask = randn({c.heads, c.L, c.S}) > 0;
    if (c.mask == 'f') how.mask = randn({c.heads, c.L, c.S});
    if (c.mask == 't') how.mask = randn({c.heads, c.S, c.L}).transpose(1, 2);
    if (c.mask == 's') how.mask = (randn({1, 1, c.S}) > -1).expand({c.heads, c.L, c.S});
    if (c.mask == 'l') {
      how.least = -0x1.ffp127;
      how.mask = zeros({c.heads, c.L, c.S});
      how.mask.masked_fill_(randn({c.heads, c.L, c.S}) > 0, std::numeric_limits<float>::lowest());
    }
    if (c.mask == 'h') {
      how.mask = (arange(c.L) % 2).to(kBool).view({1, c.L, 1}).expand({c.heads, c.L, c.S});
    }
  }

  Results by(const cpu::Bf16AttentionKernels& kernels) const {
    const Results r{full(dy.shape(), NAN, {.dtype = kBF16}), full(q.shape(), NAN, {.dtype = kBF16}),
                    full(k.shape(), NAN, {.dtype = kBF16}), full(v.shape(), NAN, {.dtype = kBF16})};
    const Tensor logsumexp = full({q.dim(0), q.dim(1)}, NAN);
    cpu::attention_forward_bf16(kernels, r.y, logsumexp, q, k, v, how);
    cpu::attention_backward_bf16(kernels, {r.dq, r.dk, r.dv}, dy, r.y, logsumexp, q, k, v, how);
    return r;
  }

  /// The formulas, in f64, element by element.
  Results exact() const {
    const Bf16Case& c = shape;
    const auto at = [](const Tensor& t) { return t.to(kF64).contiguous(); };
    const Tensor qw = at(q), kw = at(k), vw = at(v), dw = at(dy);
    const Tensor mask = how.mask.defined() ? at(how.mask) : Tensor();
    const bool bools = mask.defined() && how.mask.dtype() == kBool;
    Results r{zeros_like(dw), zeros_like(qw), zeros_like(kw), zeros_like(vw)};
    const auto row = [](const Tensor& t, int64_t h, int64_t i) {
      return t.data<double>() + (h * t.dim(1) + i) * t.dim(2);
    };
    const auto dot = [](const double* a, const double* b, int64_t n) {
      double sum = 0;
      for (int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
      return sum;
    };
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t m = h / (c.heads / c.shared);
      for (int64_t i = 0; i < c.L; ++i) {
        std::vector<double> w(static_cast<size_t>(c.S));
        double most = -kInfinity, sum = 0, delta = 0;
        for (int64_t j = 0; j < c.S; ++j) {
          double& score = w[static_cast<size_t>(j)];
          score = c.scale * dot(row(qw, h, i), row(kw, m, j), c.D);
          if (mask.defined() && bools && row(mask, h, i)[j] == 0) score = -kInfinity;
          if (mask.defined() && !bools) score += row(mask, h, i)[j];
          if (score <= how.least) score = -kInfinity;
          if (c.causal && j > i) score = -kInfinity;
          most = std::max(most, score);
        }
        if (most == -kInfinity) continue;
        for (double& x : w) sum += x = std::exp(x - most);
        for (double& x : w) x /= sum;
        for (int64_t j = 0; j < c.S; ++j)
          delta += w[static_cast<size_t>(j)] * dot(row(dw, h, i), row(vw, m, j), c.E);
        for (int64_t j = 0; j < c.S; ++j) {
          const double x = w[static_cast<size_t>(j)];
          const double ds = c.scale * x * (dot(row(dw, h, i), row(vw, m, j), c.E) - delta);
          for (int64_t e = 0; e < c.E; ++e) {
            row(r.y, h, i)[e] += x * row(vw, m, j)[e];
            row(r.dv, m, j)[e] += x * row(dw, h, i)[e];
          }
          for (int64_t d = 0; d < c.D; ++d) {
            row(r.dq, h, i)[d] += ds * row(kw, m, j)[d];
            row(r.dk, m, j)[d] += ds * row(qw, h, i)[d];
          }
        }
      }
    }
    return r;
  }

  Bf16Case shape;
  Tensor q, k, v, dy;
  TiledAttention how;
};

/// Weights and results are rounded to bf16, so an element may be wrong by some 2^-8 of the largest.
std::string far_from(const Tensor& got, const Tensor& want) {
  const double m = want.abs().max().item<double>();
  return difference(got.to(kF64), want.to_vector<double>(), 0.01 * m / (m + 1));  // times m + 1
}

}  // namespace

TEST_CASE("attention of bf16: values and gradients agree with sums in f64") {
  const int before = num_threads();
  for (const Bf16Case& c : kCases) {
    const Problem problem(c);
    const Results want = problem.exact();
    for (const cpu::Bf16AttentionKernels& kernels : all_kernels()) {
      std::optional<Results> one;
      for (const int threads : {1, 2, 3}) {
        set_num_threads(threads);
        CAPTURE(c.name);
        CAPTURE(threads);
        const Results got = problem.by(kernels);
        CHECK(far_from(got.y, want.y) == "");
        CHECK(far_from(got.dq, want.dq) == "");
        CHECK(far_from(got.dk, want.dk) == "");
        CHECK(far_from(got.dv, want.dv) == "");
        if (!one) one = got;
        CHECK(got.y.to_vector<float>() == one->y.to_vector<float>());
        CHECK(got.dq.to_vector<float>() == one->dq.to_vector<float>());
        CHECK(got.dk.to_vector<float>() == one->dk.to_vector<float>());
        CHECK(got.dv.to_vector<float>() == one->dv.to_vector<float>());
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("attention of bf16: NaN reaches its query alone, and large scores do not overflow") {
  for (const cpu::Bf16AttentionKernels& kernels : all_kernels()) {
    Problem problem({"", 1, 1, 40, 300, 16, 16});
    problem.q[0][3][5].fill_(NAN);
    problem.q[0][7].mul_(1e4);
    const Tensor y = problem.by(kernels).y.to(kF32)[0];
    for (int64_t i = 0; i < 40; ++i) {
      CAPTURE(i);
      CHECK(y[i].isnan().all().item<bool>() == (i == 3));
      CHECK(y[i].isfinite().all().item<bool>() == (i != 3));
    }
    // The query of 1e4 has one key's values.
    const Tensor scores = problem.k[0].to(kF32).matmul(problem.q[0][7].to(kF32));
    const auto key = scores.argmax().item<int64_t>();
    CHECK(difference(y[7], problem.v[0][key].to(kF32).to_vector<double>(), 0) == "");
  }
}

TEST_CASE("attention of bf16: the columns of a product's factor are rows of a matrix") {
  const std::vector<uint16_t> numbers = [] {
    std::vector<uint16_t> n(32 * 100);
    for (size_t i = 0; i < n.size(); ++i) n[i] = static_cast<uint16_t>(i + 1);
    return n;
  }();
  const uint16_t* rows[32];
  for (size_t i = 0; i < 32; ++i) rows[i] = numbers.data() + i * 100;
  for (const cpu::Bf16AttentionKernels& kernels : all_kernels()) {
    for (const int64_t n : {1, 2, 31, 32, 33, 63, 100}) {
      const int64_t padded = (n + 31) / 32 * 32;
      std::vector<uint16_t> to(static_cast<size_t>(padded * 32), 9999);
      kernels.products.columns(to.data(), rows, n);
      for (int64_t c = 0; c < padded; ++c) {
        for (int64_t i = 0; i < 32; ++i) {
          const uint16_t want = c < n ? rows[i][c] : uint16_t{0};
          REQUIRE(to[static_cast<size_t>(c / 2 * 64 + i * 2 + c % 2)] == want);
        }
      }
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("attention: rows of bf16 multiplied in AVX512-BF16 agree with sums in f64") {
  if (!has_avx512_bf16()) return;
  manual_seed(3);
  for (const int64_t D : {1, 31, 32, 33, 64, 100}) {
    for (const int64_t n : {1, 3, 4, 5, 9}) {
      const int64_t rows = 3, step = D + 5;
      const Tensor x = randn({rows, D}).to(kBF16), b = randn({n, step}).to(kBF16);
      const auto* const bits = reinterpret_cast<const uint16_t*>(x.data<BFloat16>());
      const uint16_t* const at[] = {bits, bits + D, bits + 2 * D};
      std::vector<float> got(static_cast<size_t>(rows * n + 1), 7.0f);
      few_rows::multiply_bf16_rows_avx512(
          got.data(), at, rows, reinterpret_cast<const uint16_t*>(b.data<BFloat16>()), step, n, D);
      const auto want = matmul(x.to(kF64), b.to(kF64).narrow(1, 0, D).t()).to_vector<double>();
      for (size_t i = 0; i < want.size(); ++i) {
        REQUIRE(std::fabs(static_cast<double>(got[i]) - want[i]) <= 1e-4);
      }
      CHECK(got.back() == 7);
      std::vector<float> sums(static_cast<size_t>(D + 1), 7.0f);
      const Tensor w = rand({n});
      few_rows::add_bf16_rows_avx512(sums.data(), w.data<float>(),
                                     reinterpret_cast<const uint16_t*>(b.data<BFloat16>()), step, n,
                                     D);
      const Tensor added = matmul(w.to(kF64).view({1, n}), b.to(kF64).narrow(1, 0, D));
      for (int64_t e = 0; e < D; ++e) {
        const double got_sum = static_cast<double>(sums[static_cast<size_t>(e)]);
        REQUIRE(std::fabs(got_sum - 7 - added.data<double>()[e]) <= 1e-4);
      }
      CHECK(sums.back() == 7);
    }
  }
}
#endif

TEST_CASE("attention: exp of a row agrees with exp in f64") {
  std::vector<float> scores(301);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = -30.0f + 0.2f * static_cast<float>(i);
  scores[5] = -std::numeric_limits<float>::infinity();
  const float scale = 0.7f, from = 20.0f;
  const auto check = [&](auto exp_row) {
    for (const int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 301}) {
      std::vector<float> row(scores.begin(), scores.begin() + n);
      row.push_back(5);  // behind the row
      const double sum = exp_row(row.data(), scale, from, n);
      double want_sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        const double want = std::exp(double{scale} * scores[i] - from);
        want_sum += want;
        REQUIRE(std::fabs(row[i] - want) <= 4e-6 * want);
      }
      CHECK(row.back() == 5);
      CHECK(std::fabs(sum - want_sum) <= 4e-6 * want_sum);
    }
    float odd[2] = {NAN, 1000};
    exp_row(odd, 1.0f, 0.0f, int64_t{2});
    CHECK(std::isnan(odd[0]));
    CHECK(std::isinf(odd[1]));
  };
  check([](float* s, float a, float b, int64_t n) {
    reduce_fold::plain_exp_row(s, s, a, b, n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += s[i];
    return sum;
  });
  check([](float* s, float a, float b, int64_t n) { return reduce_fold::exp_row(s, s, a, b, n); });
}
