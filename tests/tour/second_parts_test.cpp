// The second parts of chapters of docs/tour (3b, 4b, 10b): what they claim beyond what they quote
// and print, and the solutions of their exercises. Each case is named after its chapter or exercise.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lathe/distributed/data_parallel.h"
#include "lathe/lathe.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"

namespace lathe::test {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  return (a - b).abs().amax().item<double>();
}

// --- 3b: in place and views ----------------------------------------------------------------------

TEST_CASE("tour 3b: a write before the op that saves is harmless, one after it is an error") {
  for (const bool after : {false, true}) {
    const Tensor w = tensor({1.0, 2.0}, kF64);
    w.requires_grad_();
    const Tensor h = w * 2;
    if (!after) h.add_(1);
    const Tensor y = h * h;
    if (after) h.add_(1);
    if (after)
      CHECK_THROWS_AS(y.sum().backward(), StateError);
    else
      CHECK_NOTHROW(y.sum().backward());
  }
}

TEST_CASE("tour 3b: a write into other numbers of the storage is an error too") {
  const Tensor w = ones({4}, kF64);
  w.requires_grad_();
  const Tensor h = w * 2, first = h.slice(0, 0, 2), rest = h.slice(0, 2, 4);
  const Tensor y = first * first;
  rest.mul_(3);
  CHECK_THROWS_AS(y.sum().backward(), StateError);
}

TEST_CASE("tour 3b: an op that saves nothing does not care") {
  const Tensor w = ones({2}, kF64);
  w.requires_grad_();
  const Tensor h = w * 2, y = h + 1;
  h.mul_(5);
  y.sum().backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2, 2});
}

TEST_CASE("tour 3b.1: overlapping windows: gradients add up, and only a single one is written") {
  const auto windows_of = [](const Tensor& line) { return as_strided(line, {3, 3}, {1, 1}, 0); };
  const Tensor x = arange(5, kF64);
  x.requires_grad_();
  windows_of(x).sum().backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 2, 3, 2, 1});

  const Tensor line = arange(5, kF64), windows = windows_of(line);
  CHECK_THROWS_AS(windows.add_(1), ValueError);  // two writes would meet in one number
  windows[0].add_(1);                            // three numbers, each once
  CHECK(line.to_vector<double>() == std::vector<double>{1, 2, 3, 3, 4});
  CHECK(windows.to_vector<double>() == std::vector<double>{1, 2, 3, 2, 3, 3, 3, 3, 4});
}

TEST_CASE("tour 3b.2: three of six writes reach x") {
  const Tensor x = zeros({2, 2});
  x[0].fill_(1);
  x.clone().fill_(1);          // a copy
  x.t().add_(1);               // a view
  x.contiguous().add_(1);      // x is dense, so this is x
  x.t().contiguous().add_(1);  // a copy
  x.t().reshape({4}).mul_(2);  // a copy: no one stride says it
  CHECK(x.version() == 3);
  CHECK(x.to_vector<float>() == std::vector<float>{3, 3, 2, 2});
}

TEST_CASE("tour 3b.3: the gradient of a broadcast factor is a sum along the rows") {
  const Tensor m = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, kF64);
  const Tensor c = tensor({{10.0}, {20.0}}, kF64),
               dy = tensor({{1.0, 0.0, 2.0}, {1.0, 1.0, 1.0}}, kF64);
  c.requires_grad_();
  (m * c).backward(dy);
  CHECK(c.grad().to_vector<double>() == std::vector<double>{1 * 1 + 2 * 3, 4 + 5 + 6});
  CHECK(largest_difference(c.grad(), sum_to_shape(dy * m, {2, 1})) == 0);
}

// --- 4b: Winograd --------------------------------------------------------------------------------

TEST_CASE("tour 4b: the library takes Winograd from 16 channels on, and not if told to be exact") {
  for (const int64_t channels : {8, 16, 64}) {
    cpu::CpuConvKey key{
        .g = conv2d_geometry("test", {8, channels, 32, 32}, {channels, channels, 3, 3}, {.pad = 1}),
        .format = kChannelsLast,
        .exact = false};
    CHECK(cpu::winograd_tile(cpu::conv2d_choice(key, {.onednn = true}).engine).has_value() ==
          (channels >= 16));
    key.exact = true;
    CHECK(!cpu::winograd_tile(cpu::conv2d_choice(key, {.onednn = true}).engine));
  }
}

double times_fewer(int64_t m, int64_t r) {
  const auto outputs = static_cast<double>(m * m), place = static_cast<double>(m + r - 1);
  return outputs * static_cast<double>(r * r) / (place * place);
}

TEST_CASE("tour 4b.1: products of F(m x m, r x r)") {
  CHECK(times_fewer(2, 3) == 2.25);
  CHECK(times_fewer(4, 3) == 4);
  CHECK(times_fewer(6, 3) == 5.0625);
  CHECK(times_fewer(2, 5) == doctest::Approx(2.7778).epsilon(1e-4));
  CHECK(times_fewer(1, 3) == 1);  // one output: the direct sum
}

