// x.index({…}) and index_put_ against NumPy's rules, element by element, and their gradients.
#include "lathe/ops/indexing.h"

#include <type_traits>

#include "compare.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/nonzero.h"

using namespace lathe;
using namespace lathe::test;

namespace {

Tensor numbered(const Shape& shape) { return arange(numel_of(shape)).reshape(shape); }

std::vector<int64_t> values(const Tensor& t) { return t.to_vector<int64_t>(); }

using Numbers = std::vector<int64_t>;

// Slice(2) is [0, 2) in Python and [2, end) in LibTorch.
static_assert(std::is_constructible_v<Slice, int, int> && std::is_constructible_v<Slice, NoneType>);
static_assert(!std::is_constructible_v<Slice, int> && !std::is_constructible_v<Slice, int64_t>);

}  // namespace

TEST_CASE("indexing: numbers, ranges, None and Ellipsis make views") {
  const Tensor x = numbered({2, 3, 4});
  CHECK(values(x.index({1, 2, 3})) == Numbers{23});
  CHECK(values(x.index({-1, -3})) == Numbers{12, 13, 14, 15});
  CHECK(values(x.index({0, Slice(1, None), Slice(0, 4, 2)})) == Numbers{4, 6, 8, 10});
  CHECK(values(x.index({Slice(), Slice(), -1})) == Numbers{3, 7, 11, 15, 19, 23});
  CHECK(values(x.index({Ellipsis, 0})) == Numbers{0, 4, 8, 12, 16, 20});
  CHECK(values(x.index({"...", 0})) == Numbers{0, 4, 8, 12, 16, 20});
  CHECK(values(x.index({1, Ellipsis, Slice(-1, None)})) == Numbers{15, 19, 23});
  CHECK(values(x.index({0, Slice(None, 2), 1})) == Numbers{1, 5});
  CHECK(x.index({None, Slice(), None}).shape() == Shape{1, 2, 1, 3, 4});
  CHECK(x.index({0, None, Ellipsis, None}).shape() == Shape{1, 3, 4, 1});
  CHECK(x.index({Slice(5, 9)}).shape() == Shape{0, 3, 4});  // clipped
  CHECK(x.index({}).is_same(x));
  CHECK(x.index({1, Slice(0, 2)}).shares_storage(x));
}

TEST_CASE("indexing: tensors of indices are broadcast and take the place of their dimensions") {
  const Tensor x = numbered({3, 4, 5});
  const Tensor rows = tensor({2, 0}), columns = tensor({-1, 1});
  CHECK(values(x.index({rows, columns, 0})) == Numbers{55, 5});
  CHECK(x.index({rows}).shape() == Shape{2, 4, 5});
  CHECK(values(x.index({rows}).select(0, 0)) == values(x[2]));
  // In the middle: they stay there. Apart from one another: they come first.
  CHECK(x.index({Slice(), columns}).shape() == Shape{3, 2, 5});
  CHECK(values(x.index({1, columns, 2})) == Numbers{37, 27});
  CHECK(x.index({rows, Slice(), tensor({{0, 1}, {2, 3}, {4, 0}})}).shape() == Shape{3, 2, 4});
  CHECK(values(x.index({rows, Slice(1, 2), columns})) == Numbers{49, 6});
  CHECK(values(x.index({rows.unsqueeze(1), columns.to(kI32), 0})) == Numbers{55, 45, 15, 5});
  CHECK(x.index({Ellipsis, tensor({0, 0, 1})}).shape() == Shape{3, 4, 3});
  CHECK(values(x.index({tensor(1)})) == values(x[1]));  // 0-d: a number, and so a view
  CHECK(x.index({tensor(1)}).shares_storage(x));
  CHECK(x.index({Slice(0, 1), None, rows, None, tensor(1)}).shape() == Shape{1, 1, 2, 1});
  CHECK_THROWS_AS(x.index({tensor(3)}), IndexError);
  CHECK(x.index({zeros({0}, kI64)}).shape() == Shape{0, 4, 5});
  CHECK_FALSE(x.index({rows}).shares_storage(x));
}

TEST_CASE("indexing: a mask stands for the indices of its true elements") {
  const Tensor x = numbered({3, 4});
  CHECK(values(x.index({x > 8})) == Numbers{9, 10, 11});
  CHECK(values(x.index({tensor({true, false, true}), 1})) == Numbers{1, 9});
  CHECK(values(x.index({Slice(), tensor({false, true, true, false})})) ==
        Numbers{1, 2, 5, 6, 9, 10});
  CHECK(x.index({x < 0}).shape() == Shape{0});
  CHECK(x.index({tensor(true)}).shape() == Shape{1, 3, 4});
  CHECK(x.index({tensor(false)}).shape() == Shape{0, 3, 4});
}

