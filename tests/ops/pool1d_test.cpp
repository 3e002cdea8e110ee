// 1-d pooling against the definition, window by window.
#include "lathe/ops/pool1d.h"

#include <algorithm>
#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using In = const Tensors&;

struct Window {
  int64_t kernel, stride, pad, dilation;
};
constexpr Window kWindows[] = {{2, 2, 0, 1}, {3, 2, 1, 1}, {3, 1, 0, 2}, {9, 9, 0, 1}};

/// f(the values of the window that lie inside x, their positions) for each window of each row.
template <class F>
std::vector<double> by_definition(const Tensor& x, const Window& w, F f) {
  const std::vector<double> all = x.to_vector<double>();
  const int64_t size = x.dim(-1), rows = x.numel() / size;
  const int64_t last = size + w.pad - w.dilation * (w.kernel - 1) - 1;
  std::vector<double> out;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t start = -w.pad; start <= last; start += w.stride) {
      std::vector<double> values;
      std::vector<int64_t> places;
      for (int64_t k = 0; k < w.kernel; ++k) {
        const int64_t at = start + k * w.dilation;
        if (at < 0 || at >= size) continue;
        values.push_back(all[static_cast<size_t>(row * size + at)]);
        places.push_back(at);
      }
      out.push_back(f(values, places));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("pool1d: values agree with the definition in every layout") {
  manual_seed(3);
  const Tensor dense = randn({2, 3, 11}, kF64);
  for (const Window& w : kWindows) {
    CAPTURE(w.kernel);
    for (const Layout& layout : layouts()) {
      const Tensor x = layout.apply(dense);
      const MaxPool1dOptions max{w.kernel, w.stride, w.pad, w.dilation, false};
      const auto largest = by_definition(dense, w, [](const auto& values, const auto&) {
        return *std::ranges::max_element(values);
      });
      const auto where = by_definition(dense, w, [](const auto& values, const auto& places) {
        const auto at = std::ranges::max_element(values) - values.begin();
        return static_cast<double>(places[static_cast<size_t>(at)]);
      });
      CHECK(difference(max_pool1d(x, max), largest, 0) == "");
      const auto [values, indices] = max_pool1d_with_indices(x, max);
      CHECK(difference(values, largest, 0) == "");
      CHECK(difference(indices, where, 0) == "");
      if (w.dilation != 1) continue;
      const auto mean_of = [&](bool count_pad) {
        return by_definition(dense, w, [&](const auto& window, const auto&) {
          double sum = 0;
          for (const double v : window) sum += v;
          return sum /
                 (count_pad ? static_cast<double>(w.kernel) : static_cast<double>(window.size()));
        });
      };
      for (const bool count : {true, false}) {
        const AvgPool1dOptions avg{w.kernel, w.stride, w.pad, false, count};
        CHECK(difference(avg_pool1d(x, avg), mean_of(count), 1e-12) == "");
      }
    }
  }
  CHECK(max_pool1d(dense[0], {.kernel = 4}).shape() == Shape{3, 2});
  CHECK(max_pool1d(dense[0], {.kernel = 4, .ceil_mode = true}).shape() == Shape{3, 3});
}

TEST_CASE("adaptive_avg_pool1d: windows cover the row") {
  const Tensor x = tensor({{1.0, 2.0, 3.0, 4.0, 5.0}}, kF64);
  CHECK(adaptive_avg_pool1d(x, 2).to_vector<double>() == std::vector<double>{2, 4});
  CHECK(adaptive_avg_pool1d(x, 1).to_vector<double>() == std::vector<double>{3});
}

TEST_CASE("pool1d: gradients agree with finite differences, twice") {
  manual_seed(4);
  const Tensor x = randn({2, 2, 7}, kF64);
  const GradientCase cases[] = {
      {"max_pool1d",
       [](In in) { return max_pool1d(in[0], {.kernel = 3, .stride = 2, .pad = 1}); },
       {x}},
      {"max_pool1d_with_indices",
       [](In in) { return max_pool1d_with_indices(in[0], {.kernel = 2}).values; },
       {x}},
      {"avg_pool1d", [](In in) { return avg_pool1d(in[0], {.kernel = 3, .pad = 1}); }, {x}},
      {"adaptive_avg_pool1d", [](In in) { return adaptive_avg_pool1d(in[0], 3); }, {x}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("pool1d: bad calls are refused") {
  const Tensor x = zeros({2, 3, 4});
  CHECK_THROWS_AS(max_pool1d(zeros({4}), {}), ShapeError);
  CHECK_THROWS_AS(avg_pool1d(zeros({1, 2, 3, 4}), {}), ShapeError);
  using doctest::Contains;
  CHECK_THROWS_WITH_AS(max_pool1d(x, {.kernel = 5}),
                       Contains("max_pool1d: a window of 5 with dilation 1 is larger than 4"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(max_pool1d(x, {.kernel = 0}), Contains("max_pool1d: kernel"), ValueError);
  CHECK_THROWS_AS(max_pool1d(x, {.kernel = 2, .stride = -1}), ValueError);
  CHECK_THROWS_WITH_AS(avg_pool1d(x, {.kernel = 7}), Contains("avg_pool1d: "), ShapeError);
  CHECK_THROWS_AS(max_pool1d(x, {.kernel = 2, .pad = 2}), ValueError);
  CHECK_THROWS_AS(avg_pool1d(x.to(kI64), {}), DTypeError);
  CHECK_THROWS_AS(adaptive_avg_pool1d(x, -1), ValueError);
}