TEST_CASE("tour 4b.2: Winograd rounds more than direct sums, and little") {
  manual_seed(1);
  const Tensor x = randn({1, 64, 32, 32}).contiguous(kChannelsLast), w = randn({64, 64, 3, 3});
  const Tensor exact = conv2d(x.to(kF64), w.to(kF64), {.pad = 1});
  const double scale = exact.abs().amax().item<double>();
  const bool before = cpu::conv_exact();
  double error[2];
  for (const bool direct : {false, true}) {
    cpu::set_conv_exact(direct);
    error[direct] = largest_difference(conv2d(x, w, {.pad = 1}).to(kF64), exact) / scale;
  }
  cpu::set_conv_exact(before);
  CHECK(error[true] < 2e-6);
  CHECK(error[false] < 6e-6);
  CHECK(error[false] > error[true]);
}

TEST_CASE("tour 4b.3: the filter's gradient by 16 products, where direct sums have 36") {
  const Tensor bt =
      tensor({{1., 0., -1., 0.}, {0., 1., 1., 0.}, {0., -1., 1., 0.}, {0., -1., 0., 1.}}, kF64);
  const Tensor gm = tensor({{1., 0., 0.}, {.5, .5, .5}, {.5, -.5, .5}, {0., 0., 1.}}, kF64);
  const Tensor at = tensor({{1., 1., 1., 0.}, {0., 1., -1., 1.}}, kF64);
  const Tensor d = randint(-4, 5, {4, 4}).to(kF64), dy = randint(-4, 5, {2, 2}).to(kF64);
  const Tensor v = matmul(matmul(bt, d), bt.t()), a = matmul(matmul(at.t(), dy), at);
  CHECK(a.numel() == 16);
  const Tensor dg = matmul(matmul(gm.t(), v * a), gm);
  const Tensor library =
      conv2d_weight_grad(dy.reshape({1, 1, 2, 2}), d.reshape({1, 1, 4, 4}), {1, 1, 3, 3});
  CHECK(largest_difference(dg, library.reshape({3, 3})) < 1e-12);
}

// --- 10b: a ring ---------------------------------------------------------------------------------

/// All-reduces arrays of one length over a ring, chunk c from S c / n on. Returns the numbers sent.
template <class T>
int64_t ring_all_reduce(std::vector<std::vector<T>>& ranks) {
  const auto n = static_cast<int64_t>(ranks.size()), size = static_cast<int64_t>(ranks[0].size());
  int64_t sent = 0;
  const auto round = [&](int64_t first, bool adds) {
    const std::vector<std::vector<T>> before = ranks;
    for (int64_t rank = 0; rank < n; ++rank) {
      const int64_t chunk = (first + rank + 2 * n) % n;
      const auto to = static_cast<size_t>((rank + 1) % n), from = static_cast<size_t>(rank);
      for (int64_t i = size * chunk / n; i < size * (chunk + 1) / n; ++i, ++sent) {
        const auto at = static_cast<size_t>(i);
        ranks[to][at] = before[from][at] + (adds ? before[to][at] : T(0));
      }
    }
  };
  for (int64_t step = 0; step < n - 1; ++step) round(-step, true);
  for (int64_t step = 0; step < n - 1; ++step) round(1 - step, false);
  return sent;
}

TEST_CASE("tour 10b: sizes of buckets, and how many tensors ResNet-18 has") {
  const distributed::DataParallelOptions options;
  CHECK(options.first_bucket_bytes == 1 << 20);
  CHECK(options.bucket_bytes == 25 << 20);
  const Tensors parameters = nn::resnet18().parameters();
  CHECK(parameters.size() == 62);
  int64_t bytes = 0;
  for (const Tensor& p : parameters) bytes += p.bytes();
  CHECK(static_cast<double>(bytes) == doctest::Approx(46.8e6).epsilon(1e-3));
}

TEST_CASE("tour 10b.1: each number of an array travels 2 (n - 1) times, however it is cut") {
  std::vector<std::vector<double>> ranks = {
      {1, 2, 3, 4, 5, 6, 7}, {10, 20, 30, 40, 50, 60, 70}, {100, 200, 300, 400, 500, 600, 700}};
  CHECK(ring_all_reduce(ranks) == 2 * (3 - 1) * 7);
  for (const auto& array : ranks)
    CHECK(array == std::vector<double>{111, 222, 333, 444, 555, 666, 777});
}

TEST_CASE("tour 10b.2: all ranks have the same bits, and chunks with equal numbers have not") {
  std::vector<std::vector<float>> ranks;
  for (const float value : {1e8f, 1.f, -1e8f, 1.f}) ranks.emplace_back(4, value);
  ring_all_reduce(ranks);
  // Chunk c is added up from rank c on: the ones are lost where they meet 1e8 first.
  for (const auto& array : ranks) CHECK(array == std::vector<float>{1, 0, 1, 0});
}

TEST_CASE("tour 10b.3: 62 all-reduces or three") {
  const auto seconds = [](double calls) {
    const double rounds = 2 * (4 - 1);
    return calls * rounds * 20e-6 + rounds * 46.8e6 / 4 / 10e9;  // latency, and all bytes
  };
  CHECK(seconds(62) == doctest::Approx(7.44e-3 + 7.02e-3));
  CHECK(seconds(3) == doctest::Approx(0.36e-3 + 7.02e-3));
}

}  // namespace
}  // namespace lathe::test
