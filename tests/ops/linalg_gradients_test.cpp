// Gradients of linalg against finite differences, once and twice, in every layout and on a GPU.
#include "compare.h"
#include "lathe/core/random/generator.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using In = const Tensors&;

Tensor turned(const Tensor& x) { return x.transpose(-2, -1); }

/// A matrix whose singular values are far from 0 and from each other, also after what the layouts
/// of check_gradients() make of x is added.
Tensor regular(In in, int64_t m, int64_t n) {
  std::vector<double> values;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      values.push_back((i == j ? 3.0 + 2.0 * static_cast<double>(i * i) : 0.0) +
                       0.3 * std::sin(static_cast<double>(3 * i + 7 * j + 1)));
    }
  }
  const Tensor fixed = tensor(values).to(kF64).reshape({m, n});
  return in[0] * 0.3 + beside(in, fixed);
}
Tensor positive(In in, int64_t n) {
  const Tensor x = regular(in, n, n);
  return matmul(x, turned(x));
}
Tensor symmetric(In in, int64_t n) {
  const Tensor x = regular(in, n, n);
  return x + turned(x);
}

}  // namespace

// clang-format off
TEST_CASE("linalg: gradients of equations and determinants agree with finite differences") {
  manual_seed(2);
  const Tensor square = f64({2, 3, 3}), b = f64({2, 3, 2}), row = f64({2, 2, 3});
  const GradientCase cases[] = {
      {"cholesky", [](In in) { return linalg::cholesky(positive(in, 3)); }, {square}},
      {"cholesky upper", [](In in) { return linalg::cholesky(positive(in, 3), {.upper = true}); }, {square}},
      {"solve", [](In in) { return linalg::solve(regular(in, 3, 3), in[1]); }, {square, b}},
      {"solve broadcast", [](In in) { return linalg::solve(regular(in, 3, 3), in[1]); }, {f64({3, 3}), b}},
      {"solve right", [](In in) { return linalg::solve(regular(in, 3, 3), in[1], {.left = false}); }, {square, row}},
      {"solve_triangular", [](In in) { return linalg::solve_triangular(regular(in, 3, 3), in[1]); }, {square, b}},
      {"solve_triangular upper", [](In in) { return linalg::solve_triangular(regular(in, 3, 3), in[1], {.upper = true, .unitriangular = true}); }, {square, b}},
      {"solve_triangular right", [](In in) { return linalg::solve_triangular(regular(in, 3, 3), in[1], {.left = false}); }, {square, row}},
      {"inv", [](In in) { return linalg::inv(regular(in, 3, 3)); }, {square}},
      {"det", [](In in) { return linalg::det(regular(in, 3, 3) * 0.3); }, {square}},
      {"slogdet", [](In in) { return linalg::slogdet(regular(in, 3, 3)).logabsdet; }, {square}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("linalg: gradients of decompositions and functions agree with finite differences") {
  manual_seed(3);
  const Tensor square = f64({2, 3, 3}), tall = f64({2, 4, 2}), wide = f64({2, 2, 4});
  const auto svd_form = [](const Tensor& x) {
    const auto [u, s, vh] = linalg::svd(x, {.full_matrices = false});
    return matmul(u * log(s).unsqueeze(-2), vh) + s.sum({-1}, {.keepdim = true}).unsqueeze(-1);
  };
  const auto qr_form = [](const Tensor& x) {
    const auto [q, r] = linalg::qr(x);
    return matmul(q, sin(r));
  };
  const GradientCase cases[] = {
      {"qr tall", [&](In in) { return qr_form(regular(in, 4, 2)); }, {tall}},
      {"qr wide", [&](In in) { return qr_form(regular(in, 2, 4)); }, {wide}},
      {"qr q", [](In in) { return linalg::qr(regular(in, 4, 2)).q; }, {tall}},
      {"qr r", [](In in) { return linalg::qr(regular(in, 2, 4)).r; }, {wide}},
      {"svd tall", [&](In in) { return svd_form(regular(in, 4, 2)); }, {tall}},
      {"svd wide", [&](In in) { return svd_form(regular(in, 2, 4)); }, {wide}},
      {"svd values", [](In in) { return linalg::svd(regular(in, 4, 2)).s; }, {tall}},
      {"eigh", [](In in) {
        const auto [w, v] = linalg::eigh(symmetric(in, 3));
        return matmul(v * log(w).unsqueeze(-2), turned(v)) + w.unsqueeze(-1); }, {square}},
      {"svdvals tall", [](In in) { return linalg::svdvals(regular(in, 4, 2)); }, {tall}},
      {"svdvals wide", [](In in) { return linalg::svdvals(regular(in, 2, 4)); }, {wide}},
      {"eigvalsh", [](In in) { return linalg::eigvalsh(symmetric(in, 3)); }, {square}},
      {"pinv tall", [](In in) { return linalg::pinv(regular(in, 4, 2)); }, {tall}},
      {"pinv wide", [](In in) { return linalg::pinv(regular(in, 2, 4)); }, {wide}},
      {"lstsq", [](In in) {
        const auto y = linalg::lstsq(regular(in, 4, 2), in[1]);
        return y.solution + y.residuals.unsqueeze(-2); }, {tall, f64({2, 4, 2})}},
      {"matrix_exp", [](In in) { return linalg::matrix_exp(regular(in, 3, 3) * 0.2); }, {square}},
      {"matrix_norm", [](In in) { return linalg::matrix_norm(regular(in, 4, 2), "nuc"); }, {tall}},
      {"matrix_norm spectral", [](In in) { return linalg::matrix_norm(regular(in, 4, 2), -2); }, {tall}},
      {"matrix_norm rows", [](In in) { return linalg::matrix_norm(regular(in, 4, 2), INFINITY); }, {tall}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}
// clang-format on
