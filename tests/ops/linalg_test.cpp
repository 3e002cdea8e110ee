// linalg: PyTorch's values and gradients, the equations that define the results, and what is
// refused. linalg_gradients_test.cpp has finite differences.
#include "lathe/ops/linalg/linalg.h"

#include <limits>
#include <string>
#include <vector>

#include "compare.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using In = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor turned(const Tensor& x) { return x.transpose(-2, -1); }
Tensor positive(const Tensor& x) { return matmul(x, turned(x)) + eye(x.dim(-1), x.options()); }
Tensor symmetric(const Tensor& x) { return x + turned(x); }

/// Results of svd and eigh in forms that do not depend on the signs of vectors.
Tensors svd_form(const Tensor& x, bool full) {
  const auto [u_all, s, vh_all] = linalg::svd(x, {.full_matrices = full});
  const int64_t k = s.dim(-1);
  const Tensor u = u_all.narrow(-1, 0, k), vh = vh_all.narrow(-2, 0, k);
  return {s, matmul(u, vh), matmul(u * square(s).unsqueeze(-2), turned(u))};
}
Tensors eigh_form(const Tensor& x, bool upper) {
  const auto [w, v] = linalg::eigh(symmetric(x), {.upper = upper});
  return {w, matmul(v * exp(w).unsqueeze(-2), turned(v))};
}
Tensors qr_of(const Tensor& x, bool complete = false) {
  const auto [q, r] = linalg::qr(x, {.complete = complete});
  return {q, r};
}
Tensors lstsq_of(In in) {
  const auto y = linalg::lstsq(in[0], in[1]);
  return y.residuals.numel() > 0 ? Tensors{y.solution, y.residuals} : Tensors{y.solution};
}

struct GoldenCase {
  std::string name;
  Tensors (*f)(In in);
};
// clang-format off
const GoldenCase kGolden[] = {  // as in make_linalg_golden.py
    {"cholesky", [](In in) { return Tensors{linalg::cholesky(positive(in[0]))}; }},
    {"cholesky_upper", [](In in) { return Tensors{linalg::cholesky(positive(in[0]), {.upper = true})}; }},
    {"solve", [](In in) { return Tensors{linalg::solve(in[0], in[1])}; }},
    {"solve_vectors", [](In in) { return Tensors{linalg::solve(in[0], in[1])}; }},
    {"solve_one_vector", [](In in) { return Tensors{linalg::solve(in[0], in[1])}; }},
    {"solve_right", [](In in) { return Tensors{linalg::solve(in[0], in[1], {.left = false})}; }},
    {"solve_triangular", [](In in) { return Tensors{linalg::solve_triangular(in[0], in[1])}; }},
    {"solve_triangular_upper", [](In in) { return Tensors{linalg::solve_triangular(in[0], in[1], {.upper = true})}; }},
    {"solve_triangular_right", [](In in) { return Tensors{linalg::solve_triangular(in[0], in[1], {.upper = true, .left = false})}; }},
    {"solve_triangular_unit", [](In in) { return Tensors{linalg::solve_triangular(in[0], in[1], {.unitriangular = true})}; }},
    {"inv", [](In in) { return Tensors{linalg::inv(in[0])}; }},
    {"det", [](In in) { return Tensors{linalg::det(in[0])}; }},
    {"slogdet", [](In in) { return Tensors{linalg::slogdet(in[0]).logabsdet}; }},
    {"qr_tall", [](In in) { return qr_of(in[0]); }},
    {"qr_square", [](In in) { return qr_of(in[0]); }},
    {"qr_wide", [](In in) { return qr_of(in[0]); }},
    {"qr_wide_complete", [](In in) { return qr_of(in[0], true); }},
    {"svd_tall", [](In in) { return svd_form(in[0], false); }},
    {"svd_square", [](In in) { return svd_form(in[0], true); }},
    {"svd_wide_full", [](In in) { return svd_form(in[0], true); }},
    {"eigh", [](In in) { return eigh_form(in[0], false); }},
    {"eigh_upper", [](In in) { return eigh_form(in[0], true); }},
    {"pinv_tall", [](In in) { return Tensors{linalg::pinv(in[0])}; }},
    {"pinv_wide", [](In in) { return Tensors{linalg::pinv(in[0])}; }},
    {"pinv_rank_one", [](In in) { return Tensors{linalg::pinv(in[0], {.rtol = 1e-8})}; }},
    {"lstsq_tall", lstsq_of},
    {"lstsq_wide", lstsq_of},
    {"lstsq_rank_one", lstsq_of},
    {"matrix_exp", [](In in) { return Tensors{linalg::matrix_exp(in[0])}; }},
    {"matrix_exp_large", [](In in) { return Tensors{linalg::matrix_exp(in[0])}; }},
    {"norm_fro", [](In in) { return Tensors{linalg::matrix_norm(in[0])}; }},
    {"norm_nuc", [](In in) { return Tensors{linalg::matrix_norm(in[0], "nuc")}; }},
    {"norm_1", [](In in) { return Tensors{linalg::matrix_norm(in[0], 1)}; }},
    {"norm_minus_1", [](In in) { return Tensors{linalg::matrix_norm(in[0], -1)}; }},
    {"norm_2", [](In in) { return Tensors{linalg::matrix_norm(in[0], 2)}; }},
    {"norm_minus_2", [](In in) { return Tensors{linalg::matrix_norm(in[0], -2)}; }},
    {"norm_inf", [](In in) { return Tensors{linalg::matrix_norm(in[0], kInf)}; }},
    {"norm_minus_inf", [](In in) { return Tensors{linalg::matrix_norm(in[0], -kInf)}; }},
    {"norm_of_other_dims", [](In in) { return Tensors{linalg::matrix_norm(in[0], "nuc", {.dim = {2, 0}, .keepdim = true})}; }},
    {"svdvals_tall", [](In in) { return Tensors{linalg::svdvals(in[0])}; }},
    {"svdvals_wide", [](In in) { return Tensors{linalg::svdvals(in[0])}; }},
    {"eigvalsh", [](In in) { return Tensors{linalg::eigvalsh(in[0])}; }},
    {"eigvalsh_upper", [](In in) { return Tensors{linalg::eigvalsh(in[0], {.upper = true})}; }},
};

