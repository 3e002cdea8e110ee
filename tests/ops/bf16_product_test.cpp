// bf16 products on the CPU, by the processor's bf16 instructions or by f32 copies: every layout
// against sums in f64 that are written out.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "compare.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/lathe.h"
#include "lathe/tests/threads_scope.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// How an operand [m,k] or [B,m,k] lies in memory.
enum class Memory : uint8_t {
  kDense,
  kTransposed,
  kWide,
  kWideTransposed,
  kInterleaved,
  kSkipping
};
const Memory kMemories[] = {Memory::kDense,          Memory::kTransposed,  Memory::kWide,
                            Memory::kWideTransposed, Memory::kInterleaved, Memory::kSkipping};

/// The same values, laid out so. What lies beside them is NaN.
Tensor laid_out(const Tensor& t, Memory memory) {
  const auto room = [&](const Shape& shape) {
    return full(shape, std::numeric_limits<double>::quiet_NaN(), {.dtype = t.dtype()});
  };
  const Tensor three = t.ndim() == 3 ? t : unsqueeze(t, 0);
  const int64_t B = three.dim(0), m = three.dim(1), k = three.dim(2);
  Tensor part;
  switch (memory) {
    case Memory::kDense: part = room({B, m, k}); break;
    case Memory::kTransposed: part = transpose(room({B, k, m}), 1, 2); break;
    case Memory::kWide: part = narrow(room({B, m, k + 3}), 2, 2, k); break;
    case Memory::kWideTransposed:
      part = transpose(narrow(room({B, k, m + 5}), 2, 1, m), 1, 2);
      break;
    case Memory::kInterleaved: part = transpose(room({m, B, k}), 0, 1); break;
    case Memory::kSkipping: part = room({B, m, 2 * k}).slice(2, 0, 2 * k, 2); break;
  }
  part.copy_(three);
  return t.ndim() == 3 ? part : squeeze(part, 0);
}

Tensor draw(const Shape& shape) { return randn(shape).to(kBF16); }

/// "" if y is a * b + bias: summed in f32 in some order and rounded once to bf16's 8 bits.
std::string wrong(const Tensor& y, const Tensor& a_in, const Tensor& b_in, const Tensor& bias) {
  const bool batched = a_in.ndim() == 3;
  const auto values = [&](const Tensor& t) { return t.to(kF64).to_vector<double>(); };
  const std::vector<double> a = values(a_in), b = values(b_in), got = values(y);
  const std::vector<double> added = bias.defined() ? values(bias) : std::vector<double>{};
  const auto B = static_cast<size_t>(batched ? a_in.dim(0) : 1);
  const auto m = static_cast<size_t>(a_in.dim(-2)), k = static_cast<size_t>(a_in.dim(-1));
  const auto n = static_cast<size_t>(b_in.dim(-1));
  if (y.dtype() != kBF16 || got.size() != B * m * n) return concat("shape or dtype: ", y);
  std::vector<double> sums(n), sizes(n);
  for (size_t row = 0; row < B * m; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(sizes.begin(), sizes.end(), 0.0);
    for (size_t t = 0; t < k; ++t) {
      const double* const from = &b[(row / m * k + t) * n];
      for (size_t j = 0; j < n; ++j) {
        sums[j] += a[row * k + t] * from[j];
        sizes[j] += std::abs(a[row * k + t] * from[j]);
      }
    }
    for (size_t j = 0; j < n; ++j) {
      if (!added.empty()) {
        sums[j] += added[j];
        sizes[j] += std::abs(added[j]);
      }
      // Each of k + 1 additions errs by 2^-24 of the sum of sizes at most, the rounding by 2^-8 of
      // the sum. AMX adds two products at a time and rounds to nearest as well.
      const double sum_error = static_cast<double>(k + 1) * std::ldexp(sizes[j], -24);
      const double bound = sum_error + std::ldexp(std::abs(sums[j]) + sum_error, -8);
      if (!(std::abs(got[row * n + j] - sums[j]) <= bound)) {
        return concat("row ", row, " column ", j, ": ", got[row * n + j], ", not ", sums[j]);
      }
    }
  }
  return "";
}

struct Sizes {
  int64_t B, m, k, n;  // B = 0: no batch
};

// Products of at least 2^18 multiplications run in bf16; of more than 4e7 on several threads.
const Sizes kSizes[] = {
    {0, 64, 64, 64},   {0, 9, 257, 129}, {0, 32, 256, 64},  {0, 33, 95, 101}, {0, 300, 1, 1001},
    {0, 1001, 300, 1}, {0, 8, 256, 256}, {0, 17, 2047, 16}, {0, 5, 6, 7},     {4, 64, 33, 64},
    {3, 31, 65, 77},   {64, 16, 17, 32}, {1, 64, 80, 65},   {7, 1, 255, 300}, {5, 300, 255, 1},
};

}  // namespace

