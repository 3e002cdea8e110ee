// Chapter 4b: Winograd's F(2,3), two outputs of three taps with four products; then whole tiles.
#include <lathe/lathe.h>

#include <iostream>

using lathe::matmul;
using lathe::Tensor;

int main() {
  const double d[] = {1, 2, 3, 5}, g[] = {2, 4, 6};
  const double m[] = {(d[0] - d[2]) * g[0],                        // the first of six lines
                      (d[2] + d[1]) * ((g[0] + g[1] + g[2]) / 2),  //
                      (d[2] - d[1]) * ((g[0] - g[1] + g[2]) / 2),  //
                      (d[3] - d[1]) * g[2]};                       //
  const double y0 = m[0] + m[1] + m[2];
  const double y1 = m[1] - m[2] + m[3];
  std::cout << "six products:  " << d[0] * g[0] + d[1] * g[1] + d[2] * g[2] << ' '
            << d[1] * g[0] + d[2] * g[1] + d[3] * g[2] << "\nfour products: " << y0 << ' ' << y1
            << "\n  they are     " << m[0] << ' ' << m[1] << ' ' << m[2] << ' ' << m[3] << '\n';

  // The same as matrices: y = A^T [(G g) * (B^T d)], and for a tile on both sides.
  const Tensor bt = lathe::tensor(
      {{1., 0., -1., 0.}, {0., 1., 1., 0.}, {0., -1., 1., 0.}, {0., -1., 0., 1.}}, lathe::kF64);
  const Tensor gm =
      lathe::tensor({{1., 0., 0.}, {.5, .5, .5}, {.5, -.5, .5}, {0., 0., 1.}}, lathe::kF64);
  const Tensor at = lathe::tensor({{1., 1., 1., 0.}, {0., 1., -1., 1.}}, lathe::kF64);
  lathe::manual_seed(1);
  const int64_t C = 8, K = 16, H = 10;
  const Tensor x = lathe::randint(-4, 5, {1, C, H, H}).to(lathe::kF64);
  const Tensor w = lathe::randint(-4, 5, {K, C, 3, 3}).to(lathe::kF64);
  const Tensor y = lathe::zeros({1, K, H - 2, H - 2}, lathe::kF64);
  const Tensor u = matmul(matmul(gm, w), gm.t());  // [K,C,4,4], once for all tiles
  int64_t products = 0;
  for (int64_t p = 0; p < H - 2; p += 2) {
    for (int64_t q = 0; q < H - 2; q += 2) {
      const Tensor tile = x.slice(2, p, p + 4).slice(3, q, q + 4);  // [1,C,4,4]
      const Tensor v = matmul(matmul(bt, tile), bt.t());            // once for all filters
      const Tensor sum = (u * v).sum({1});                          // [K,4,4], over the channels
      y.slice(2, p, p + 2).slice(3, q, q + 2).copy_(matmul(matmul(at, sum), at.t()));
      products += u.numel();
    }
  }
  const Tensor expected = lathe::conv2d(x, w);
  std::cout << "largest difference from conv2d: " << (y - expected).abs().amax().item<double>();
  const int64_t direct = expected.numel() * C * 9;
  std::cout << "\nproducts: " << direct << " direct, " << products << " here, "
            << static_cast<double>(direct) / static_cast<double>(products) << " times fewer\n";
}