const std::pair<const char*, linalg::MatrixRankOptions> kRanks[] = {
    {"rank", {}},
    {"rank_wide", {}},
    {"rank_f32", {}},
    {"rank_atol", {.atol = 0.75}},
    {"rank_tiny_atol", {.atol = 1e-13}},
    {"rank_rtol", {.rtol = 0.5}},
    {"rank_both", {.atol = 1.5, .rtol = 0.1}},
    {"rank_tol", {.rtol = 0}},
    {"rank_hermitian", {.hermitian = true}},
    {"rank_hermitian_rtol", {.rtol = 0.5, .hermitian = true}},
};
// clang-format on

Tensors entries(const StateDict& all, const std::string& prefix) {
  Tensors out;
  for (int k = 0; all.contains(prefix + std::to_string(k)); ++k) {
    out.push_back(all[prefix + std::to_string(k)].clone());
  }
  return out;
}

}  // namespace

TEST_CASE("linalg: values and gradients are PyTorch's, in every layout") {
  const StateDict all = safetensors::read(LATHE_GOLDEN_LINALG).tensors;
  for (const GoldenCase& c : kGolden) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(c.name, " ", layout.name));
      Tensors xs = entries(all, c.name + ".x");
      const Tensors ys = entries(all, c.name + ".y"), gs = entries(all, c.name + ".g");
      REQUIRE(!xs.empty());
      for (Tensor& x : xs) x = layout.apply(x).requires_grad_();
      const Tensors got = c.f(xs);
      REQUIRE(got.size() == ys.size());
      Tensor loss = zeros({}, {.dtype = kF64});
      for (size_t k = 0; k < ys.size(); ++k) {
        CHECK(difference(got[k], ys[k], 1e-11) == "");
        const Tensor at = arange(ys[k].numel(), {.dtype = kF64}) + static_cast<double>(k);
        loss = loss + (got[k].reshape({-1}) * cos(at)).sum();
      }
      loss.backward();
      for (size_t k = 0; k < xs.size(); ++k) CHECK(difference(xs[k].grad(), gs[k], 1e-10) == "");
    }
  }
}

TEST_CASE("linalg: ranks are PyTorch's, in every layout") {
  const StateDict all = safetensors::read(LATHE_GOLDEN_LINALG).tensors;
  for (const auto& [name, options] : kRanks) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(name, " ", layout.name));
      const Tensor x = layout.apply(all[concat(name, ".x0")].clone());
      const Tensor rank = linalg::matrix_rank(x, options);
      CHECK(rank.dtype() == kI64);
      CHECK(rank.shape() == all[concat(name, ".y0")].shape());
      CHECK(rank.to_vector<int64_t>() == all[concat(name, ".y0")].to_vector<int64_t>());
    }
  }
  const Tensor lower = tensor({{1.0, kNan}, {2.0, 4.0}}, kF64);  // the upper triangle is not read
  CHECK(linalg::matrix_rank(lower, {.hermitian = true}).item<int64_t>() == 1);
}