TEST_CASE("indexing: a list that is made at run time is a list like any other") {
  const Tensor x = numbered({3, 4, 5});
  for (int64_t d = 0; d < x.ndim(); ++d) {
    std::vector<TensorIndex> list(static_cast<size_t>(x.ndim()), Slice());
    list[static_cast<size_t>(d)] = tensor({1, 0});
    CHECK(values(x.index(list)) == values(x.index_select(d, tensor({1, 0}))));
    Tensor y = x.clone();
    y.index_put_(list, -1);
    CHECK(values(y.index_select(d, tensor({0, 1}))) ==
          Numbers(static_cast<size_t>(2 * x.numel() / x.dim(d)), -1));
    CHECK(values(y.slice(d, 2, x.dim(d))) == values(x.slice(d, 2, x.dim(d))));
    y.index_put_(list, x.index_select(d, tensor({1, 0})));
    CHECK(values(y) == values(x));
  }
  std::vector<TensorIndex> list;  // of elements of each kind
  CHECK(x.index(list).is_same(x));
  list.emplace_back(Ellipsis);
  list.emplace_back(None);
  list.emplace_back(tensor({true, false, false, false, true}));
  CHECK(index(x, list).shape() == Shape{3, 4, 1, 2});
  list[0] = 2;
  list[1] = Slice(1, 3);
  CHECK(values(index(x, list)) == Numbers{45, 49, 50, 54});
  CHECK_THROWS_AS(x.index(std::vector<TensorIndex>(4, 0)), IndexError);
  CHECK_THROWS_AS(index_put_(x, std::vector<TensorIndex>(4, 0), 1), IndexError);
}

TEST_CASE("indexing: what tensors of indices choose is in row-major order") {
  const Tensor x = numbered({2, 3, 4, 5}), i = tensor({1, 0}), j = tensor({{0}, {2}, {1}});
  const Tensor all[] = {x.index({Slice(), i}),
                        x.index({Ellipsis, i}),
                        x.index({Slice(), j, i}),
                        x.index({Slice(), i, Slice(), j}),
                        x.index({0, Slice(), i}),
                        x.index({None, Slice(), j, None}),
                        x.index({Slice(), tensor({true, false, true})}),
                        x.index({Slice(), x[0].select(2, 0) > 20}),
                        x.index({Slice(0, 2, 2), Slice(1, 3), i}),
                        x.permute({3, 1, 0, 2}).index({Slice(), i}),
                        x.permute({3, 1, 0, 2}).index({Slice(), i, tensor(1)}),
                        x[0][0][0].expand({2, 5}).index({Slice(), i})};
  for (const Tensor& y : all) {
    CAPTURE(y);
    CHECK(y.strides() == contiguous_strides(y.shape()));
  }
  // y[a,b,c] = x[a, i[b], c] in any layout.
  const Tensor t = x.permute({3, 1, 0, 2}), y = t.index({Slice(), i, 1});
  for (int64_t a = 0; a < 5; ++a) {
    for (int64_t b = 0; b < 2; ++b) CHECK(values(y[a][b]) == values(t[a][1 - b][1]));
  }
  const Tensor z = x.index({1, j, Slice(), i});  // [3,2,4]
  CHECK(values(z[2][0]) == values(x[1][1].select(1, 1)));
}

TEST_CASE("indexing: assigned values may have leading dimensions of size 1") {
  const Tensor x = zeros({2, 3}, kI64), row = tensor({{1, 2, 3}});
  x[0] = row;
  CHECK(values(x) == Numbers{1, 2, 3, 0, 0, 0});
  x[1] = row.unsqueeze(0);
  x.index({Slice(), 0}) = tensor({{{8, 9}}});
  CHECK(values(x) == Numbers{8, 2, 3, 9, 2, 3});
  x.index_put_({0}, -row);
  x.index_put_({1, 1}, tensor({{4}}));
  CHECK(values(x) == Numbers{-1, -2, -3, 9, 4, 3});
  x.index_put_({tensor({1, 0})}, tensor({{{1, 2, 3}, {4, 5, 6}}}));
  CHECK(values(x) == Numbers{4, 5, 6, 1, 2, 3});
  x.index_put_({x > 5}, tensor({{0}}));
  CHECK(values(x) == Numbers{4, 5, 0, 1, 2, 3});
  CHECK_THROWS_AS(x[0] = tensor({{1, 2, 3}, {1, 2, 3}}), ShapeError);
  CHECK_THROWS_AS(x[0] = tensor({{1}, {1}, {1}}), ShapeError);
  CHECK_THROWS_AS(x[0].copy_(row), ShapeError);
  CHECK_THROWS_AS(x[0] += row, ShapeError);
  CHECK_THROWS_AS(x.index_put_({tensor({0})}, ones({2, 1, 3}, kI64)), ShapeError);
  CHECK(values(x) == Numbers{4, 5, 0, 1, 2, 3});

  const Tensor leaf = ones({1, 3}, kF64).requires_grad_(), y = zeros({2, 3}, kF64);
  y[1] = leaf;
  (y * y * 3).sum().backward();
  CHECK(leaf.grad().shape() == Shape{1, 3});
  CHECK(leaf.grad().to_vector<double>() == std::vector<double>{6, 6, 6});
}

