// A few rows: attention of a few queries, and products of a few rows, in every dtype and layout,
// against sums in f64 that are written out.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "compare.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/where.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using Values = std::vector<double>;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Heads of keys serve as many heads of queries each. `added` [H,L,S] is added to the scores.
Values attention_by_sums(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added) {
  const Values a = q.to_vector<double>(), b = k.to_vector<double>(), c = v.to_vector<double>();
  const Values plus = added.to_vector<double>();
  const auto H = static_cast<size_t>(q.dim(0)), L = static_cast<size_t>(q.dim(1));
  const auto S = static_cast<size_t>(k.dim(1)), D = static_cast<size_t>(q.dim(2));
  const size_t E = static_cast<size_t>(v.dim(2)), group = H / static_cast<size_t>(k.dim(0));
  Values y(H * L * E);
  for (size_t row = 0; row < H * L; ++row) {
    const size_t head = row / L / group;
    Values scores(S);
    double largest = kNever, sum = 0;
    for (size_t j = 0; j < S; ++j) {
      for (size_t d = 0; d < D; ++d) scores[j] += a[row * D + d] * b[(head * S + j) * D + d];
      scores[j] = scores[j] / std::sqrt(static_cast<double>(D)) + plus[row * S + j];
      largest = std::max(largest, scores[j]);
    }
    if (largest == kNever) continue;
    for (double& s : scores) sum += s = std::exp(s - largest);
    for (size_t j = 0; j < S; ++j) {
      for (size_t e = 0; e < E; ++e) y[row * E + e] += scores[j] / sum * c[(head * S + j) * E + e];
    }
  }
  return y;
}

/// A tensor of [heads,rows,cols] that lies in memory as part of a longer cache, as [rows,heads,cols],
/// with its columns apart, or densely.
Tensor laid_out(const Tensor& t, int layout) {
  const int64_t heads = t.dim(0), rows = t.dim(1), cols = t.dim(2);
  const Tensor whole = layout == 1   ? empty({heads, rows + 5, cols}, {.dtype = t.dtype()})
                       : layout == 2 ? empty({rows, heads, cols}, {.dtype = t.dtype()})
                       : layout == 3 ? empty({heads, cols, rows}, {.dtype = t.dtype()})
                                     : empty({heads, rows, cols}, {.dtype = t.dtype()});
  const Tensor part = layout == 1   ? narrow(whole, 1, 3, rows)
                      : layout == 2 ? transpose(whole, 0, 1)
                      : layout == 3 ? transpose(whole, 1, 2)
                                    : whole;
  part.copy_(t);
  return part;
}

Tensor randn_of(const Shape& shape, DType dtype) { return randn(shape, {.dtype = kF64}).to(dtype); }

}  // namespace

TEST_CASE("few queries: attention in every dtype and layout, masked and grouped") {
  const NoGrad off;
  // A task has 256 keys, of which 32 are multiplied at a time; vectors have 16 numbers of f32.
  const int64_t keys[] = {1, 2, 31, 32, 33, 127, 255, 256, 257, 521, 1031};
  const int64_t widths[] = {1, 7, 8, 16, 17, 64, 67};
  const int64_t queries[] = {1, 2, 3, 5, 8};
  const DType dtypes[] = {kF64, kF32, kBF16, kF16};
  manual_seed(1);
  for (int n = 0; n < 160; ++n) {
    const auto pick = [&](const auto& list, int step) {
      return list[static_cast<size_t>(n / step + n) % std::size(list)];
    };
    const int64_t S = pick(keys, 11), D = pick(widths, 7), E = pick(widths, 3);
    const int64_t L = pick(queries, 5), M = 1 + n % 3, H = M * (1 + n % 4);
    const DType dtype = pick(dtypes, 4);
    const int layout = n / 3 % 4, option = n / 2 % 5;
    INFO("n ", n, " L ", L, " S ", S, " D ", D, " E ", E, " heads ", H, " of ", M, " dtype ", dtype,
         " layout ", layout, " option ", option);
    const Tensor q = laid_out(randn_of({H, L, D}, dtype), layout);
    const Tensor k = laid_out(randn_of({M, S, D}, dtype), layout);
    const Tensor v = laid_out(randn_of({M, S, E}, dtype), (layout + n) % 4);
    // One of the queries looks nowhere.
    Tensor seen = randn({H, L, S}) > 0, added = zeros({H, L, S}, {.dtype = kF64});
    seen[0][L - 1].fill_(false);
    AttentionOptions opt{.grouped = H != M};
    if (option == 1) opt.causal = true;
    if (option == 2) opt.mask = seen;
    if (option == 3) opt.mask = randn_of({L, S}, dtype);
    if (option == 4)
      opt.mask = zeros({H, L, S}, {.dtype = dtype}).masked_fill(logical_not(seen), kNever);
    if (opt.causal) {
      added = added.masked_fill(logical_not(tril(ones({L, S}, {.dtype = kBool}))), kNever);
    }
    if (option == 2 || option == 4) added = added.masked_fill(logical_not(seen), kNever);
    if (option == 3) added = added + opt.mask.to(kF64);
    const Tensor y = scaled_dot_product_attention(q, k, v, opt);
    CHECK(y.shape() == Shape{H, L, E});
    CHECK(y.dtype() == dtype);
    CHECK(difference(y, attention_by_sums(q, k, v, added), tolerance_of(dtype)) == "");
  }
}

