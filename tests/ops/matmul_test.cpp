// matmul, bmm and linear: values against loops, gradients against finite differences, dtypes,
// errors.
#include "lathe/ops/matmul.h"

#include "compare.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct MatmulCase {
  Shape a, b, y;
};

const MatmulCase kCases[] = {
    {{3}, {3}, {}},
    {{2, 3}, {3}, {2}},
    {{3}, {3, 4}, {4}},
    {{2, 3}, {3, 4}, {2, 4}},
    {{5, 2, 3}, {5, 3, 4}, {5, 2, 4}},
    {{5, 2, 3}, {3, 4}, {5, 2, 4}},
    {{2, 3}, {5, 3, 4}, {5, 2, 4}},
    {{3}, {5, 3, 4}, {5, 4}},
    {{5, 2, 3}, {3}, {5, 2}},
    {{2, 1, 2, 3}, {4, 3, 2}, {2, 4, 2, 2}},
    {{1, 1}, {1, 1}, {1, 1}},
    {{1, 7}, {7, 1}, {1, 1}},
    {{0, 3}, {3, 4}, {0, 4}},
    {{2, 0}, {0, 4}, {2, 4}},  // nothing to sum: zeros
    {{0}, {0}, {}},
    {{0, 2, 3}, {0, 3, 4}, {0, 2, 4}},
    {{3, 2, 0}, {0, 4}, {3, 2, 4}},
};

/// The product by its definition, in f64.
std::vector<double> product(const Tensor& a_in, const Tensor& b_in, const Shape& y) {
  const Tensor a = cast(a_in.ndim() == 1 ? unsqueeze(a_in, 0) : a_in, kF64);
  const Tensor b = cast(b_in.ndim() == 1 ? unsqueeze(b_in, 1) : b_in, kF64);
  const int64_t m = a.dim(-2), n = b.dim(-1), k = a.dim(-1);
  const int64_t count = m * n == 0 ? 0 : numel_of(y) / (m * n);
  Shape batch = y;
  if (a_in.ndim() > 1) batch.erase(batch.size() - (b_in.ndim() > 1 ? 2 : 1));
  if (b_in.ndim() > 1) batch.erase(batch.size() - 1);
  const auto matrices = [&](const Tensor& t) {
    Shape shape = batch;
    shape.push_back(t.dim(-2));
    shape.push_back(t.dim(-1));
    return expand(t, shape).to_vector<double>();
  };
  const auto as = matrices(a), bs = matrices(b);
  std::vector<double> result(static_cast<size_t>(numel_of(y)), 0.0);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < n; ++c)
        for (int64_t t = 0; t < k; ++t)
          result[static_cast<size_t>((i * m + r) * n + c)] +=
              as[static_cast<size_t>((i * m + r) * k + t)] *
              bs[static_cast<size_t>((i * k + t) * n + c)];
  return result;
}

}  // namespace

TEST_CASE("matmul: values agree with the definition") {
  for (const MatmulCase& c : kCases) {
    CAPTURE(concat(c.a, " x ", c.b));
    const Tensor a = f64(c.a), b = f64(c.b);
    const Tensor y = matmul(a, b);
    REQUIRE(y.shape() == c.y);
    const auto expected = product(a, b, c.y);
    CHECK(relative_error(y.to_vector<double>(), expected) <= 1e-12);
    const auto in = [&](DType t) { return matmul(cast(a, t), cast(b, t)).to_vector<double>(); };
    CHECK(relative_error(in(kF32), expected) <= 1e-5);
    CHECK(relative_error(in(kF16), expected) <= 5e-3);   // inputs rounded to 2^-11
    CHECK(relative_error(in(kBF16), expected) <= 4e-2);  // inputs rounded to 2^-8
  }
}

TEST_CASE("matmul: gradients agree with finite differences, once and twice") {
  for (const MatmulCase& c : kCases) {
    CAPTURE(concat(c.a, " x ", c.b));
    const auto f = [](const Tensors& in) { return matmul(in[0], in[1]); };
    check_gradients({"matmul", f, {f64(c.a), f64(c.b)}});
  }
}

TEST_CASE("matmul: transposed, sliced and expanded operands give what their copies give") {
  const Tensor lefts[] = {
      f64({4, 6}),
      transpose(f64({6, 4}), 0, 1),
      slice(f64({4, 12}), 1, 0, 12, 2),
      slice(f64({8, 9}), 0, 0, 8, 2).narrow(1, 2, 6),
      transpose(slice(f64({6, 9}), 1, 1, 9, 2), 0, 1),
      expand(f64({1, 6}), {4, 6}),
      expand(f64({4, 1}), {4, 6}),
      select(f64({4, 6, 3}), 2, 1),
  };
  for (const Tensor& a : lefts) {
    for (const Tensor& t : lefts) {
      const Tensor b = transpose(t, 0, 1);
      for (const DType dtype : {kF64, kF32, kI32}) {
        const Tensor x = dtype == kF64 ? a : cast(a, dtype), y = dtype == kF64 ? b : cast(b, dtype);
        CHECK(relative_error(matmul(x, y), matmul(contiguous(x), contiguous(y))) <= 1e-6);
      }
    }
  }
}

