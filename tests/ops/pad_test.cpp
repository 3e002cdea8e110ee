// pad against the definition.
#include "lathe/ops/pad.h"

#include <algorithm>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape x;
  std::vector<int64_t> amounts;
};
const Case kCases[] = {
    {{2, 3}, {1, 2}},
    {{2, 3}, {0, 1, 2, 0}},
    {{2, 3, 4}, {-1, 2, 1, -2}},  // crop and widen
    {{2, 3}, {-1, -1}},
    {{2, 3}, {-3, 0}},       // nothing left
    {{2, 3}, {-3, 2}},       // only border left
    {{0, 3}, {1, 1, 2, 0}},  // a border around nothing
    {{4}, {}},
    {{}, {}},
    {{1, 2, 3, 4}, {4, 4, 4, 4}},
};

}  // namespace

TEST_CASE("pad: the inside is x, the rest the value, in every layout and dtype") {
  for (const Case& c : kCases) {
    for (const Layout& layout : layouts()) {
      for (const DType dtype : {kF32, kU8, kBF16}) {
        CAPTURE(concat(c.x, " ", layout.name, " ", dtype));
        const Tensor x = layout.apply(cast(rand(c.x) * 100, dtype));
        const Tensor y = pad(x, c.amounts, 7);
        Shape shape = c.x;
        Dims before = Dims::filled(c.x.size(), 0);
        for (size_t i = 0; i < c.amounts.size(); i += 2) {
          const int d = c.x.size() - 1 - static_cast<int>(i / 2);
          before[d] = c.amounts[i];
          shape[d] += c.amounts[i] + c.amounts[i + 1];
        }
        CHECK(y.shape() == shape);
        const std::vector<double> values = x.to_vector<double>();
        std::vector<double> want;
        for (int64_t i = 0; i < y.numel(); ++i) {
          int64_t rest = i, position = 0, stride = 1;
          bool inside = true;
          for (int d = shape.size() - 1; d >= 0; --d) {
            const int64_t at = rest % shape[d] - before[d];
            rest /= shape[d];
            inside = inside && at >= 0 && at < c.x[d];
            position += at * stride;
            stride *= c.x[d];
          }
          want.push_back(inside ? values[static_cast<size_t>(position)] : 7);
        }
        CHECK(difference(y, want, 0) == "");
      }
    }
  }
}

TEST_CASE("pad: NHWC stays NHWC") {
  const Tensor x = randn({2, 3, 4, 4});
  const Tensor y = pad(x.contiguous(kChannelsLast), {1, 1, 1, 1});
  CHECK(y.is_contiguous(kChannelsLast));
  const Tensor odd = randn({2, 6, 5, 7}), view = odd.contiguous(kChannelsLast).slice(3, 0, 7, 2);
  const Tensor widened = pad(view, {0, 0, 0, 0, 2, 2});  // the shortcut of ResNet-20
  CHECK(widened.is_contiguous(kChannelsLast));
  CHECK(widened.to_vector<float>() ==
        pad(odd.slice(3, 0, 7, 2), {0, 0, 0, 0, 2, 2}).to_vector<float>());
  CHECK(difference(y, pad(x, {1, 1, 1, 1}), 0) == "");
}

TEST_CASE("pad: borders of x's own elements are PyTorch's, in every layout and dtype") {
  // F.pad(torch.arange(12.).reshape(1, 1, 3, 4), (2, 1, 1, 2), mode=…)
  const struct {
    PadMode mode;
    std::vector<double> want;
  } cases[] = {
      {PadMode::kReflect, {6,  5, 4, 5, 6,  7,  6,  2, 1, 0, 1, 2, 3, 2, 6, 5, 4, 5, 6, 7, 6,
                           10, 9, 8, 9, 10, 11, 10, 6, 5, 4, 5, 6, 7, 6, 2, 1, 0, 1, 2, 3, 2}},
      {PadMode::kReplicate,
       {0, 0, 0, 1, 2,  3,  3,  0, 0, 0, 1, 2,  3,  3,  4, 4, 4, 5, 6,  7,  7,
        8, 8, 8, 9, 10, 11, 11, 8, 8, 8, 9, 10, 11, 11, 8, 8, 8, 9, 10, 11, 11}},
      {PadMode::kCircular, {10, 11, 8, 9, 10, 11, 8, 2, 3, 0, 1, 2, 3, 0, 6, 7, 4, 5, 6, 7, 4,
                            10, 11, 8, 9, 10, 11, 8, 2, 3, 0, 1, 2, 3, 0, 6, 7, 4, 5, 6, 7, 4}},
  };
  for (const auto& c : cases) {
    for (const DType dtype : {kF32, kU8, kBF16}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(static_cast<int>(c.mode), " ", layout.name, " ", dtype));
        const Tensor x = layout.apply(cast(arange(12), dtype).view({1, 1, 3, 4}));
        const Tensor y = pad(x, {2, 1, 1, 2}, c.mode);
        CHECK(y.shape() == Shape{1, 1, 6, 7});
        CHECK(y.dtype() == dtype);
        CHECK(difference(y, c.want, 0) == "");
      }
    }
    const Tensor image = randn({2, 3, 4, 4}).contiguous(kChannelsLast);
    CHECK(pad(image, {1, 1}, c.mode).is_contiguous(kChannelsLast));
    CHECK(difference(pad(tensor({1, 2, 3, 4}), {-1, -2}, c.mode), {2}, 0) == "");
    CHECK(pad(zeros({0, 3}), {1, 1}, c.mode).shape() == Shape{0, 5});
    CHECK(pad(tensor(1.0, kF64), {}, c.mode).ndim() == 0);
    CHECK_THROWS_WITH_AS(pad(zeros({3, 0}), {0, 1}, c.mode),
                         doctest::Contains("is more than size 0 of dimension 1"), ValueError);
    CHECK_THROWS_AS(pad(zeros({3}), {1}, c.mode), ValueError);
  }
  CHECK(difference(pad(tensor({1, 2}), {5, 3}, PadMode::kReplicate), {1, 1, 1, 1, 1, 1, 2, 2, 2, 2},
                   0) == "");
  CHECK_THROWS_AS(pad(zeros({3}), {3, 0}, PadMode::kReflect), ValueError);
  CHECK_THROWS_AS(pad(zeros({3}), {0, 4}, PadMode::kCircular), ValueError);
}

