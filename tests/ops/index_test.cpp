// index_select, index_add, gather and scatter_add against the definition, element by element.
#include "lathe/ops/index.h"

#include "compare.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct SliceCase {
  Shape x;
  int64_t dim;
  std::vector<int64_t> index;
};
const SliceCase kSlices[] = {
    {{5, 3}, 0, {4, 0, 4, 2}},  // repeated
    {{5, 3}, 1, {2, 2, 2}},    {{2, 4, 3}, 1, {3, 0}}, {{2, 4, 3}, -1, {0, 1, 2, 1, 0}},
    {{6}, 0, {5, 5, 1}},       {{3, 0, 2}, 0, {2, 2}},  // empty slices
    {{4, 2}, 0, {}},                                    // nothing selected
    {{3, 700}, 0, {1, 1, 0}},                           // slices wider than one task
};

struct PlaceCase {
  Shape x;
  int64_t dim;
  Shape index;
};
const PlaceCase kPlaces[] = {
    {{4, 3}, 0, {4, 3}},
    {{4, 3}, 1, {2, 5}},
    {{4, 3}, 0, {7, 2}},
    {{2, 3, 4}, 1, {2, 2, 3}},
    {{2, 3, 4}, -1, {1, 3, 9}},
    {{5}, 0, {8}},
    {{5}, 0, {0}},
    {{2, 3}, 0, {0, 3}},
    {{}, 0, {}},
};

/// Position → coordinates, row-major.
Dims coordinates(int64_t i, const Shape& shape) {
  Dims at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = i % shape[d];
    i /= shape[d];
  }
  return at;
}
size_t position(const Dims& at, const Shape& shape) {
  int64_t i = 0;
  for (int d = 0; d < shape.size(); ++d) i = i * shape[d] + at[d];
  return static_cast<size_t>(i);
}

/// Indices that fit into `size`, the same in every run.
Tensor random_index(const Shape& shape, int64_t size) {
  return randint(0, size, shape, {.dtype = kI64});
}

}  // namespace

TEST_CASE("index_select: slices are those of the index, in every layout and dtype") {
  for (const SliceCase& c : kSlices) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(c.x, " ", layout.name));
      const Tensor x = layout.apply(randn(c.x)), index = layout.apply(tensor(c.index));
      const int dim = wrap_dim("test", c.dim, x.ndim());
      const Tensor y = index_select(x, c.dim, index);
      CHECK(y.dim(dim) == index.numel());
      std::vector<double> want;
      for (int64_t i = 0; i < y.numel(); ++i) {
        Dims at = coordinates(i, y.shape());
        at[dim] = c.index[static_cast<size_t>(at[dim])];
        want.push_back(x.to_vector<double>()[position(at, x.shape())]);
      }
      CHECK(difference(y, want, 0) == "");
      for (const DType dtype : {kBool, kU8, kI32, kF16, kF64}) {
        CHECK(difference(index_select(cast(x, dtype), c.dim, cast(index, kI32)), cast(y, dtype),
                         0) == "");
      }
    }
  }
  CHECK(index_select(tensor(3.f), 0, tensor({int64_t{0}})).item<float>() == 3.f);
  CHECK(index_select(tensor({1.f, 2.f}), 0, tensor(int64_t{1})).shape() == Shape{1});
}

TEST_CASE("index_add: repeated indices add up, in every layout and dtype") {
  for (const SliceCase& c : kSlices) {
    for (const Layout& layout : layouts()) {
      for (const DType dtype : {kF32, kF64, kF16, kI32}) {
        CAPTURE(concat(c.x, " ", layout.name, " ", dtype));
        const Tensor index = layout.apply(tensor(c.index));
        const int dim = wrap_dim("test", c.dim, c.x.size());
        Shape part = c.x;
        part[dim] = index.numel();
        const Tensor x = layout.apply(cast(randn(c.x) * 4, dtype)),
                     source = layout.apply(cast(randn(part) * 4, dtype));
        std::vector<double> want = x.to_vector<double>();
        const std::vector<double> added = source.to_vector<double>();
        for (int64_t i = 0; i < source.numel(); ++i) {
          Dims at = coordinates(i, part);
          at[dim] = c.index[static_cast<size_t>(at[dim])];
          want[position(at, c.x)] += 2 * added[static_cast<size_t>(i)];
        }
        const Tensor y = index_add(x, c.dim, index, source, 2);
        CHECK(y.dtype() == dtype);
        CHECK(difference(y, want, tolerance_of(dtype)) == "");
      }
    }
  }
}

