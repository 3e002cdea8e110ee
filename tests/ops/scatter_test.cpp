// scatter, take, put and index_put against the definition, element by element.
#include "lathe/ops/scatter.h"

#include "compare.h"
#include "lathe/ops/index.h"
#include "lathe/ops/indexing.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/nonzero.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;

struct Case {
  Shape x;
  int64_t dim;
  Shape index;
};
const Case kCases[] = {
    {{4, 3}, 0, {4, 3}},        {{4, 3}, 1, {2, 5}}, {{2, 3, 4}, 1, {2, 2, 3}},
    {{2, 3, 4}, -1, {1, 3, 9}}, {{5}, 0, {8}},       {{5}, 0, {0}},
    {{2, 3}, 0, {0, 3}},        {{}, 0, {}},         {{0, 3}, 1, {0, 2}},
    {{2, 3}, -2, {7, 3}},
};

/// scatter, written as its definition.
Values scattered(const Tensor& x, int dim, const Tensor& index, const Values& source,
                 const Shape& source_shape) {
  Values out = x.to_vector<double>();
  const std::vector<int64_t> at = index.to_vector<int64_t>();
  const Strides to = contiguous_strides(x.shape()), from = contiguous_strides(source_shape);
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t rest = i, place = 0, read = 0;
    for (int d = index.ndim() - 1; d >= 0; --d) {
      const int64_t c = rest % index.shape()[d];
      rest /= index.shape()[d];
      place += (d == dim ? at[static_cast<size_t>(i)] : c) * to[d];
      read += c * from[d];
    }
    out[static_cast<size_t>(place)] = source[static_cast<size_t>(read)];
  }
  return out;
}

}  // namespace

TEST_CASE("scatter: the last writer stays, in every layout and dtype, on every device") {
  manual_seed(14);
  for (const Device device : devices()) {
    for (const Case& c : kCases) {
      const Tensor host = randn(c.x);
      const int dim = wrap_dim("test", c.dim, host.ndim());
      const Tensor index =
          randint(0, host.ndim() == 0 ? 1 : std::max<int64_t>(host.dim(dim), 1), c.index);
      Shape larger = c.index;
      for (int64_t& size : larger) ++size;  // what lies beyond index is not read
      const Tensor source = randn(larger);
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(c.x, " ", layout.name, " on ", device));
        const Tensor x = layout.apply(host).to(device), at = layout.apply(index).to(device);
        const Tensor y = scatter(x, c.dim, at, layout.apply(source).to(device));
        CHECK(difference(y.cpu(), scattered(host, dim, index, source.to_vector<double>(), larger),
                         0) == "");
        CHECK(y.shape() == c.x);
        const Values sevens(static_cast<size_t>(numel_of(larger)), 7);
        CHECK(difference(scatter(x, c.dim, at, 7).cpu(),
                         scattered(host, dim, index, sevens, larger), 0) == "");
        for (const DType dtype : {kBool, kU8, kI64, kBF16, kF64}) {
          const Tensor same = scatter(cast(x, dtype), c.dim, at, cast(source, dtype).to(device));
          CHECK(same.dtype() == dtype);
          CHECK(difference(same.cpu(),
                           scattered(cast(host, dtype), dim, index,
                                     cast(source, dtype).to_vector<double>(), larger),
                           0) == "");
        }
      }
    }
  }
  const Tensor x = zeros({2, 2});
  scatter(x, 0, zeros({0, 2}, {.dtype = kI64}), zeros({0, 2})).fill_(3);
  CHECK(x.to_vector<double>() == Values{0, 0, 0, 0});
}

TEST_CASE("take, put: positions as if flattened") {
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " on ", device));
      const Tensor x = layout.apply(arange(6, {.dtype = kF32}).view({2, 3})).to(device);
      const Tensor index = layout.apply(tensor({{5, 0}, {-2, 5}})).to(device);
      CHECK(take(x, index).shape() == Shape{2, 2});
      CHECK(difference(take(x, index).cpu(), {5, 0, 4, 5}, 0) == "");
      const Tensor values = layout.apply(tensor({{10.f, 20.f}, {30.f, 40.f}})).to(device);
      CHECK(difference(put(x, index, values).cpu(), {20, 1, 2, 3, 30, 40}, 0) == "");
      CHECK(difference(put(x, index, values, {.accumulate = true}).cpu(), {20, 1, 2, 3, 34, 55},
                       0) == "");
    }
  }
  CHECK(take(zeros({0}), zeros({0}, {.dtype = kI64})).shape() == Shape{0});
  CHECK(put(tensor(1.0, kF64), tensor(0), tensor(2.0, kF64)).item<double>() == 2);
}

