// qr, svd, eigh and their values alone: checks and gradients. Contracts: linalg.h.
#include <algorithm>

#include "lathe/autograd/record.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/join.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/linalg/linalg_batch.h"
#include "lathe/ops/linalg/linalg_eigen.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::linalg {

using autograd::Needs;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

/// autograd::record() for several outputs: backward(dys) has an undefined tensor for an output that
/// has no gradient, and returns that of `a`.
template <class F>
void record_all(const char* op, const Tensors& ys, const Tensor& a, F make_backward) {
  for (const Tensor& y : ys) profile::note_output(y);
  const autograd::TensorRef input(a);
  if (autograd::wants_record(&input, 1)) {
    auto backward = make_backward();
    const auto closure = [backward](const Tensors& dys, const Needs&) {
      return Tensors{backward(dys)};
    };
    autograd::attach_all(
        ys, &input, 1,
        autograd::NodePtr(new autograd::ClosureNode<std::decay_t<decltype(closure)>>(op, closure)));
  } else if (inference_enabled()) {
    for (const Tensor& y : ys) y.impl().inference = true;
  }
}

Tensor skew(const Tensor& x) { return sub(x, transposed(x)); }

/// a + b, where one of them may be undefined.
Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return add(a, b);
}

/// d[j] - d[i] at [i,j], and 1 on the diagonal.
Tensor gaps(const Tensor& d) {
  const Tensor differences = sub(unsqueeze(d, -2), unsqueeze(d, -1));
  return add(differences, eye(d.dim(-1), d.options()));
}

/// dA of a = q r with m >= n, or with q and r square (Walter and Lehmann 2010, arXiv:1001.1654).
Tensor tall_qr_gradient(const Tensor& dq, const Tensor& dr, const Tensor& q, const Tensor& r) {
  Tensor m;  // r dr^T - dq^T q
  if (dr.defined()) m = matmul(r, transposed(dr));
  if (dq.defined()) m = sum_of(m, neg(matmul(transposed(dq), q)));
  const Tensor symmetric = add(tril(m), transposed(tril(m, -1)));
  const Tensor inner = sum_of(dq, matmul(q, symmetric));
  return solve_triangular(transposed(r), inner, {.left = false});
}

Tensor qr_gradient(const Tensor& dq, const Tensor& dr, const Tensor& q, const Tensor& r) {
  const int64_t m = q.dim(-2), n = r.dim(-1);
  if (m >= n) return tall_qr_gradient(dq, dr, q, r);
  // a = [x y], r = [s t]: x = q s, and y = q t, so t = q^T y.
  const auto part = [&](const Tensor& t, bool first) {
    if (!t.defined()) return t;
    return first ? narrow(t, -1, 0, m) : narrow(t, -1, m, n - m);
  };
  const Tensor dt = part(dr, false);
  Tensor through_t, dy = zeros_like(part(r, false));
  if (dt.defined()) {
    through_t = matmul(matmul(q, part(r, false)), transposed(dt));
    dy = matmul(q, dt);
  }
  const Tensor dx = tall_qr_gradient(sum_of(dq, through_t), part(dr, true), q, part(r, true));
  return cat({dx, dy}, -1);
}

/// dA of a = u diag(s) vh, with k columns of u and rows of vh.
Tensor svd_gradient(const Tensor& du, const Tensor& ds, const Tensor& dvh, const Tensor& u,
                    const Tensor& s, const Tensor& vh) {
  const Tensor columns = unsqueeze(s, -2), rows = unsqueeze(s, -1);  // times each column, each row
  const int64_t m = u.dim(-2), n = vh.dim(-1), k = s.dim(-1);
  Tensor inner;
  if (ds.defined()) inner = diag_embed(ds);
  if (du.defined() || dvh.defined()) {
    const Tensor gap = gaps(square(s));
    if (du.defined()) {
      inner = sum_of(inner, mul(div(skew(matmul(transposed(u), du)), gap), columns));
    }
    if (dvh.defined()) {
      inner = sum_of(inner, mul(rows, div(skew(matmul(vh, transposed(dvh))), gap)));
    }
  }
  Tensor da = matmul(matmul(u, inner), vh);
  if (du.defined() && m > k) {
    const Tensor outside = sub(du, matmul(u, matmul(transposed(u), du)));
    da = add(da, matmul(div(outside, columns), vh));
  }
  if (dvh.defined() && n > k) {
    const Tensor outside = sub(dvh, matmul(matmul(dvh, transposed(vh)), vh));
    da = add(da, matmul(u, div(outside, rows)));
  }
  return da;
}

