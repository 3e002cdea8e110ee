// Chapter 4: the same convolution three ways: seven loops, im2col and a matrix product, the library.
#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>
#include <functional>

using lathe::Tensor;

constexpr int64_t N = 4, C = 16, K = 16, H = 32, W = 32, R = 3;  // 3x3, stride 1, pad 1

/// y[n,k,p,q] = sum over c,r,s of x[n,c,p+r-1,q+s-1] w[k,c,r,s], as it is written.
static Tensor by_loops(const Tensor& x, const Tensor& w) {
  Tensor y = lathe::zeros({N, K, H, W});
  const float *px = x.data<float>(), *pw = w.data<float>();
  float* py = y.data<float>();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t p = 0; p < H; ++p)
        for (int64_t q = 0; q < W; ++q)
          for (int64_t c = 0; c < C; ++c)
            for (int64_t r = 0; r < R; ++r)
              for (int64_t s = 0; s < R; ++s) {
                const int64_t h = p + r - 1, v = q + s - 1;
                if (h < 0 || h >= H || v < 0 || v >= W) continue;
                py[((n * K + k) * H + p) * W + q] +=
                    px[((n * C + c) * H + h) * W + v] * pw[((k * C + c) * R + r) * R + s];
              }
  return y;
}

/// Every window becomes a column of C*R*R numbers; the filters are the rows of a matrix.
static Tensor by_im2col(const Tensor& x, const Tensor& w) {
  const Tensor columns = lathe::unfold(x, {.kernel = R, .pad = 1});  // [N, C*9, H*W]
  return lathe::matmul(w.reshape({K, C * R * R}), columns).reshape({N, K, H, W});
}

static double milliseconds(const std::function<Tensor()>& f) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

int main() {
  // Whole numbers from -4 to 4: all sums are exact, so that all three ways must agree to the bit.
  lathe::manual_seed(1);
  const Tensor x = lathe::randint(-4, 5, {N, C, H, W}).to(lathe::kF32);
  const Tensor w = lathe::randint(-4, 5, {K, C, R, R}).to(lathe::kF32);
  const Tensor columns = lathe::unfold(x, {.kernel = R, .pad = 1});
  const double macs = static_cast<double>(N * K * H * W * C * R * R);
  std::printf("multiply-adds: %.0f\n", macs);
  std::printf("x: %lld numbers; as columns: %lld, each pixel up to %lld times\n",
              static_cast<long long>(x.numel()), static_cast<long long>(columns.numel()),
              static_cast<long long>(R * R));
  const std::pair<const char*, std::function<Tensor()>> ways[] = {
      {"seven loops", [&] { return by_loops(x, w); }},
      {"im2col + matmul", [&] { return by_im2col(x, w); }},
      {"conv2d", [&] { return lathe::conv2d(x, w, {.pad = 1}); }}};
  const Tensor expected = by_loops(x, w);
  for (const auto& [name, f] : ways)
    std::printf("%-16s largest difference %g\n", name,
                (f() - expected).abs().amax().item<double>());
  for (const auto& [name, f] : ways) {
    const double ms = milliseconds(f);
    std::printf("~ %-16s %8.3f ms %7.2f GFLOP/s\n", name, ms, 2 * macs / ms / 1e6);
  }
}
