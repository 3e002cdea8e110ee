// Assignment 11: attention by tiles, forward and backward.
#include "attention.h"

#include <sys/resource.h>

#include "numbers.h"
#include "tiny/views.h"

using namespace course;
using namespace tiny;

/// With all scores of a row at once, and nothing of attention.h.
static std::vector<double> by_rows(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const int64_t D = q.dim(1);
  std::vector<double> y;
  for (int64_t i = 0; i < q.dim(0); ++i) {
    std::vector<double> weights, sums(D);
    double all = 0;
    for (int64_t j = 0; j < k.dim(0) && (j <= i || !causal); ++j) {
      double score = 0;
      for (int64_t d = 0; d < D; ++d) score += q.data()[i * D + d] * k.data()[j * D + d];
      weights.push_back(std::exp(score / std::sqrt(D)));
      all += weights.back();
    }
    for (int64_t j = 0; j < std::ssize(weights); ++j)
      for (int64_t d = 0; d < D; ++d) sums[d] += weights[j] / all * v.data()[j * D + d];
    y.insert(y.end(), sums.begin(), sums.end());
  }
  return y;
}

static void expect_rows(const std::string& what, int64_t L, int64_t S,
                        const AttentionOptions& opt) {
  const Tensor q = made_up({L, 3}, 1), k = made_up({S, 3}, 2), v = made_up({S, 3}, 3);
  expect_close(what, values(attention(q, k, v, opt)), by_rows(q, k, v, opt.causal));
}

static void expect_part(const std::string& what, const Part& got, double largest, double sum) {
  expect(!std::isnan(got.sum), what + ": the sum is not a number");
  expect_equal(what + ", largest", got.largest, largest);
  expect_close(what + ", sum", {got.sum}, {sum});
}

/// "i0-i1 x j0-j1" of each tile.
static std::string tiles(int64_t L, int64_t S, const AttentionOptions& opt) {
  std::ostringstream text;
  for_each_tile(L, S, opt, [&](const Tile& t) {
    text << t.i0 << '-' << t.i1 << " x " << t.j0 << '-' << t.j1 << "; ";
  });
  return text.str();
}

/// The most KiB of memory that this process has had.
static int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

int main() {
  Report report;
  report.test(2, "two parts make one, in any order", [] {
    // 1 and 3, 2 and 5, as in chapter 11
    const Part a{3, 1 + std::exp(-2)}, b{5, 1 + std::exp(-3)};
    const double sum = std::exp(-4) + std::exp(-2) + std::exp(-3) + 1;
    expect_part("(1 3) and (2 5)", join(a, b), 5, sum);
    expect_part("(2 5) and (1 3)", join(b, a), 5, sum);
    expect_part("scores near 1000", join({1000, 1}, {1001, 2}), 1001, 2 + std::exp(-1));
  });
  report.test(1, "a part without scores changes nothing", [] {
    expect_part("with another", join({}, {3, 2}), 3, 2);
    expect_part("two of them", join({}, {}), kHidden, 0);
  });
  report.test(2, "each score is in one tile, and the last tiles may be smaller", [] {
    expect_equal("3 x 5 scores in tiles of 2", tiles(3, 5, {.tile = 2}),
                 "0-2 x 0-2; 0-2 x 2-4; 0-2 x 4-5; 2-3 x 0-2; 2-3 x 2-4; 2-3 x 4-5; ");
    expect_equal("2 x 2 scores in a tile of 64", tiles(2, 2, {}), "0-2 x 0-2; ");
  });
  report.test(2, "causal leaves out the tiles that are hidden, and no others", [] {
    expect_equal("5 x 5 in tiles of 2", tiles(5, 5, {.tile = 2, .causal = true}),
                 "0-2 x 0-2; 2-4 x 0-2; 2-4 x 2-4; 4-5 x 0-2; 4-5 x 2-4; 4-5 x 4-5; ");
    const std::string text = tiles(1024, 1024, {.tile = 128, .causal = true});
    expect_equal("of 8 x 8 tiles", std::count(text.begin(), text.end(), ';'), 36);
  });
  report.test(2, "scores are scaled, and later keys are hidden", [] {
    const Tensor q({2, 4}, {1, 2, 3, 4, 0, 1, 0, -1}),
        k({3, 4}, {1, 1, 1, 1, 0, 2, 0, 0, 1, 0, 0, 1});
    expect_close("rows 0 and 1, keys 1 and 2", scores_of({0, 2, 1, 3}, q, k, false),
                 {2, 2.5, 1, -0.5});
    expect_equal("row 1, causal", scores_of({1, 2, 0, 3}, q, k, true), {0, 1, kHidden});
  });
  report.test(3, "tiles of any size give what whole rows give", [] {
    for (const int64_t tile : {1, 2, 3, 4, 64})
      expect_rows("5 queries, 7 keys, tiles of " + std::to_string(tile), 5, 7, {.tile = tile});
  });
  report.test(1, "causal: a query gives no weight to later keys", [] {
    for (const int64_t tile : {1, 2, 3, 64})
      expect_rows("tiles of " + std::to_string(tile), 7, 7, {.tile = tile, .causal = true});
  });
  report.test(1, "large scores do not overflow", [] {
    const Tensor q = parameter(Tensor({1, 1}, {1000})), k = parameter(Tensor({3, 1}, {1, -1, 1})),
                 v = parameter(Tensor({3, 1}, {1, 5, 3}));
    const Tensor y = attention(q, k, v, {.tile = 1});
    expect_close("y", values(y), {2});
    backward(sum(y));
    expect_close("dq", values(grad(q)), {0});
    expect_close("dk", values(grad(k)), {-500, 0, 500});
    expect_close("dv", values(grad(v)), {0.5, 0, 0.5});
  });
  report.test(4, "the gradients of q, k and v agree with differences", [] {
    for (const int64_t tile : {2, 64})
      expect_gradients(
          "tiles of " + std::to_string(tile),
          {made_up({3, 2}, 1), made_up({5, 2}, 2), made_up({5, 2}, 3)},
          [&](const Tensors& in) { return attention(in[0], in[1], in[2], {.tile = tile}); });
    expect_gradients("causal, of one tensor transposed", {made_up({2, 4}, 1)},
                     [](const Tensors& in) {
                       const Tensor x = transpose(in[0]);
                       return attention(x, x, x, {.tile = 2, .causal = true});
                     });
  });
  report.test(2, "forward and backward of 1024 x 1024 scores need no 8 MiB for them", [] {
    const Tensor q = parameter(made_up({1024, 2}, 1)), k = parameter(made_up({1024, 2}, 2));
    const int64_t before = peak_kib();
    backward(sum(attention(q, k, k)));
    const int64_t grown = peak_kib() - before;
    expect(grown < 3072,
           "the memory grew by " + std::to_string(grown) + " KiB, expected less than 3072");
  });
  return report.done();
}