Tensor eigh_gradient(const Tensor& dw, const Tensor& dv, const Tensor& w, const Tensor& v) {
  Tensor inner;
  if (dw.defined()) inner = diag_embed(dw);
  if (dv.defined()) {
    const Tensor turned = matmul(transposed(v), dv);
    const Tensor mixed = div(turned, gaps(w));
    const Tensor own = diag_embed(diagonal(mixed, {.dim1 = -2, .dim2 = -1}));
    inner = sum_of(inner, sub(mixed, own));
  }
  const Tensor da = matmul(matmul(v, inner), transposed(v));
  return mul(add(da, transposed(da)), 0.5);
}

}  // namespace

Qr qr(const Tensor& a_in, const QrOptions& opt) {
  const profile::OpRange range("qr", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_matrices("qr", a);
  const int64_t m = a.dim(-2), n = a.dim(-1), k = opt.complete ? m : std::min(m, n);
  const Tensor matrices = to_kernel(a);
  const Tensor q = result_for(matrices, {m, k}), r = result_for(matrices, {k, n});
  cpu::batched_qr(q, r, matrices);
  const Qr y{from_kernel(q, a), from_kernel(r, a)};
  record_all("qr", {y.q, y.r}, a, [&] {
    return [q = SavedOutput(y.q, 0), r = SavedOutput(y.r, 1)](const Tensors& dys) {
      const Tensor q_out = q.get(), r_out = r.get();
      LATHE_CHECK(ValueError, q_out.dim(-1) <= r_out.dim(-1),
                  "qr: there is no gradient with complete and more rows than columns (q: ", q_out,
                  ", r: ", r_out, ")");
      return qr_gradient(dys[0], dys[1], q_out, r_out);
    };
  });
  return y;
}

Svd svd(const Tensor& a_in, const SvdOptions& opt) {
  const profile::OpRange range("svd", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_matrices("svd", a);
  const int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
  const Tensor matrices = to_kernel(a);
  LATHE_CHECK(ValueError, all(isfinite(matrices)).item<bool>(),
              "svd: expected finite elements (a: ", a, ")");
  const Tensor u = result_for(matrices, {m, opt.full_matrices ? m : k});
  const Tensor s = result_for(matrices, {k});
  const Tensor vh = result_for(matrices, {opt.full_matrices ? n : k, n});
  cpu::batched_svd(u, s, vh, matrices);
  const Svd y{from_kernel(u, a), from_kernel(s, a), from_kernel(vh, a)};
  record_all("svd", {y.u, y.s, y.vh}, a, [&] {
    return [k, u = SavedOutput(y.u, 0), s = SavedOutput(y.s, 1),
            vh = SavedOutput(y.vh, 2)](const Tensors& dys) {
      const auto first = [k](const Tensor& t, int64_t dim) {
        return t.defined() ? narrow(t, dim, 0, k) : t;
      };
      return svd_gradient(first(dys[0], -1), dys[1], first(dys[2], -2), first(u.get(), -1), s.get(),
                          first(vh.get(), -2));
    };
  });
  return y;
}

Eigh eigh(const Tensor& a_in, const EighOptions& opt) {
  const profile::OpRange range("eigh", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_square("eigh", a);
  const int64_t n = a.dim(-1);
  const Tensor matrices = to_kernel(opt.upper ? transposed(a) : a);
  const Tensor w = result_for(matrices, {n}), v = result_for(matrices, {n, n});
  cpu::batched_eigh(w, v, matrices);
  const Eigh y{from_kernel(w, a), from_kernel(v, a)};
  record_all("eigh", {y.eigenvalues, y.eigenvectors}, a, [&] {
    return [w = SavedOutput(y.eigenvalues, 0), v = SavedOutput(y.eigenvectors, 1)](
               const Tensors& dys) { return eigh_gradient(dys[0], dys[1], w.get(), v.get()); };
  });
  return y;
}

Tensor svdvals(const Tensor& a_in) {
  const profile::OpRange range("svdvals", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_finite("svdvals", a);
  return svd(a, {.full_matrices = false}).s;
}

Tensor eigvalsh(const Tensor& a_in, const EighOptions& opt) {
  const profile::OpRange range("eigvalsh", {a_in});
  const Tensor a = amp::cast(amp::kFloat, a_in);
  check_square("eigvalsh", a);
  return eigh(a, opt).eigenvalues;
}

}  // namespace lathe::linalg
