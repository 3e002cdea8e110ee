// pad against the definition.
#include "lathe/ops/pad.h"

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
  CHECK(difference(y, pad(x, {1, 1, 1, 1}), 0) == "");
}

TEST_CASE("pad: gradients agree with finite differences, twice") {
  check_gradients({"pad",
                   [](const Tensors& in) {
                     return pad(in[0], {1, 2, -1, 1}, 3.0);
                   },
                   {f64({3, 4})}});
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
  CHECK_THROWS_AS(pad(x, {INT64_MAX, 1}), ValueError);
  CHECK_THROWS_AS(pad(tensor({1, 2}), {1, 1}, 0.5), DTypeError);
}