TEST_CASE("matmul: large f32 products agree with f64") {
  const MatmulCase cases[] = {{{200, 300}, {300, 150}, {}},
                              {{3, 100, 90}, {3, 90, 110}, {}},
                              {{40, 24, 32}, {40, 32, 16}, {}},
                              {{1, 1000}, {1000, 900}, {}}};
  for (const MatmulCase& c : cases) {
    const Tensor a = randn(c.a), b = randn(c.b);
    CHECK(relative_error(matmul(a, b), matmul(cast(a, kF64), cast(b, kF64))) <= 1e-5);
    const Tensor at = transpose(contiguous(transpose(a, -2, -1)), -2, -1);
    CHECK(relative_error(matmul(at, b), matmul(a, b)) <= 1e-5);
  }
}

TEST_CASE("matmul: integers are summed exactly and wrap") {
  const Tensor a = tensor({{1, 2}, {3, 4}}, kI32), b = tensor({{5, 6}, {7, 8}}, kI32);
  CHECK(matmul(a, b).dtype() == kI32);
  CHECK(matmul(a, b).to_vector<int32_t>() == std::vector<int32_t>{19, 22, 43, 50});
  const Tensor large = full({1, 2}, int64_t{1} << 62, {.dtype = kI64});
  CHECK(matmul(large, transpose(full({1, 2}, 2, {.dtype = kI64}), 0, 1)).to_vector<int64_t>() ==
        std::vector<int64_t>{0});  // 2^64
  CHECK(matmul(full({2}, 16, {.dtype = kU8}), full({2}, 8, {.dtype = kU8})).item<int>() ==
        0);  // 256
  CHECK(matmul(full({2}, -100, {.dtype = kI8}), full({2}, 1, {.dtype = kI8})).item<int>() == 56);
}

TEST_CASE("bmm: as matmul, without broadcasting") {
  const Tensor a = f64({3, 2, 4}), b = f64({3, 4, 5});
  CHECK(relative_error(bmm(a, b), matmul(a, b)) == 0);
  check_gradients({"bmm", [](const Tensors& in) { return bmm(in[0], in[1]); }, {a, b}});
  CHECK_THROWS_WITH_AS(bmm(a, f64({2, 4, 5})),
                       doctest::Contains("a and b must be [B,m,k] and [B,k,n]"), ShapeError);
  CHECK_THROWS_AS(bmm(a, f64({4, 5})), ShapeError);
}

TEST_CASE("mm, mv: matmul of a matrix with a matrix or a vector, nothing else") {
  const Tensor a = f64({3, 4}), b = f64({4, 2}), x = f64({4});
  CHECK(relative_error(mm(a, b), matmul(a, b)) == 0);
  CHECK(relative_error(mv(a, x), matmul(a, x)) == 0);
  check_gradients({"mm", [](const Tensors& in) { return mm(in[0], in[1]); }, {a, b}});
  check_gradients({"mv", [](const Tensors& in) { return mv(in[0], in[1]); }, {a, x}});
  CHECK_THROWS_WITH_AS(mm(a, x), doctest::Contains("mm: a and b must be [m,k] and [k,n]"),
                       ShapeError);
  CHECK_THROWS_AS(mm(a, a), ShapeError);
  CHECK_THROWS_WITH_AS(mv(a, b), doctest::Contains("mv: a and x must be [m,k] and [k]"),
                       ShapeError);
  CHECK_THROWS_AS(mv(a, f64({3})), ShapeError);
}

TEST_CASE("baddbmm: addmm of each batch") {
  // torch.baddbmm(torch.ones(2), a, a + 1, beta=0.5, alpha=2)
  const Tensor a = arange(8, {.dtype = kF32}).view({2, 2, 2});
  const AddmmOptions opt{.beta = 0.5, .alpha = 2};
  CHECK(difference(baddbmm(ones({2}), a, a + 1, opt),
                   {6.5, 8.5, 22.5, 32.5, 110.5, 128.5, 158.5, 184.5}, 0) == "");
  manual_seed(41);
  const auto f = [&](const Tensors& in) { return baddbmm(in[0], in[1], in[2], opt); };
  check_gradients({"baddbmm", f, {f64({3, 2, 4}), f64({3, 2, 5}), f64({3, 5, 4})}});
  CHECK_THROWS_WITH_AS(baddbmm(zeros({2}), zeros({2, 2}), zeros({2, 2})),
                       doctest::Contains("baddbmm: a and b must be [B,m,k] and [B,k,n]"),
                       ShapeError);
  CHECK_THROWS_AS(baddbmm(zeros({3}), a, a), ShapeError);
}