TEST_CASE("index_put: as x[i, j] = values") {
  // PyTorch: x = torch.zeros(2, 3, 2); x[…] = …
  for (const Device device : devices()) {
    CAPTURE(device);
    const auto on = [&](const Tensor& t) { return t.to(device); };
    const Tensor x = zeros({2, 3, 2}, {.device = device});
    const Tensor rows = on(tensor({1, 0, 1})), columns = on(tensor({2, -3, 2}));
    CHECK(difference(index_put(x, {rows, columns}, on(tensor({{1.f}, {2.f}, {3.f}}))).cpu(),
                     {2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3}, 0) == "");
    CHECK(difference(
              index_put(x, {rows, columns}, on(tensor({1.f, 2.f})), {.accumulate = true}).cpu(),
              {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4}, 0) == "");
    CHECK(difference(index_put(x, {on(tensor(1))}, on(tensor(5.f))).cpu(),
                     {0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5}, 0) == "");
    // indices that broadcast: x[[[0], [1]], [0, 2]] = …
    CHECK(difference(index_put(x, {on(tensor({{0}, {1}})), on(tensor({0, 2}))},
                               on(tensor({{{1.f}, {2.f}}, {{3.f}, {4.f}}})))
                         .cpu(),
                     {1, 1, 0, 0, 2, 2, 3, 3, 0, 0, 4, 4}, 0) == "");
    // a condition: x[mask] = …
    const Tensor mask = gt(on(tensor({{0, 1, 0}, {1, 0, 0}})), 0);
    CHECK(difference(index_put(x, {mask}, on(tensor({7.f, 8.f}))).cpu(),
                     {0, 0, 7, 8, 0, 0, 7, 8, 0, 0, 0, 0}, 0) == "");
    CHECK(difference(index_put(x, {ne(mask, mask)}, on(tensor(7.f))).cpu(), Values(12, 0), 0) ==
          "");
  }
}

TEST_CASE("scatter, index_put: of nothing comes a tensor of its own, and gradients of 0") {
  const Tensor x = zeros({0, 3}), none = zeros({0, 3}, kI64);
  for (const Tensor& y : {scatter(x, 0, none, x), scatter(x, 0, none, 1.0),
                          index_put(x, {zeros({0}, kI64)}, x), masked_scatter(x, x > 0, x)}) {
    CHECK_FALSE(y.is_same(x));
    CHECK(y.shape() == x.shape());
  }
  const Tensor w = ones({2}, kF64).requires_grad_(), y = zeros({3, 2}, kF64);
  y.index_put_({Slice(1, 1), tensor({0, 1})}, w);  // no row
  y.sum().backward();
  CHECK(w.grad().to_vector<double>() == Values{0, 0});
}

TEST_CASE("scatter, put, index_put: the same with and without a gradient") {
  manual_seed(14);
  const Tensor x = randn({6, 70}), source = randn({9, 70}), rows = randint(0, 6, {9});
  const Tensor index = randint(0, 6, {9, 70}), places = randint(0, 420, {500}), flat = randn({500});
  const auto each = [&](const Tensor& t) {
    return Tensors{scatter(t, 0, index, source), put(t, places, flat), index_put(t, {rows}, source),
                   scatter(t.t().contiguous().t(), 0, index, source),
                   scatter(t, 1, remainder(places.narrow(0, 0, 60).view({6, 10}), 70), source)};
  };
  const Tensors plain = each(x), recorded = each(x.clone().requires_grad_());
  for (size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(plain[i], recorded[i].detach(), 0) == "");
    CHECK(plain[i].is_contiguous() == recorded[i].is_contiguous());
  }
}

TEST_CASE("index_fill, index_copy: values of PyTorch, on every device") {
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " on ", device));
      const Tensor a = layout.apply(tensor({{1.0, -2.0, 3.0}, {0.5, 4.0, -5.0}}, kF64)).to(device);
      const Tensor b = layout.apply(tensor({{2.0, 1.0}, {3.0, -0.5}}, kF64)).to(device);
      // a.index_fill(1, [0, -1], 9), a.index_copy(1, [2, 0], b)
      CHECK(difference(index_fill(a, 1, tensor({0, -1}).to(device), 9).cpu(), {9, -2, 9, 9, 4, 9},
                       0) == "");
      CHECK(difference(index_copy(a, 1, tensor({2, 0}).to(device), b).cpu(), {1, -2, 2, -0.5, 4, 3},
                       0) == "");
    }
  }
  CHECK(index_fill(tensor(1.0, kF64), 0, tensor(0), 2).item<double>() == 2);
  CHECK(index_copy(tensor({1, 2}), 0, tensor({1}), tensor({7})).to_vector<int>() ==
        std::vector<int>{1, 7});
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(index_copy(x, 1, tensor({0, 1}), zeros({2, 3})),
                       Contains("index_copy: index must be [K]"), ShapeError);
  CHECK_THROWS_AS(index_copy(x, 1, tensor({-1}), zeros({2, 1})), IndexError);
  CHECK_THROWS_WITH_AS(index_fill(x, 1, tensor({3}), 1), Contains("index_fill"), IndexError);
  CHECK_THROWS_WITH_AS(index_fill(x, 1, tensor({true, false, true}), 1),
                       Contains("index_fill: index must be i64 or i32"), DTypeError);
  CHECK_THROWS_AS(index_fill(x.to(kI64), 1, tensor({0}), 0.5), DTypeError);
}