TEST_CASE("linalg: the results satisfy their equations, in f32 and f64, of many matrices") {
  manual_seed(1);
  const int before = num_threads();
  set_num_threads(3);
  for (const DType dtype : {kF32, kF64}) {
    const double tol = 100 * tolerance_of(dtype);
    const Tensor a = (randn({50, 5, 5}, dtype) + 3.0 * eye(5, {.dtype = dtype}));
    const Tensor b = randn({50, 5, 2}, dtype), tall = randn({20, 7, 4}, dtype);
    const Tensor l = linalg::cholesky(positive(a));
    CHECK(l.dtype() == dtype);
    CHECK(difference(tril(l), l, 0) == "");
    CHECK(difference(matmul(l, turned(l)), positive(a), tol) == "");
    CHECK(difference(matmul(a, linalg::solve(a, b)), b, tol) == "");
    CHECK(difference(matmul(tril(a), linalg::solve_triangular(a, b)), b, tol) == "");
    CHECK(difference(matmul(a, linalg::inv(a)), eye(5, {.dtype = dtype}).expand({50, 5, 5}), tol) ==
          "");
    const auto [sign, logabsdet] = linalg::slogdet(a);
    CHECK(difference(sign * exp(logabsdet), linalg::det(a), tol) == "");
    for (const bool whole : {false, true}) {
      const auto [q, r] = linalg::qr(tall, {.complete = whole});
      CHECK(difference(matmul(q, r), tall, tol) == "");
      CHECK(difference(triu(r), r, 0) == "");
      const Tensor one = eye(whole ? 7 : 4, {.dtype = dtype});
      CHECK(difference(matmul(turned(q), q), one.expand({20, one.dim(0), one.dim(0)}), tol) == "");
      const auto [u, s, vh] = linalg::svd(tall, {.full_matrices = whole});
      CHECK(difference(matmul(u.narrow(-1, 0, 4) * s.unsqueeze(-2), vh), tall, tol) == "");
      CHECK(difference(matmul(turned(u), u), one.expand({20, one.dim(0), one.dim(0)}), tol) == "");
    }
    const auto [w, v] = linalg::eigh(symmetric(a));
    CHECK(difference(matmul(symmetric(a), v), v * w.unsqueeze(-2), tol) == "");
    const Tensor p = linalg::pinv(tall);
    CHECK(difference(matmul(matmul(tall, p), tall), tall, tol) == "");
    CHECK(difference(linalg::lstsq(tall, tall).rank.to(kF64), full({20}, 4, {.dtype = kF64}), 0) ==
          "");
    const Tensor halves = linalg::matrix_exp(a * 0.5);
    CHECK(difference(matmul(halves, halves), linalg::matrix_exp(a), tol) == "");
  }
  set_num_threads(before);
}

TEST_CASE("linalg: a batch of no matrices, and matrices of no rows") {
  const TensorOptions d{.dtype = kF64};
  const Tensor none = zeros({0, 3, 3}, d), nothing = zeros({2, 0, 0}, d);
  for (const Tensor& a : {none, nothing}) {
    CAPTURE(a);
    CHECK(linalg::cholesky(a).shape() == a.shape());
    CHECK(linalg::inv(a).shape() == a.shape());
    CHECK(linalg::solve(a, zeros({a.dim(0), a.dim(1), 2}, d)).shape() ==
          Shape{a.dim(0), a.dim(1), 2});
    CHECK(linalg::solve_triangular(a, a).shape() == a.shape());
    CHECK(linalg::qr(a).r.shape() == a.shape());
    CHECK(linalg::svd(a).s.shape() == Shape{a.dim(0), a.dim(1)});
    CHECK(linalg::eigh(a).eigenvalues.shape() == Shape{a.dim(0), a.dim(1)});
    CHECK(linalg::eigvalsh(a).shape() == Shape{a.dim(0), a.dim(1)});
    CHECK(linalg::svdvals(a).shape() == Shape{a.dim(0), a.dim(1)});
    CHECK(difference(linalg::matrix_rank(a).to(kF64), zeros({a.dim(0)}, d), 0) == "");
    CHECK(linalg::pinv(a).shape() == a.shape());
    CHECK(linalg::lstsq(a, a).rank.shape() == Shape{a.dim(0)});
    CHECK(linalg::matrix_exp(a).shape() == a.shape());
    const Tensor x = a.clone().requires_grad_();
    (linalg::det(x).sum() + linalg::slogdet(x).logabsdet.sum()).backward();
    CHECK(x.grad().shape() == a.shape());
  }
  CHECK(difference(linalg::det(nothing), ones({2}, d), 0) == "");
  CHECK(difference(linalg::slogdet(nothing).sign, ones({2}, d), 0) == "");
  CHECK(difference(linalg::slogdet(nothing).logabsdet, zeros({2}, d), 0) == "");
  CHECK(difference(linalg::svd(zeros({2, 0}, d)).u, eye(2, d), 0) == "");
  CHECK(difference(linalg::qr(zeros({2, 0}, d), {.complete = true}).q, eye(2, d), 0) == "");
  CHECK(difference(linalg::matrix_norm(zeros({2, 0, 3}, d), kInf), zeros({2}, d), 0) == "");
  CHECK(difference(linalg::matrix_norm(zeros({2, 0, 3}, d), 2), zeros({2}, d), 0) == "");
  CHECK_THROWS_WITH_AS(linalg::matrix_norm(zeros({2, 0, 3}, d), -2), Contains("the least of no"),
                       ShapeError);
}