TEST_CASE("addmm: beta * input + alpha * a * b") {
  const Tensor a = f64({3, 4}), b = f64({4, 2});
  for (const Shape& shape : {Shape{3, 2}, Shape{2}, Shape{3, 1}, Shape{}}) {
    CAPTURE(concat(shape));
    const Tensor input = f64(shape), want = input * 0.5 + matmul(a, b) * -2.0;
    const AddmmOptions opt{.beta = 0.5, .alpha = -2.0};
    CHECK(relative_error(addmm(input, a, b, opt), want) <= 1e-12);
    CHECK(relative_error(addmm(input, a, b), input + matmul(a, b)) <= 1e-12);
    for (const auto& [dtype, tol] : {std::pair{kF32, 1e-5}, {kF16, 5e-3}, {kBF16, 4e-2}}) {
      const Tensor y = addmm(cast(input, dtype), cast(a, dtype), cast(b, dtype), opt);
      CHECK(y.dtype() == dtype);
      CHECK(relative_error(y, want) <= tol);
    }
    const auto f = [&](const Tensors& in) { return addmm(in[0], in[1], in[2], opt); };
    check_gradients({"addmm", f, {input, a, b}});
  }
  // torch.addmm(torch.tensor([1, 2]), m, m, beta=2, alpha=3), m = torch.tensor([[1, 2], [3, 4]])
  const Tensor m = tensor({{1, 2}, {3, 4}}, kI32);
  CHECK(addmm(tensor({1, 2}, kI32), m, m, {.beta = 2, .alpha = 3}).to_vector<int>() ==
        std::vector<int>{23, 34, 47, 70});
  // torch.addmm(torch.tensor([nan, nan]), n, n, beta=0, alpha=2), n = m.float()
  const Tensor n = m.to(kF32);
  CHECK(addmm(full({2}, std::nan("")), n, n, {.beta = 0, .alpha = 2}).to_vector<float>() ==
        std::vector<float>{14, 20, 30, 44});
  CHECK_THROWS_WITH_AS(addmm(zeros({3}), n, n), doctest::Contains("shapes [3] and [2,2]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      addmm(zeros({1, 2, 2}), n, n),
      doctest::Contains("input does not broadcast to [2,2] (input: f32[1,2,2]@cpu)"), ShapeError);
  CHECK_THROWS_WITH_AS(addmm(tensor({1, 2}, kI32), m, m, {.alpha = 0.5}),
                       doctest::Contains("addmm: 0.5 does not fit i32"), DTypeError);
  CHECK_THROWS_AS(addmm(zeros({2}), n, n[0]), ShapeError);
  CHECK_THROWS_AS(addmm(zeros({2}), n, zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(addmm(zeros({2}, {.dtype = kF64}), n, n), DTypeError);
}

TEST_CASE("linear: values and gradients over any number of leading dimensions") {
  for (const Shape& shape : {Shape{4, 3}, Shape{3}, Shape{2, 4, 3}, Shape{0, 3}, Shape{1, 3}}) {
    CAPTURE(concat(shape));
    const Tensor x = f64(shape), w = f64({5, 3}), bias = f64({5});
    const Tensor y = linear(x, w, bias);
    CHECK(relative_error(y, matmul(x, transpose(w, 0, 1)) + bias) <= 1e-12);
    CHECK(relative_error(linear(x, w), matmul(x, transpose(w, 0, 1))) <= 1e-12);
    CHECK(relative_error(linear(cast(x, kF32), cast(w, kF32), cast(bias, kF32)), y) <= 1e-5);
    CHECK(relative_error(linear(cast(x, kF16), cast(w, kF16), cast(bias, kF16)), y) <= 5e-3);
    const auto f = [](const Tensors& in) { return linear(in[0], in[1], in[2]); };
    check_gradients({"linear", f, {x, w, bias}});
  }
  const Tensor nothing = linear(f64({2, 0}), f64({3, 0}), f64({3}) * 0.0 + 1.5);
  CHECK(nothing.to_vector<double>() == std::vector<double>(6, 1.5));
}

TEST_CASE("matmul, linear: errors name the values") {
  CHECK_THROWS_WITH_AS(
      matmul(zeros({2, 3}), zeros({4, 5})),
      doctest::Contains(
          "matmul: a has 3 columns but b has 4 rows (a: f32[2,3]@cpu, b: f32[4,5]@cpu)"),
      ShapeError);
  CHECK_THROWS_WITH_AS(matmul(zeros({}), zeros({4})),
                       doctest::Contains("must have at least one dimension"), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 3, 4}), zeros({5, 4, 3})), ShapeError);
  CHECK_THROWS_WITH_AS(
      matmul(zeros({2}), zeros({2}, {.dtype = kF64})),
      doctest::Contains("a and b must have one number dtype (a: f32[2]@cpu, b: f64[2]@cpu)"),
      DTypeError);
  CHECK_THROWS_AS(matmul(zeros({2}, {.dtype = kBool}), zeros({2}, {.dtype = kBool})), DTypeError);
  CHECK_THROWS_WITH_AS(
      linear(zeros({2, 3}), zeros({4, 5})),
      doctest::Contains("x must be [...,in] and w [out,in] (x: f32[2,3]@cpu, w: f32[4,5]@cpu)"),
      ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({3})),
                       doctest::Contains("bias must be [4] (bias: f32[3]@cpu"), ShapeError);
  CHECK_THROWS_AS(linear(zeros({2, 3}, {.dtype = kI32}), zeros({4, 3}, {.dtype = kI32})),
                  DTypeError);
}