TEST_CASE("indexing: assignment to what index() or [] gives writes into the tensor") {
  Tensor x = numbered({2, 3});
  x[0] = tensor({7, 8, 9});
  CHECK(values(x) == Numbers{7, 8, 9, 3, 4, 5});
  x[1][2] = 6;
  x.index({0, Slice(0, 2)}) = -1;
  x.slice(1, 1, 2) = x.slice(1, 2, 3);
  CHECK(values(x) == Numbers{-1, 9, 9, 3, 6, 6});
  x[0] += 1;
  x.index({Ellipsis, 0}) *= 2;
  CHECK(values(x) == Numbers{0, 10, 10, 6, 6, 6});

  const Tensor other = numbered({2, 3});
  x = other;  // the variable names another tensor; nothing is written
  CHECK(x.is_same(other));

  // What nobody could read afterwards is an error.
  CHECK_THROWS_WITH_AS(x.index({x > 2}) = 0, doctest::Contains("would be lost"), StateError);
  CHECK_THROWS_AS(x.clone() = other, StateError);
  const Tensor mask = x > 2, rows = tensor({0, 1}), where = zeros({1, 3}, kI64);
  CHECK_THROWS_WITH_AS(x.index({mask}) += 1, doctest::Contains("would be lost"), StateError);
  CHECK_THROWS_AS(x.index({mask}) -= 1, StateError);
  CHECK_THROWS_AS(x.index({rows}) *= 2, StateError);
  CHECK_THROWS_AS(x.to(kF32) /= 2, StateError);
  CHECK_THROWS_AS(x.gather(0, where) += other, StateError);
  CHECK_THROWS_AS(x.index_select(0, rows) -= other, StateError);
  CHECK_THROWS_AS(x.masked_select(mask) *= mask, StateError);
  CHECK_THROWS_AS(x.take(rows).to(kF32) /= rows, StateError);
  CHECK_THROWS_AS(x[0] = zeros({2}, kI64), ShapeError);
  CHECK(values(x) == Numbers{0, 1, 2, 3, 4, 5});
}