TEST_CASE("bf16 product: every layout agrees with sums in f64") {
  const NoGrad off;
  manual_seed(3);
  int64_t turn = 0;
  for (const Sizes& s : kSizes) {
    const Tensor a = s.B == 0 ? draw({s.m, s.k}) : draw({s.B, s.m, s.k});
    const Tensor b = s.B == 0 ? draw({s.k, s.n}) : draw({s.B, s.k, s.n});
    for (const Memory left : kMemories) {
      for (const Memory right : kMemories) {
        const ThreadsScope threads(1 + static_cast<int>(turn++ % 2));
        INFO("B ", s.B, " m ", s.m, " k ", s.k, " n ", s.n, " layouts ", static_cast<int>(left),
             " ", static_cast<int>(right));
        CHECK(wrong(matmul(laid_out(a, left), laid_out(b, right)), a, b, {}) == "");
      }
    }
  }
}

TEST_CASE("bf16 product: large ones agree on one and two threads") {
  const NoGrad off;
  manual_seed(4);
  const Tensor a = draw({512, 320}), b = draw({320, 256}), c = draw({320, 512});
  const Tensor d = draw({8, 130, 200}), e = draw({8, 200, 210});
  for (const int count : {1, 2}) {
    const ThreadsScope threads(count);
    CAPTURE(count);
    CHECK(wrong(matmul(a, b), a, b, {}) == "");
    CHECK(wrong(matmul(transpose(c, 0, 1), b), transpose(c, 0, 1), b, {}) == "");
    CHECK(wrong(matmul(d, e), d, e, {}) == "");
  }
}

TEST_CASE("bf16 product: a matrix repeated for a batch") {
  const NoGrad off;
  manual_seed(5);
  const Tensor one_a = draw({1, 30, 90}), one_b = draw({1, 90, 70});
  const Tensor a = draw({6, 30, 90}), b = draw({6, 90, 70});
  const Tensor wide_a = expand(one_a, {6, 30, 90}), wide_b = expand(one_b, {6, 90, 70});
  CHECK(wrong(bmm(wide_a, b), wide_a, b, {}) == "");
  CHECK(wrong(bmm(a, wide_b), a, wide_b, {}) == "");
  CHECK(wrong(bmm(wide_a, wide_b), wide_a, wide_b, {}) == "");
  const Tensor row = expand(draw({1, 300}), {300, 300}),
               column = expand(draw({300, 1}), {300, 300});
  CHECK(wrong(matmul(row, column), row, column, {}) == "");
  CHECK(wrong(matmul(column, row), column, row, {}) == "");
}

TEST_CASE("bf16 product: linear adds its bias before it rounds, and its gradients") {
  manual_seed(6);
  for (const Sizes& s :
       {Sizes{0, 64, 96, 72}, {0, 31, 257, 127}, {0, 4, 300, 301}, {0, 600, 130, 600}}) {
    for (const int count : {1, 2}) {
      INFO("rows ", s.m, " in ", s.k, " out ", s.n, " threads ", count);
      const ThreadsScope threads(count);
      Tensor x = draw({s.m, s.k}), w = draw({s.n, s.k});
      // Where the bias nearly cancels the product, a product that was rounded before differs.
      Tensor bias = (randn({s.n}) * 16).to(kBF16).repeat_interleave(2, 0).slice(0, 0, 2 * s.n, 2);
      const Tensor dy = draw({s.m, s.n});
      {
        const NoGrad off;
        const Tensor wt = transpose(w, 0, 1);
        CHECK(wrong(linear(x, w, bias), x, wt, bias) == "");
        CHECK(wrong(linear(x, w, bias.contiguous()), x, wt, bias) == "");
        CHECK(wrong(linear(x, w), x, wt, {}) == "");
      }
      x.requires_grad_();
      w.requires_grad_();
      linear(x, w).backward(dy);
      const NoGrad off;
      CHECK(wrong(x.grad(), dy, w, {}) == "");
      CHECK(wrong(w.grad(), transpose(dy, 0, 1), x, {}) == "");
    }
  }
}

TEST_CASE("bf16 product: no rows, no columns, no terms") {
  const NoGrad off;
  CHECK(matmul(zeros({0, 512}, {.dtype = kBF16}), draw({512, 512})).shape() == Shape{0, 512});
  CHECK(matmul(draw({512, 512}), zeros({512, 0}, {.dtype = kBF16})).shape() == Shape{512, 0});
  CHECK(bmm(zeros({0, 64, 64}, {.dtype = kBF16}), zeros({0, 64, 64}, {.dtype = kBF16})).numel() ==
        0);
  const Tensor none = matmul(zeros({600, 0}, {.dtype = kBF16}), zeros({0, 600}, {.dtype = kBF16}));
  CHECK(none.to(kF32).abs().sum().item<float>() == 0);
}

TEST_CASE("bf16 product: NaN and infinity pass through") {
  const NoGrad off;
  const Tensor a = full({64, 64}, std::numeric_limits<double>::infinity(), {.dtype = kBF16});
  const Tensor b = ones({64, 64}, {.dtype = kBF16}), none = zeros({64, 64}, {.dtype = kBF16});
  for (const double y : matmul(a, b).to(kF64).to_vector<double>()) CHECK(std::isinf(y));
  for (const double y : matmul(a, none).to(kF64).to_vector<double>()) CHECK(std::isnan(y));
}