TEST_CASE("pad: borders of x's own elements are those at mirrored, nearest and wrapped positions") {
  const Shape shape = {4, 5, 6};
  const std::vector<int64_t> amounts = {2, 1, 0, 3, 3, 2};  // the last dimension first
  for (const PadMode mode : {PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(static_cast<int>(mode), " ", layout.name));
      const Tensor x = layout.apply(arange(120, {.dtype = kF64}).view(shape));
      const Tensor y = pad(x, amounts, mode);
      CHECK(y.shape() == Shape{9, 8, 9});
      std::vector<double> want;
      const auto source = [&](int d, int64_t at) {
        const int64_t n = shape[d], p = at - amounts[static_cast<size_t>(2 * (2 - d))];
        if (mode == PadMode::kReplicate) return std::clamp<int64_t>(p, 0, n - 1);
        if (mode == PadMode::kCircular) return (p + n) % n;
        return p < 0 ? -p : p >= n ? 2 * (n - 1) - p : p;
      };
      for (int64_t i = 0; i < 9; ++i) {
        for (int64_t j = 0; j < 8; ++j) {
          for (int64_t k = 0; k < 9; ++k) {
            want.push_back(
                static_cast<double>((source(0, i) * 5 + source(1, j)) * 6 + source(2, k)));
          }
        }
      }
      CHECK(difference(y, want, 0) == "");
    }
  }
  // A border of what the other side cuts off; kCircular goes round what is left, as in PyTorch.
  CHECK(difference(pad(tensor({1, 2, 3}), {-2, 2}, PadMode::kReflect), {3, 2, 1}, 0) == "");
  CHECK(difference(pad(tensor({1, 2, 3, 4}), {-1, 2}, PadMode::kCircular), {2, 3, 4, 2, 3}, 0) ==
        "");
  CHECK(difference(pad(tensor({1, 2, 3, 4}), {2, -1}, PadMode::kCircular), {2, 3, 1, 2, 3}, 0) ==
        "");
  CHECK_THROWS_AS(pad(tensor({1, 2, 3}), {-2, 2}, PadMode::kCircular), ValueError);
}

TEST_CASE("pad: gradients agree with finite differences, twice") {
  check_gradients({"pad",
                   [](const Tensors& in) {
                     return pad(in[0], {1, 2, -1, 1}, 3.0);
                   },
                   {f64({3, 4})}});
  for (const PadMode mode : {PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
    check_gradients({"pad by x",
                     [mode](const Tensors& in) {
                       return pad(in[0], {2, 1, 1, 2}, mode);
                     },
                     {f64({3, 4})}});
  }
  check_gradients({"crop", [](const Tensors& in) { return pad(in[0], {-1, 0}); }, {f64({3, 4})}});
}

TEST_CASE("pad: errors name the amounts") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(
      pad(x, {1}), doctest::Contains("pad: 1 amounts are not two for each of at most 2 dimensions"),
      ValueError);
  CHECK_THROWS_AS(pad(x, {1, 1, 1, 1, 1, 1}), ValueError);
  CHECK_THROWS_WITH_AS(pad(x, {-2, -2}),
                       doctest::Contains("pad: {-2, -2} does not go with size 3 of dimension 1"),
                       ValueError);
  CHECK_THROWS_AS(pad(x, {-4, 2}), ValueError);
  for (const auto& [before, after] : {std::pair{INT64_MAX, int64_t{1}},
                                      {INT64_MIN, -1},
                                      {-1, INT64_MIN},
                                      {INT64_MIN, INT64_MIN}}) {
    CHECK_THROWS_AS(pad(x, {before, after}), ValueError);
    CHECK_THROWS_AS(pad(x, {before, after}, PadMode::kReplicate), ValueError);
  }
  CHECK_THROWS_AS(pad(tensor({1, 2}), {1, 1}, 0.5), DTypeError);
}