TEST_CASE("gather, scatter_add: places are those of the index, in every layout and dtype") {
  for (const PlaceCase& c : kPlaces) {
    for (const Layout& layout : layouts()) {
      for (const DType dtype : {kF32, kF64, kBF16, kI16}) {
        CAPTURE(concat(c.x, c.index, " ", layout.name, " ", dtype));
        const int dim = c.x.empty() ? 0 : wrap_dim("test", c.dim, c.x.size());
        const Tensor x = layout.apply(cast(randn(c.x) * 4, dtype)),
                     source = layout.apply(cast(randn(c.index) * 4, dtype));
        const Tensor index = layout.apply(random_index(c.index, c.x.empty() ? 1 : c.x[dim]));
        const std::vector<double> from = x.to_vector<double>(), added = source.to_vector<double>();
        const std::vector<int64_t> at_dim = index.to_vector<int64_t>();
        std::vector<double> gathered, sums = from;
        for (int64_t i = 0; i < index.numel(); ++i) {
          Dims at = coordinates(i, c.index);
          if (!at.empty()) at[dim] = at_dim[static_cast<size_t>(i)];
          gathered.push_back(from[position(at, c.x)]);
          sums[position(at, c.x)] += added[static_cast<size_t>(i)];
        }
        const Tensor y = gather(x, c.dim, index);
        CHECK(y.shape() == c.index);
        CHECK(difference(y, gathered, 0) == "");
        const Tensor z = scatter_add(x, c.dim, index, source);
        CHECK(z.shape() == c.x);
        CHECK(difference(z, sums, tolerance_of(dtype)) == "");
      }
    }
  }
}

TEST_CASE("scatter_add: what of the source is beyond the index is not read") {
  const Tensor y =
      scatter_add(zeros({3}), 0, tensor({int64_t{2}, int64_t{2}}), tensor({1.f, 2.f, 100.f}));
  CHECK(difference(y, {0, 0, 3}, 0) == "");
}

TEST_CASE("indexing: gradients agree with finite differences, twice; repeated indices add up") {
  const Tensor index = tensor({int64_t{2}, int64_t{0}, int64_t{2}});
  const Tensor places =
      tensor({{int64_t{0}, int64_t{2}, int64_t{0}}, {int64_t{1}, int64_t{2}, int64_t{1}}});
  check_gradients({"index_select",
                   [index](const Tensors& in) { return index_select(in[0], 1, beside(in, index)); },
                   {f64({2, 3, 2})}});
  check_gradients(
      {"index_add",
       [index](const Tensors& in) { return index_add(in[0], 0, beside(in, index), in[1], 0.5); },
       {f64({4, 2}), f64({3, 2})}});
  check_gradients({"gather",
                   [places](const Tensors& in) { return gather(in[0], 0, beside(in, places)); },
                   {f64({3, 3})}});
  check_gradients(
      {"scatter_add",
       [places](const Tensors& in) { return scatter_add(in[0], 1, beside(in, places), in[1]); },
       {f64({2, 4}), f64({3, 4})}});
}

TEST_CASE("index_add: half sums are made in f32") {  // 2048 + 1 is 2048 in f16
  const Tensor ones_ = cast(ones({4096}), kF16), index = zeros({4096}, {.dtype = kI64});
  CHECK(index_add(cast(zeros({1}), kF16), 0, index, ones_).item<float>() == 4096.f);
  const Tensor x = cast(zeros({1}), kF16).requires_grad_();
  index_select(x, 0, index).backward(ones_);
  CHECK(x.grad().item<float>() == 4096.f);
}

TEST_CASE("index_add, scatter_add: the same bits with and without a gradient") {
  manual_seed(12);
  for (const Shape& shape : {Shape{6, 5}, Shape{6, 40}, Shape{3, 6, 300}, Shape{6}}) {
    for (int dim = 0; dim < shape.size(); ++dim) {
      Shape part = shape;
      part[dim] = 50;
      const Tensor index = random_index({50}, shape[dim]), places = random_index(part, shape[dim]);
      for (const DType dtype : {kF32, kF64, kBF16}) {
        CAPTURE(concat(shape, " ", dim, " ", dtype));
        const Tensor x = randn(shape).to(dtype), source = randn(part).to(dtype);
        const Tensor with = x.clone().requires_grad_();
        CHECK(difference(index_add(x, dim, index, source),
                         index_add(with, dim, index, source).detach(), 0) == "");
        CHECK(difference(scatter_add(x, dim, places, source),
                         scatter_add(with, dim, places, source).detach(), 0) == "");
      }
      const Tensor x = randint(-9, 9, shape), source = randint(-9, 9, part);
      CHECK(difference(index_add(x, dim, index, source),
                       cast(index_add(cast(x, kF64), dim, index, cast(source, kF64)), kI64),
                       0) == "");
    }
  }
  const Tensor few = randn({4, 9}), place = random_index({2, 9}, 9), added = randn({2, 9});
  CHECK(difference(scatter_add(few, 1, place, added).narrow(0, 2, 2), few.narrow(0, 2, 2), 0) ==
        "");
}