TEST_CASE("indexing: index_put_ writes into x's memory, and raises its version") {
  const Tensor x = zeros({5, 3}), rows = tensor({4, 0, 4});
  const Tensor part = x.slice(0, 1, 5);
  x.index_put_({rows}, tensor({{1.f, 1.f, 1.f}, {2.f, 2.f, 2.f}, {3.f, 3.f, 3.f}}));
  CHECK(part[3].to_vector<float>() == std::vector<float>{3, 3, 3});
  part.index_put_({tensor({0, 3})}, x.slice(0, 0, 2));  // overlaps what is written
  CHECK(x.to_vector<float>() == std::vector<float>{2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Tensor w = ones({5, 3}).requires_grad_();
  const Tensor y = (w * x).sum();
  x.index_put_({rows}, 1.0);
  CHECK_THROWS_AS(y.backward(), StateError);
}

TEST_CASE("indexing: index_put_ writes what index() reads") {
  const Tensor x = numbered({3, 4});
  x.index_put_({1, Slice(0, 2)}, tensor({-1, -2}));
  x.index_put_({x > 9}, 0);
  CHECK(values(x) == Numbers{0, 1, 2, 3, -1, -2, 6, 7, 8, 9, 0, 0});
  x.index_put_({tensor({0, 2, 0}), tensor({1, 1, -1})}, tensor({5, 6, 7}));
  CHECK(values(x) == Numbers{0, 5, 2, 7, -1, -2, 6, 7, 8, 6, 0, 0});
  x.index_put_({Slice(), tensor({3, 0})}, tensor({{1, 2}}));
  CHECK(values(x) == Numbers{2, 5, 2, 1, 2, -2, 6, 1, 2, 6, 0, 1});
  x.index_put_({tensor({1, 1})}, tensor({{1, 1, 1, 1}, {9, 9, 9, 9}}));  // the last one stays
  CHECK(values(x[1]) == Numbers{9, 9, 9, 9});
  const Tensor t = x.transpose(0, 1);  // through a view
  t.index_put_({tensor({0, 3})}, 4);
  CHECK(values(x) == Numbers{4, 5, 2, 4, 4, 9, 9, 4, 4, 6, 0, 4});
  const Tensor cube = zeros({2, 3, 2}, kI64);  // indices apart: their dimension comes first
  cube.index_put_({tensor({0, 1}), Slice(), tensor({1, 0})}, tensor({{1, 2, 3}, {4, 5, 6}}));
  CHECK(values(cube) == Numbers{0, 1, 0, 2, 0, 3, 4, 0, 5, 0, 6, 0});
}

TEST_CASE("indexing: gradients") {
  const Tensor rows = tensor({2, 0, 2}), columns = tensor({1, 3, 1});
  check_gradients({"index",
                   [&](const Tensors& in) {
                     return in[0].index({rows, columns});
                   },
                   {f64({3, 4})}});
  check_gradients({"index",
                   [&](const Tensors& in) {
                     return in[0].index({Slice(1, 3), rows});
                   },
                   {f64({4, 3})}});
  check_gradients({"index_put_",
                   [&](const Tensors& in) {
                     const Tensor y = in[0] * 1;
                     y.index_put_({rows, columns}, in[1]);
                     return y;
                   },
                   {f64({3, 4}), f64({3})}});
  check_gradients({"x[i] = y",
                   [](const Tensors& in) {
                     const Tensor y = in[0] * 2;
                     y[1] = in[1];
                     return y;
                   },
                   {f64({3, 4}), f64({4})}});
}

TEST_CASE("indexing: errors name what does not fit, and nothing is written") {
  const Tensor x = numbered({2, 3});
  CHECK_THROWS_AS(x.index({0, 0, 0}), IndexError);
  CHECK_THROWS_AS(x.index({2}), IndexError);
  CHECK_THROWS_AS(x.index({Ellipsis, Ellipsis}), IndexError);
  CHECK_THROWS_AS(x.index({tensor({0, 2})}), IndexError);
  CHECK_THROWS_AS(x.index({tensor({0, -3})}), IndexError);
  CHECK_THROWS_AS(x.index({tensor({0.5})}), DTypeError);
  CHECK_THROWS_AS(x.index({tensor({true, false, true})}), IndexError);
  CHECK_THROWS_WITH_AS(x.index({tensor({0, 1}), tensor({0, 1, 2})}),
                       doctest::Contains("index: shapes [2] and [3] do not broadcast"), ShapeError);
  CHECK_THROWS_AS(x.index({Slice(0, 2, 0)}), ValueError);
  CHECK_THROWS_AS(x.index({":"}), ValueError);
  CHECK_THROWS_AS(x.index_put_({tensor({0, 5})}, 1), IndexError);
  CHECK_THROWS_AS(x.index_put_({tensor({0, 1})}, zeros({4}, kI64)), ShapeError);
  CHECK_THROWS_AS(x.index_put_({0}, 0.5), DTypeError);
  using doctest::Contains;
  CHECK_THROWS_WITH_AS(x.index_put_({0, 0, 0}, 1), Contains("index_put_: 3 indices for 2 dim"),
                       IndexError);
  CHECK_THROWS_WITH_AS(x.index_put_({Ellipsis, Ellipsis}, 1), Contains("index_put_: 2 times"),
                       IndexError);
  CHECK_THROWS_WITH_AS(x.index_put_({Slice(0, 2, 0)}, 1), Contains("index_put_: the step of"),
                       ValueError);
  CHECK_THROWS_WITH_AS(x.index_put_({tensor({0.5})}, 1), Contains("index_put_: expected integers"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(x.index_put_({tensor({0, 5})}, 1), Contains("index_put_: index 5 at [1]"),
                       IndexError);
  CHECK_THROWS_WITH_AS(x.index_put_({tensor({true})}, 1), Contains("index_put_: a mask of shape"),
                       IndexError);
  CHECK_THROWS_WITH_AS(x.index_put_({tensor({0, 1}), tensor({0, 1, 2})}, 1),
                       Contains("index_put_: shapes [2] and [3] do not broadcast"), ShapeError);
  CHECK_THROWS_WITH_AS(x.index({":"}), Contains("TensorIndex: \":\" is no index"), ValueError);
  const Tensor leaf = randn({3}).requires_grad_();
  CHECK_THROWS_AS(leaf.index_put_({tensor({0})}, 1.0), StateError);
  CHECK_THROWS_AS(leaf[0] = 1.0, StateError);
  CHECK(values(x) == Numbers{0, 1, 2, 3, 4, 5});
}
