// Linear algebra of small matrices: torch.linalg.
// Contract: pt2_call.h.
#include "lathe/core/format.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/diagonal.h"
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
  if (!c.boolean("compute_v", true)) c.refuse("leaves out the vectors");
  const auto [values, vectors] = linalg::eigh(matrices(c), triangle(c));
  c.results({values, vectors});
}

void svdvals_of(Call& c) { c.result(linalg::svdvals(matrices(c))); }
template <bool full_by_default>
void svd_of(Call& c) {
  if (!c.boolean("compute_uv", true)) c.refuse("leaves out the vectors");
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

template <Tensor (*op)(const Tensor&)>
void of_matrix(Call& c) {
  c.result(op(matrices(c)));
}

void cholesky_of(Call& c) {
  c.result(linalg::cholesky(c.tensor("self"), {.upper = c.boolean("upper", false)}));
}
void slogdet_of(Call& c) {
  const auto [sign, logabsdet] = linalg::slogdet(matrices(c));
  c.results({sign, logabsdet});
}
void solve_of(Call& c) {
  c.result(linalg::solve(c.tensor("A"), c.tensor("B"), {.left = c.boolean("left", true)}));
}
void solve_triangular_of(Call& c) {
  c.result(linalg::solve_triangular(c.tensor("self"), c.tensor("B"),
                                    {.upper = c.boolean("upper", false),
                                     .left = c.boolean("left", true),
                                     .unitriangular = c.boolean("unitriangular", false)}));
}

void qr_of(Call& c) {
  const std::string mode = c.word("mode", "reduced");
  if (mode != "reduced" && mode != "complete") c.refuse(concat("has the mode \"", mode, "\""));
  const auto [q, r] = linalg::qr(c.tensor("A"), {.complete = mode == "complete"});
  c.results({q, r});
}
void pinv_of(Call& c) {
  if (c.is_tensor("atol") || c.is_tensor("rtol")) c.refuse("has limits that are tensors");
  if (c.boolean("hermitian", false)) c.refuse("reads one triangle only, which is not supported");
  linalg::PinvOptions o{.atol = c.real("atol", 0.0)};
  o.rtol = c.real("rtol", -1.0);
  c.result(linalg::pinv(c.tensor("self"), o));
}
void pinverse_of(Call& c) {
  c.result(linalg::pinv(c.tensor("self"), {.rtol = c.real("rcond", 1e-15)}));
}

void matrix_norm_of(Call& c) {
  const Tensor self = c.tensor("self"), x = self.to(c.dtype("dtype", self.dtype()));
  const linalg::MatrixNormOptions o{.dim = c.dims("dim", {-2, -1}),
                                    .keepdim = c.boolean("keepdim", false)};
  const bool is_number = c.has("ord") && !c.is_word("ord");
  c.result(is_number ? linalg::matrix_norm(x, c.real("ord"), o)
                     : linalg::matrix_norm(x, c.word("ord", "fro"), o));
}

// clang-format off
constexpr Target kLinalg[] = {
    {"aten.linalg_eigvalsh.default", eigvalsh_of}, {"aten.linalg_eigh.default", eigh_of}, {"aten._linalg_eigh.default", eigh_of},
    {"aten.linalg_svdvals.default", svdvals_of}, {"aten.linalg_svd.default", svd_of<true>}, {"aten._linalg_svd.default", svd_of<false>},
    {"aten.linalg_matrix_rank.default", matrix_rank_of}, {"aten.linalg_matrix_rank.tol_tensor", matrix_rank_of},
    {"aten.linalg_matrix_rank.atol_rtol_float", matrix_rank_of}, {"aten.linalg_matrix_rank.atol_rtol_tensor", matrix_rank_of},
    {"aten.linalg_cholesky.default", cholesky_of}, {"aten.linalg_solve.default", solve_of}, {"aten.linalg_solve_triangular.default", solve_triangular_of},
    {"aten.linalg_inv.default", of_matrix<linalg::inv>}, {"aten.linalg_det.default", of_matrix<linalg::det>}, {"aten.linalg_slogdet.default", slogdet_of}, {"aten.linalg_qr.default", qr_of},
    {"aten.linalg_pinv.atol_rtol_float", pinv_of}, {"aten.linalg_pinv.atol_rtol_tensor", pinv_of}, {"aten.pinverse.default", pinverse_of},
    {"aten.matrix_exp.default", of_matrix<linalg::matrix_exp>}, {"aten.trace.default", of_matrix<lathe::trace>},
    {"aten.linalg_matrix_norm.default", matrix_norm_of}, {"aten.linalg_matrix_norm.str_ord", matrix_norm_of},
};
// clang-format on

}  // namespace

std::span<const Target> linalg_targets() { return kLinalg; }

}  // namespace lathe::jit::pt2