TEST_CASE("scatter: gradients agree with finite differences, twice") {
  manual_seed(15);
  const Tensor x = f64({3, 4}), index = tensor({{0, 2, 2, 1}, {2, 2, 0, 1}});
  const Tensor flat = tensor({{3, -1}, {3, 0}});
  const auto at = [](In in, const Tensor& t) { return t.to(in[0].device()); };
  // clang-format off
  const GradientCase cases[] = {
      {"scatter", [&](In in) { return scatter(in[0], 0, at(in, index), in[1]); }, {x, f64({2, 4})}},
      {"scatter a number", [&](In in) { return scatter(in[0], 0, at(in, index), 2.5); }, {x}},
      {"index_fill", [&](In in) { return index_fill(in[0], 1, at(in, tensor({0, -1})), 9); }, {x}},
      {"index_copy", [&](In in) { return index_copy(in[0], 1, at(in, tensor({2, 0, 2})), in[1]); }, {x, f64({3, 3})}},
      {"take", [&](In in) { return take(in[0], at(in, flat)); }, {x}},
      {"put", [&](In in) { return put(in[0], at(in, flat), in[1]); }, {x, f64({4})}},
      {"put accumulate", [&](In in) { return put(in[0], at(in, flat), in[1], {.accumulate = true}); }, {x, f64({2, 2})}},
      {"index_put", [&](In in) { return index_put(in[0], {at(in, tensor({2, 0, 2}))}, in[1]); }, {x, f64({3, 4})}},
      {"index_put accumulate", [&](In in) { return index_put(in[0], {at(in, tensor({{2, 0}, {2, 0}})), at(in, tensor({1, -2}))}, in[1], {.accumulate = true}); }, {x, f64({2, 2})}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("scatter: errors name the op and the values, and change nothing") {
  const Tensor x = zeros({2, 3}), index = zeros({2, 3}, {.dtype = kI64});
  CHECK_THROWS_WITH_AS(scatter(x, 1, full({2, 1}, 3), ones({2, 1})), Contains("scatter"),
                       IndexError);
  CHECK_THROWS_AS(scatter(x, 1, full({2, 1}, -1), 1), IndexError);
  CHECK_THROWS_AS(scatter(x, 1, zeros({3, 1}, {.dtype = kI64}), 1), ShapeError);
  CHECK_THROWS_AS(scatter(x, 1, zeros({2}, {.dtype = kI64}), 1), ShapeError);
  CHECK_THROWS_WITH_AS(scatter(x, 1, index, ones({2, 2})),
                       Contains("scatter: source is smaller than index"), ShapeError);
  CHECK_THROWS_AS(scatter(x, 1, index, ones({2, 3}, {.dtype = kF64})), DTypeError);
  CHECK_THROWS_AS(scatter(x, 1, x, x), DTypeError);
  CHECK_THROWS_WITH_AS(scatter(index, 1, index, 0.5), Contains("0.5 does not fit i64"), DTypeError);
  CHECK_THROWS_AS(take(x, tensor({6})), IndexError);
  CHECK_THROWS_AS(take(x, tensor({-7})), IndexError);
  CHECK_THROWS_AS(put(x, tensor({1, 2}), ones({3})), ShapeError);
  CHECK_THROWS_AS(index_put(x, {}, ones({3})), ValueError);
  CHECK_THROWS_AS(index_put(x, {tensor({0}), tensor({0}), tensor({0})}, tensor(1.f)), ShapeError);
  CHECK_THROWS_AS(index_put(x, {tensor({2})}, ones({3})), IndexError);
  CHECK_THROWS_WITH_AS(index_put(x, {tensor({1})}, ones({2})), Contains("broadcast"), ShapeError);
  CHECK_THROWS_AS(index_put(x, {zeros({3}, {.dtype = kBool})}, tensor(1.f)), ShapeError);
  CHECK_THROWS_AS(index_put(x, {tensor({0.5}, kF64)}, tensor(1.f)), DTypeError);
}
