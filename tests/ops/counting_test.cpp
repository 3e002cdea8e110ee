// bincount, histc and unique. The numbers are PyTorch's (1.13).
#include "lathe/ops/counting.h"

#include <algorithm>
#include <limits>
#include <set>

#include "compare.h"
#include "lathe/ops/scatter.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using Values = std::vector<double>;

}  // namespace

TEST_CASE("bincount: counts and weights on every device") {
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      for (const DType dtype : {kI32, kI64}) {
        CAPTURE(concat(layout.name, " ", dtype, " on ", device));
        const Tensor x = layout.apply(tensor({0, 3, 3, 1}).to(dtype)).to(device);
        CHECK(bincount(x).dtype() == kI64);
        CHECK(difference(bincount(x).cpu(), {1, 1, 0, 2}, 0) == "");
        CHECK(difference(bincount(x, {.min_length = 6}).cpu(), {1, 1, 0, 2, 0, 0}, 0) == "");
        const Tensor w = layout.apply(tensor({0.5f, 1.f, 2.f, 4.f})).to(device);
        CHECK(bincount(x, {.weights = w}).dtype() == kF32);
        CHECK(difference(bincount(x, {.weights = w}).cpu(), {0.5, 4, 0, 3}, 0) == "");
      }
    }
  }
  const Tensor many = remainder(arange(1009) * arange(1009), 101);
  Values counts(101);
  for (const int64_t v : many.to_vector<int64_t>()) counts[static_cast<size_t>(v)] += 1;
  CHECK(difference(bincount(many, {.min_length = 101}), counts, 0) == "");
  CHECK(bincount(zeros({0}, {.dtype = kI64})).shape() == Shape{0});
  CHECK(bincount(zeros({0}, {.dtype = kI64}), {.min_length = 2}).to_vector<int>() ==
        std::vector<int>{0, 0});
  manual_seed(25);
  check_gradients({"bincount",
                   [](const Tensors& in) {
                     return bincount(tensor({0, 2, 2, 1}).to(in[0].device()), {.weights = in[0]});
                   },
                   {f64({4})}});
  CHECK_THROWS_WITH_AS(bincount(tensor({1, -1})), Contains("bincount: index -1 at [1]"),
                       IndexError);
  CHECK_THROWS_AS(bincount(tensor({-1})), IndexError);
  CHECK_THROWS_WITH_AS(bincount(tensor({1.0}, kF64)), Contains("bincount: x must be i64 or i32"),
                       DTypeError);
  CHECK_THROWS_AS(bincount(tensor({{1}})), ShapeError);
  CHECK_THROWS_AS(bincount(tensor({1}), {.weights = zeros({2})}), ShapeError);
  CHECK_THROWS_AS(bincount(tensor({1}), {.weights = tensor({1})}), DTypeError);
  CHECK_THROWS_AS(bincount(tensor({1}), {.min_length = -1}), ValueError);
}

TEST_CASE("histc: intervals on every device, layout and dtype") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        CAPTURE(concat(layout.name, " ", dtype, " on ", device));
        const Tensor x =
            layout.apply(tensor({{1.0, 2.0, 1.0, -5.0}, {3.0, 4.0, 9.0, 2.5}}, kF64).to(dtype))
                .to(device);
        const Tensor y = histc(x, {.bins = 4, .low = 1, .high = 4});
        CHECK(y.dtype() == dtype);
        CHECK(difference(y.cpu(), {2, 1, 2, 1}, 0) == "");
        CHECK(difference(
                  histc(tensor({1.0, 2.0, 1.0, 3.0}, kF64).to(dtype).to(device), {.bins = 3}).cpu(),
                  {2, 1, 1}, 0) == "");
      }
    }
  }
  CHECK(histc(tensor({2.0, 2.0}, kF64), {.bins = 4}).to_vector<double>() == Values{0, 0, 2, 0});
  CHECK(histc(tensor({nan, 0.5}, kF64), {.bins = 2, .high = 1}).to_vector<double>() ==
        Values{0, 1});
  CHECK(histc(zeros({0}), {.bins = 2}).to_vector<double>() == Values{0, 0});
  CHECK(histc(tensor(0.25, kF64), {.bins = 2, .high = 1}).to_vector<double>() == Values{1, 0});
  CHECK_THROWS_AS(histc(zeros({2}), {.bins = 0}), ValueError);
  CHECK_THROWS_AS(histc(zeros({2}), {.low = 2, .high = 1}), ValueError);
  CHECK_THROWS_AS(histc(tensor({nan, 1.0}, kF64)), ValueError);
  CHECK_THROWS_AS(histc(tensor({1})), DTypeError);
}

TEST_CASE("unique: values, places and counts on every device, layout and dtype") {
  manual_seed(26);
  for (const Device device : devices()) {
    for (const DType dtype : {kF32, kI64, kU8, kBF16, kBool}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(layout.name, " ", dtype, " on ", device));
        const Tensor x = layout.apply(cast(randint(0, 6, {4, 5}), dtype)).to(device);
        const Uniques found = unique(x);
        const Values all = x.cpu().to_vector<double>();
        const std::set<double> sorted(all.begin(), all.end());
        CHECK(difference(found.values.cpu(), Values(sorted.begin(), sorted.end()), 0) == "");
        CHECK(found.values.dtype() == dtype);
        CHECK(found.inverse.shape() == x.shape());
        CHECK(difference(take(found.values, found.inverse).cpu(), x.cpu(), 0) == "");
        Values counts;
        for (const double v : sorted) {
          counts.push_back(static_cast<double>(std::count(all.begin(), all.end(), v)));
        }
        CHECK(difference(found.counts.cpu(), counts, 0) == "");
      }
    }
  }
  const Uniques three = unique(tensor({{3, 1, 2}, {1, 3, 3}}));
  CHECK(three.values.to_vector<int>() == std::vector<int>{1, 2, 3});
  CHECK(three.inverse.to_vector<int>() == std::vector<int>{2, 0, 1, 0, 2, 2});
  CHECK(three.counts.to_vector<int>() == std::vector<int>{2, 1, 3});
  CHECK(unique(zeros({0, 2})).inverse.shape() == Shape{0, 2});
  CHECK(unique(tensor(5.0, kF64)).values.to_vector<double>() == Values{5});
  CHECK(unique(tensor({std::nan(""), std::nan("")})).counts.numel() == 2);
}
