// Products of vectors and matrices.
// Contract: pt2_call.h.
#include "lathe/autograd/grad_mode.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/einsum.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/products.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::jit::pt2 {

namespace {

/// A weight that is a vector gives one number for each row.
void linear_of(Call& c) {
  const Tensor x = c.tensor("input"), w = c.tensor("weight"), bias = c.maybe("bias");
  if (w.ndim() != 1) return c.result(linear(x, w, bias));
  const Tensor y = matmul(x, w);
  c.result(bias.defined() ? add(y, bias) : y);
}

/// op(self, the argument `other`).
template <Tensor (*op)(const Tensor&, const Tensor&), const char* other>
void product(Call& c) {
  c.result(op(c.tensor("self"), c.tensor(other)));
}
constexpr char kOther[] = "other", kMat2[] = "mat2", kVec[] = "vec", kVec2[] = "vec2",
               kTensor[] = "tensor";

void addmm_of(Call& c) {
  const Scalar alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  const bool is_plain = alpha.to<double>() == 1 && beta.to<double>() == 1;
  // Without gradients by ops that a graph holds, for jit::trace.
  if (is_plain && !grad_enabled()) {
    return c.result(add(matmul(c.tensor("mat1"), c.tensor("mat2")), c.tensor("self")));
  }
  c.result(
      addmm(c.tensor("self"), c.tensor("mat1"), c.tensor("mat2"), {.beta = beta, .alpha = alpha}));
}

void baddbmm_of(Call& c) {
  c.result(baddbmm(c.tensor("self"), c.tensor("batch1"), c.tensor("batch2"),
                   {.beta = c.number("beta", 1), .alpha = c.number("alpha", 1)}));
}
void addmv_of(Call& c) {
  const Tensor column = unsqueeze(c.tensor("vec"), 1);
  const Tensor self = c.tensor("self");
  const Tensor y = addmm(self.ndim() == 0 ? self : unsqueeze(self, 1), c.tensor("mat"), column,
                         {.beta = c.number("beta", 1), .alpha = c.number("alpha", 1)});
  c.result(squeeze(y, 1));
}

/// y[…,k] = x1[…,i] weight[k,i,j] x2[…,j] + bias[k].
void bilinear_of(Call& c) {
  const Tensor y =
      einsum("...i,kij,...j->...k", {c.tensor("input1"), c.tensor("weight"), c.tensor("input2")});
  const Tensor bias = c.maybe("bias");
  c.result(bias.defined() ? add(y, bias) : y);
}

/// The norms of v's slices along `dim`, over all other dimensions; of size 1 there. dim = -1: of
/// all.
Tensor norm_except(const Tensor& v, int64_t dim, double power) {
  if (dim == -1) return vector_norm(v, power);
  const int kept = wrap_dim("norm_except_dim", dim, v.ndim());
  Dims others;
  for (int d = 0; d < v.ndim(); ++d) {
    if (d != kept) others.push_back(d);
  }
  if (others.empty()) return abs(v);
  return vector_norm(v, power, others, {.keepdim = true});
}
/// v with norms g. Salimans and Kingma 2016 (arXiv:1602.07868).
void weight_norm_of(Call& c) {
  const Tensor v = c.tensor("v"), g = c.tensor("g");
  c.result(mul(v, div(g, norm_except(v, c.integer("dim", 0), 2))));
}

void cdist_of(Call& c) { c.result(cdist(c.tensor("x1"), c.tensor("x2"), c.real("p", 2.0))); }
void pairwise_distance_of(Call& c) {
  c.result(pairwise_distance(
      c.tensor("x1"), c.tensor("x2"),
      {.p = c.real("p", 2.0), .eps = c.real("eps", 1e-6), .keepdim = c.boolean("keepdim", false)}));
}
void cosine_similarity_of(Call& c) {
  c.result(cosine_similarity(c.tensor("x1"), c.tensor("x2"),
                             {.dim = c.integer("dim", 1), .eps = c.real("eps", 1e-8)}));
}

void transposed(Call& c) { c.result(transpose(c.tensor("self"), -2, -1)); }

using enum Kind;

// clang-format off
constexpr Target kProducts[] = {
    {"aten.linear.default", linear_of}, {"aten.addmm.default", addmm_of}, {"aten.baddbmm.default", baddbmm_of}, {"aten.addmv.default", addmv_of}, {"aten.bilinear.default", bilinear_of},
    {"aten.matmul.default", product<matmul, kOther>}, {"aten.mm.default", product<mm, kMat2>}, {"aten.bmm.default", product<bmm, kMat2>}, {"aten.mv.default", product<mv, kVec>},
    {"aten.dot.default", product<dot, kTensor>}, {"aten.vdot.default", product<dot, kOther>}, {"aten.outer.default", product<outer, kVec2>}, {"aten.kron.default", product<kron, kOther>},
    {"aten.tensordot.default", [](Call& c) { c.result(tensordot(c.tensor("self"), c.tensor("other"), c.dims("dims_self"), c.dims("dims_other"))); }},
    {"aten.einsum.default", [](Call& c) { c.result(einsum(c.word("equation", ""), c.tensors("tensors"))); }},
    {"aten._weight_norm.default", weight_norm_of}, {"aten.norm_except_dim.default", [](Call& c) { c.result(norm_except(c.tensor("v"), c.integer("dim", 0), c.real("pow", 2))); }},
    {"aten.cdist.default", cdist_of}, {"aten.pairwise_distance.default", pairwise_distance_of}, {"aten.cosine_similarity.default", cosine_similarity_of},
    {"aten.mT.default", transposed, kView}, {"aten.mH.default", transposed, kView}, {"aten.adjoint.default", transposed, kView}, {"aten.matrix_H.default", transposed, kView},
};
// clang-format on

}  // namespace

std::span<const Target> product_targets() { return kProducts; }

}  // namespace lathe::jit::pt2