TEST_CASE("linalg: cholesky reads one triangle") {
  const Tensor lower = tensor({{4.0, kNan}, {2.0, 5.0}}, kF64),
               upper = tensor({{4.0, 2.0}, {kNan, 5.0}}, kF64);
  CHECK(difference(linalg::cholesky(lower), tensor({{2.0, 0.0}, {1.0, 2.0}}, kF64), 0) == "");
  CHECK(difference(linalg::cholesky(upper, {.upper = true}), tensor({{2.0, 1.0}, {0.0, 2.0}}, kF64),
                   0) == "");
}

TEST_CASE("linalg: NaN makes results NaN, or is refused where nothing could be said") {
  const Tensor a = tensor({{1.0, kNan}, {kNan, 2.0}}, kF64),
               nan = full({2, 2}, kNan, {.dtype = kF64});
  CHECK(difference(linalg::solve(a, eye(2, {.dtype = kF64})), nan, 0) == "");
  CHECK(difference(linalg::inv(a), nan, 0) == "");
  CHECK(difference(linalg::qr(a).q, nan, 0) == "");
  CHECK(difference(linalg::eigh(a).eigenvectors, nan, 0) == "");
  CHECK(difference(linalg::matrix_exp(a), nan, 0) == "");
  CHECK(std::isnan(linalg::det(a).item<double>()));
  CHECK(std::isnan(linalg::slogdet(a).logabsdet.item<double>()));
  CHECK(std::isnan(linalg::matrix_norm(a).item<double>()));
  CHECK_THROWS_WITH_AS(linalg::cholesky(a), Contains("leading minor of order 2"), ValueError);
  CHECK_THROWS_WITH_AS(linalg::svd(a), Contains("svd: expected finite elements"), ValueError);
  CHECK(difference(linalg::eigvalsh(a), full({2}, kNan, {.dtype = kF64}), 0) == "");
  CHECK_THROWS_WITH_AS(linalg::svdvals(a), Contains("svdvals: expected finite"), ValueError);
  CHECK_THROWS_WITH_AS(linalg::matrix_rank(a), Contains("matrix_rank: expected finite"),
                       ValueError);
  CHECK_THROWS_WITH_AS(linalg::matrix_rank(a, {.hermitian = true}),
                       Contains("matrix_rank: expected finite"), ValueError);
  CHECK_THROWS_WITH_AS(linalg::pinv(a), Contains("pinv: expected finite elements"), ValueError);
  CHECK_THROWS_WITH_AS(linalg::lstsq(a, a), Contains("lstsq: expected finite elements"),
                       ValueError);
  CHECK_THROWS_WITH_AS(linalg::matrix_norm(a, "nuc"), Contains("matrix_norm: expected finite"),
                       ValueError);
  CHECK_THROWS_WITH_AS(linalg::matrix_norm(a, -2), Contains("matrix_norm: expected finite"),
                       ValueError);
}

