// det and slogdet: checks and gradients. Contracts: linalg.h.
#include "lathe/autograd/record.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/linalg/linalg_batch.h"
#include "lathe/ops/linalg/linalg_eigen.h"
#include "lathe/ops/views.h"

namespace lathe::linalg {

using autograd::Needs;
using autograd::record;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

struct Determinant {
  Tensor det, sign, logabsdet;
};
Determinant determinant(const Tensor& a) {
  const Tensor matrices = to_kernel(a);
  const Determinant d{result_for(matrices, {}), result_for(matrices, {}), result_for(matrices, {})};
  cpu::batched_determinant(d.det, d.sign, d.logabsdet, matrices);
  return {from_kernel(d.det, a), from_kernel(d.sign, a), from_kernel(d.logabsdet, a)};
}

/// A factor per matrix, as one of its elements' shape.
Tensor per_matrix(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

Tensor cofactors(const Tensor& a) {
  const Tensor matrices = to_kernel(a);
  const Tensor c = result_for(matrices, {a.dim(-1), a.dim(-1)});
  cpu::batched_cofactors(c, matrices);
  return from_kernel(c, a);
}

}  // namespace

Tensor det(const Tensor& a_in) {
  const profile::OpRange range("det", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_square("det", a);
  Tensor y = determinant(a).det;
  record("det", y, {a}, [a = Saved(a), y = SavedOutput(y)](const Tensor& dy, const Needs&) {
    if (!grad_enabled()) return Tensors{mul(per_matrix(dy), cofactors(a.get()))};
    const Tensor inverse = transposed(inverse_for("det", a.get()));  // an op, which has a gradient
    return Tensors{mul(per_matrix(mul(dy, y.get())), inverse)};
  });
  return y;
}

Slogdet slogdet(const Tensor& a_in) {
  const profile::OpRange range("slogdet", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_square("slogdet", a);
  const Determinant d = determinant(a);
  profile::note_output(d.sign);
  record("slogdet", d.logabsdet, {a}, [a = Saved(a)](const Tensor& dy, const Needs&) {
    return Tensors{mul(per_matrix(dy), transposed(inverse_for("slogdet", a.get())))};
  });
  return {d.sign, d.logabsdet};
}

}  // namespace lathe::linalg
