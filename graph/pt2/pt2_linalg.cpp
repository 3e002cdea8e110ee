// Eigenvalues, singular values and ranks of matrices.
// Contract: pt2_call.h.
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/linalg/linalg.h"

namespace lathe::jit::pt2 {

namespace {

/// The matrices, by the name that the operator's schema has for them.
Tensor matrices(const Call& c) {
  return c.tensor(c.has("A") ? "A" : c.has("input") ? "input" : "self");
}

linalg::EighOptions triangle(const Call& c) {
  const std::string name = c.word("UPLO", "L");
  return {.upper = name == "U" || name == "u"};
}

void eigvalsh_of(Call& c) { c.result(linalg::eigvalsh(matrices(c), triangle(c))); }
void eigh_of(Call& c) {
  const auto [values, vectors] = linalg::eigh(matrices(c), triangle(c));
  c.results({values, vectors});
}

void svdvals_of(Call& c) { c.result(linalg::svdvals(matrices(c))); }
template <bool full_by_default>
void svd_of(Call& c) {
  const auto [u, s, vh] =
      linalg::svd(matrices(c), {.full_matrices = c.boolean("full_matrices", full_by_default)});
  c.results({u, s, vh});
}

/// A tolerance, also as a tensor of one number.
double tolerance(const Call& c, const char* name, std::optional<double> otherwise) {
  if (!c.is_tensor(name)) return c.real(name, otherwise);
  const Tensor t = c.tensor(name);
  if (t.numel() != 1)
    c.refuse(concat("has ", t.numel(), " numbers as \"", name, "\", and one is known"));
  return t.item<double>();
}

void matrix_rank_of(Call& c) {
  linalg::MatrixRankOptions o{.hermitian = c.boolean("hermitian", false)};
  if (c.has("tol")) {  // NumPy's
    o.atol = tolerance(c, "tol", {});
    o.rtol = 0;
  } else {
    o.atol = tolerance(c, "atol", o.atol);
    o.rtol = tolerance(c, "rtol", o.rtol);
  }
  c.result(linalg::matrix_rank(matrices(c), o));
}

// clang-format off
const Target kLinalg[] = {
    {"aten.linalg_eigvalsh.default", eigvalsh_of}, {"aten.linalg_eigh.default", eigh_of}, {"aten._linalg_eigh.default", eigh_of},
    {"aten.linalg_svdvals.default", svdvals_of}, {"aten.linalg_svd.default", svd_of<true>}, {"aten._linalg_svd.default", svd_of<false>},
    {"aten.linalg_matrix_rank.default", matrix_rank_of}, {"aten.linalg_matrix_rank.tol_tensor", matrix_rank_of},
    {"aten.linalg_matrix_rank.atol_rtol_float", matrix_rank_of}, {"aten.linalg_matrix_rank.atol_rtol_tensor", matrix_rank_of},
};
// clang-format on

}  // namespace

std::span<const Target> linalg_targets() { return kLinalg; }

}  // namespace lathe::jit::pt2