TEST_CASE("linalg: errors name the matrix and what is wrong with it") {
  const Tensor one = eye(3, {.dtype = kF64}), a = one.expand({2, 2, 3, 3}).clone();
  a[1][0][2][2] = -1;
  CHECK_THROWS_WITH_AS(linalg::cholesky(a),
                       Contains("cholesky: matrix 2 of the batch is not positive definite: its "
                                "leading minor of order 3 is not positive (a: f64[2,2,3,3]"),
                       ValueError);
  a[1][0][2][2] = 0;
  CHECK_THROWS_WITH_AS(linalg::inv(a), Contains("inv: matrix 2 of the batch is singular: pivot 3"),
                       ValueError);
  CHECK_THROWS_WITH_AS(linalg::solve(zeros({2, 2}), ones({2})),
                       Contains("solve: the matrix is singular: pivot 1 is 0"), ValueError);
  CHECK_THROWS_WITH_AS(linalg::det(ones({2, 3})),
                       Contains("det: expected square matrices, got 2 by 3"), ShapeError);
  CHECK_THROWS_WITH_AS(linalg::eigvalsh(ones({2, 3})),
                       Contains("eigvalsh: expected square matrices, got 2 by 3"), ShapeError);
  CHECK_THROWS_WITH_AS(linalg::svdvals(ones({3})), Contains("svdvals: expected matrices"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(linalg::matrix_rank(ones({3})), Contains("matrix_rank: expected matrices"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(linalg::matrix_rank(ones({2, 3}), {.hermitian = true}),
                       Contains("matrix_rank: expected square matrices"), ShapeError);
  CHECK_THROWS_WITH_AS(linalg::inv(ones({3})), Contains("inv: expected matrices"), ShapeError);
  CHECK_THROWS_WITH_AS(linalg::solve(one, ones({2, 1}, kF64)), Contains("as many rows as a, 3"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(linalg::solve(one, ones({2, 1}, kF64), {.left = false}),
                       Contains("as many columns as a, 3"), ShapeError);
  CHECK_THROWS_AS(linalg::solve(one.expand({2, 3, 3}), one.expand({4, 3, 3})), ShapeError);
  CHECK_THROWS_WITH_AS(linalg::solve(one, ones({3, 1})), Contains("must have one dtype"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(linalg::lstsq(one, ones({3}, kF64)), Contains("as many rows as a"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(linalg::matrix_norm(one, 3), Contains("got 3"), ValueError);
  CHECK_THROWS_WITH_AS(linalg::matrix_norm(one, "two"), Contains("got \"two\""), ValueError);
  CHECK_THROWS_AS(linalg::matrix_norm(one, 2, {.dim = {0, 0}}), ShapeError);
  const Tensor tall = ones({3, 2}, kF64).requires_grad_();
  CHECK_THROWS_WITH_AS(linalg::qr(tall, {.complete = true}).q.sum().backward(),
                       Contains("qr: there is no gradient with complete"), ValueError);
}

TEST_CASE("linalg: singular matrices have a determinant with its gradient") {
  const Tensor a = tensor({{1.0, 2.0}, {2.0, 4.0}}, kF64).requires_grad_();
  const Tensor det = linalg::det(a);
  CHECK(std::fabs(det.item<double>()) < 1e-15);
  det.backward();
  CHECK(difference(a.grad(), tensor({{4.0, -2.0}, {-2.0, 1.0}}, kF64), 1e-14) == "");
  const auto [sign, logabsdet] = linalg::slogdet(a);
  CHECK(sign.item<double>() == 0);
  CHECK(logabsdet.item<double>() == -kInf);
  CHECK_THROWS_WITH_AS(logabsdet.backward(), Contains("slogdet: the matrix is singular: pivot 2"),
                       ValueError);
  CHECK_THROWS_WITH_AS(linalg::det(a).backward({.create_graph = true}),
                       Contains("det: the matrix is singular: pivot 2"), ValueError);
  CHECK(difference(linalg::det(zeros({3, 3}, kF64)), std::vector<double>{0}, 0) == "");
}

TEST_CASE("linalg: singular values and eigenvalues have gradients where they repeat") {
  const Tensor a = eye(3, {.dtype = kF64}).requires_grad_();
  linalg::svd(a).s.sum().backward();
  CHECK(difference(a.grad(), eye(3, {.dtype = kF64}), 1e-14) == "");
  const Tensor b = eye(3, {.dtype = kF64}).requires_grad_();
  linalg::eigh(b).eigenvalues.sum().backward();
  CHECK(difference(b.grad(), eye(3, {.dtype = kF64}), 1e-14) == "");
  const Tensor c = eye(3, {.dtype = kF64}).requires_grad_();
  (linalg::svdvals(c) + linalg::eigvalsh(c)).sum().backward();
  CHECK(difference(c.grad(), 2.0 * eye(3, {.dtype = kF64}), 1e-14) == "");
}