TEST_CASE("few queries: heads without a mask's elements, and many heads of one key") {
  const NoGrad off;
  manual_seed(4);
  for (const int64_t L : {int64_t{1}, int64_t{3}}) {
    const Tensor q = randn({1, L, 4}), k = randn({1, 5, 4});
    CHECK(scaled_dot_product_attention(q, k, k, {.mask = zeros({0, L, 5})}).shape() ==
          Shape{0, L, 4});
  }
  const Tensor q = randn({24, 3, 8}), k = randn({1, 300, 8});
  const Tensor y = scaled_dot_product_attention(q, k, k, {.grouped = true});
  const Tensor added = zeros({24, 3, 300}, {.dtype = kF64});
  CHECK(difference(y, attention_by_sums(q, k, k, added), tolerance_of(kF32)) == "");
}

TEST_CASE("few queries: threads do not change a bit, and the cache is not copied") {
  const NoGrad off;
  manual_seed(2);
  const int before = num_threads();
  for (const DType dtype : {kF32, kBF16}) {
    // With AMX, three queries of bf16 use tile registers, which need copies of the keys.
    const int64_t L = dtype == kBF16 ? 2 : 3;
    const Tensor q = randn_of({4, L, 64}, dtype), cache = randn_of({2, 4096, 64}, dtype);
    const Tensor k = narrow(cache, 1, 0, 4001);
    std::vector<Values> results;
    for (const int count : {1, 2, 3}) {
      set_num_threads(count);
      host_allocator().reset_peak();
      const size_t held = host_allocator().stats().allocated_bytes;
      results.push_back(
          scaled_dot_product_attention(q, k, k, {.grouped = true}).to_vector<double>());
      CHECK(host_allocator().stats().peak_allocated_bytes - held <
            static_cast<size_t>(cache.bytes()) / 8);
    }
    CHECK(results[1] == results[0]);
    CHECK(results[2] == results[0]);
  }
  set_num_threads(before);
}

TEST_CASE("few rows: products in every dtype and layout, with threads that change no bit") {
  const NoGrad off;
  manual_seed(3);
  const int64_t terms[] = {1, 15, 16, 17, 32, 67, 1031}, columns[] = {1, 7, 63, 64, 65, 131, 2053};
  const int before = num_threads();
  for (const DType dtype : {kF64, kF32, kBF16, kF16}) {
    for (const int64_t rows : {1, 2, 3, 8, 9}) {
      for (size_t n = 0; n < std::size(terms) * std::size(columns); ++n) {
        const int64_t K = terms[n % 7], N = columns[n / 7];
        const Tensor x = randn_of({rows, K}, dtype),
                     b = laid_out(randn_of({1, K, N}, dtype), static_cast<int>(n) % 4)[0];
        const Tensor bias = randn_of({N}, dtype);
        INFO("rows ", rows, " K ", K, " N ", N, " ", dtype, " layout ", n % 4);
        const Values left = x.to_vector<double>(), right = b.to_vector<double>(),
                     plus = bias.to_vector<double>();
        Values want, sums;
        for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
          for (size_t j = 0; j < static_cast<size_t>(N); ++j) {
            double sum = 0;
            for (size_t k = 0; k < static_cast<size_t>(K); ++k) {
              sum += left[i * static_cast<size_t>(K) + k] * right[k * static_cast<size_t>(N) + j];
            }
            want.push_back(sum);
            sums.push_back(sum + plus[j]);
          }
        }
        std::vector<Values> results;
        for (const int count : {1, 2}) {
          set_num_threads(count);
          const Tensor y = matmul(x, b), z = linear(x, b.t(), bias);
          CHECK(difference(y, want, tolerance_of(dtype)) == "");
          CHECK(difference(z, sums, tolerance_of(dtype)) == "");
          results.push_back(y.to_vector<double>());
          results.push_back(z.to_vector<double>());
        }
        if (rows == 1 || (rows <= 8 && dtype != kF32)) {  // gemm_few; others may be oneDNN's
          CHECK(results[0] == results[2]);
          CHECK(results[1] == results[3]);
        }
      }
    }
  }
  set_num_threads(before);
}