TEST_CASE("indexing: the number of threads changes no bit") {
  const Tensor index = random_index({3000}, 50), x = randn({3000, 300});
  const Tensor places = random_index({300, 400}, 50), y = randn({300, 400});
  const int before = num_threads();
  std::vector<Tensors> results;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    results.push_back(
        {index_add(zeros({50, 300}), 0, index, x), scatter_add(zeros({300, 50}), 1, places, y)});
  }
  set_num_threads(before);
  for (size_t i = 0; i < 2; ++i) CHECK(difference(results[0][i], results[1][i], 0) == "");
}

TEST_CASE("indexing: a bad index names op, value, place and range, and changes nothing") {
  const Tensor x = zeros({3, 4});
  CHECK_THROWS_WITH_AS(
      index_select(x, 0, tensor({int64_t{0}, int64_t{3}})),
      doctest::Contains("index_select: index 3 at [1] is outside [0, 3) (index: i64[2]@cpu)"),
      IndexError);
  CHECK_THROWS_WITH_AS(gather(x, 1, tensor({{int64_t{0}, int64_t{-1}}}).transpose(0, 1)),
                       doctest::Contains("gather: index -1 at [1,0] is outside [0, 4)"),
                       IndexError);
  CHECK_THROWS_WITH_AS(scatter_add(x, 0, full({1, 1}, 9), zeros({1, 1})),
                       doctest::Contains("scatter_add: index 9 at [0,0] is outside [0, 3)"),
                       IndexError);
  CHECK_THROWS_WITH_AS(index_add(x, 0, tensor({int64_t{5}}), zeros({1, 4})),
                       doctest::Contains("index_add: index 5 at [0]"), IndexError);
  for (const int64_t bad : {int64_t{-1}, int64_t{3}, INT64_MIN, INT64_MAX, INT64_MIN + 3}) {
    Tensor index = zeros({40}, {.dtype = kI64});
    index[37].fill_(bad);
    CHECK_THROWS_WITH_AS(
        index_add(x, 0, index, zeros({40, 4})),
        doctest::Contains(concat("index ", bad, " at [37] is outside [0, 3)").c_str()), IndexError);
  }
  CHECK(x.version() == 0);
}

TEST_CASE("indexing: other errors name the tensors") {
  const Tensor x = zeros({3, 4}), index = tensor({int64_t{0}});
  CHECK_THROWS_WITH_AS(index_select(x, 0, zeros({1})),
                       doctest::Contains("index must be i64 or i32 (index: f32[1]@cpu)"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(index_select(x, 0, full({1, 1}, 0)), doctest::Contains("index must be [K]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(index_add(x, 0, index, zeros({2, 4})),
                       doctest::Contains("source must have x's shape with 1 in dimension 0 (x: "
                                         "f32[3,4]@cpu, source: f32[2,4]@cpu)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(index_add(x, 0, index, zeros({1, 4}, {.dtype = kF64})),
                       doctest::Contains("source must have x's dtype"), DTypeError);
  CHECK_THROWS_WITH_AS(gather(x, 0, full({1, 5}, 0)), doctest::Contains("no longer in any but 0"),
                       ShapeError);
  CHECK_THROWS_AS(gather(x, 0, index), ShapeError);
  CHECK_THROWS_WITH_AS(scatter_add(x, 0, full({2, 2}, 0), zeros({1, 2})),
                       doctest::Contains("source is smaller than index"), ShapeError);
  CHECK_THROWS_AS(index_select(x, 2, index), IndexError);
  CHECK_THROWS_WITH_AS(index_select(tensor(1.f), 0, tensor({int64_t{0}, int64_t{0}})),
                       doctest::Contains("has one element, not 2"), ShapeError);
}

TEST_CASE("indexing: an index changed before backward is noticed") {
  const Tensor x = zeros({3}).requires_grad_(), index = tensor({int64_t{0}});
  const Tensor y = index_select(x, 0, index);
  index.fill_(7);
  CHECK_THROWS_AS(y.backward(ones({1})), StateError);
}
