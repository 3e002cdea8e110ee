// Chapter 11: attention, first with all scores in memory, then tile by tile with the same result.
#include <lathe/core/memory/host_allocator.h>
#include <lathe/lathe.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>

using lathe::matmul;
using lathe::Tensor;

/// As examples/mingpt.cpp has it, without a mask: all L x L scores, then their softmax.
static Tensor naive(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores = matmul(q, k.t()) / std::sqrt(static_cast<double>(q.dim(1)));
  return matmul(scores.softmax(-1), v);
}

/// A tile of queries meets one tile of keys after another, and keeps three things: the largest
/// score of each query so far, the sum of exp(score - largest), and that sum weighted with values.
static Tensor tiled(const Tensor& q, const Tensor& k, const Tensor& v, int64_t tile) {
  const Tensor out = lathe::empty(q.shape(), {.dtype = q.dtype()});
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(1)));
  for (int64_t i = 0; i < q.dim(0); i += tile) {
    const Tensor queries = q.slice(0, i, i + tile) * scale;
    Tensor largest = lathe::full({queries.dim(0), 1}, -INFINITY, q.dtype());
    Tensor sum = lathe::zeros({queries.dim(0), 1}, q.dtype()), weighted = queries * 0;
    for (int64_t j = 0; j < k.dim(0); j += tile) {
      const Tensor scores = matmul(queries, k.slice(0, j, j + tile).t());
      const Tensor now = lathe::maximum(largest, scores.amax({1}, {.keepdim = true}));
      const Tensor shrink = (largest - now).exp(), p = (scores - now).exp();
      sum = sum * shrink + p.sum({1}, {.keepdim = true});
      weighted = weighted * shrink + matmul(p, v.slice(0, j, j + tile));
      largest = now;
    }
    out.slice(0, i, i + tile).copy_(weighted / sum);
  }
  return out;
}

/// The most KiB that f holds beyond what is there before.
static size_t peak_kib(const std::function<Tensor()>& f) {
  lathe::host_allocator().reset_peak();
  const size_t before = lathe::host_allocator().stats().allocated_bytes;
  f();
  return (lathe::host_allocator().stats().peak_allocated_bytes - before) / 1024;
}

int main() {
  double largest = -INFINITY, sum = 0;
  for (const auto& [a, b] : {std::pair{1., 3.}, std::pair{2., 5.}}) {
    const double now = std::fmax(largest, std::fmax(a, b));
    sum = sum * std::exp(largest - now) + std::exp(a - now) + std::exp(b - now);
    largest = now;
    std::printf("scores %g %g: largest %g, sum %.6f\n", a, b, largest, sum);
  }
  std::printf("all at once: largest 5, sum %.6f\n", std::exp(-4) + std::exp(-2) + std::exp(-3) + 1);

  const lathe::NoGrad off;
  constexpr int D = 64, kTile = 128;
  for (const int L : {512, 1024, 2048}) {
    lathe::manual_seed(1);
    const Tensor q = lathe::randn({L, D}), k = lathe::randn({L, D}), v = lathe::randn({L, D});
    const std::pair<const char*, std::function<Tensor()>> ways[] = {
        {"naive", [&] { return naive(q, k, v); }},
        {"library", [&] { return lathe::scaled_dot_product_attention(q, k, v); }},
        {"tiled", [&] { return tiled(q, k, v, kTile); }}};
    const Tensor expected = ways[1].second();
    std::printf("L %d: scores %d KiB, a tile of them %d KiB, q, k, v and result %d KiB each\n", L,
                L * L * 4 / 1024, kTile * kTile * 4 / 1024, L * D * 4 / 1024);
    for (const auto& [name, f] : ways) {
      const bool equal = (f() - expected).abs().amax().item<double>() < 1e-6;
      const auto start = std::chrono::steady_clock::now();
      const size_t kib = peak_kib(f);
      const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
      std::printf("  %-7s  equal to 1e-6: %s\n", name, equal ? "yes" : "no");
      std::printf("~ %-7s  peak %6zu KiB  %7.2f ms\n", name, kib, ms.count());
    }
  }
}
