// Matrix products: checks, shapes, gradients. One recorded op multiplies matrices, or batches of
// the same size; everything else is views around it. Contracts: matmul.h.
#include "lathe/ops/matmul.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::record;
using autograd::Saved;

namespace {

/// Operations of a product whose left side has `elements` and whose result has `columns`.
double flops_of(int64_t elements, int64_t columns) {
  return 2.0 * static_cast<double>(elements) * static_cast<double>(columns);
}

/// Checks the number of terms: a's last dimension must equal b's last but one, or only one.
void check_inner(const char* op, const Tensor& a, const Tensor& b) {
  const int64_t terms = b.dim(b.ndim() == 1 ? 0 : -2);
  LATHE_CHECK(ShapeError, a.dim(-1) == terms, op, ": a has ", a.dim(-1), " columns but b has ",
              terms, " rows (a: ", a, ", b: ", b, ")");
}

Tensor multiply(const Tensor& a, const Tensor& b);

/// The same as an op of its own, for gradients.
Tensor product(const Tensor& a, const Tensor& b) {
  const profile::OpRange range("matmul", {a, b});
  return multiply(a, b);
}

/// Multiplies matrices, or batches of the same size.
Tensor multiply(const Tensor& a, const Tensor& b) {
  profile::note_flops([&] { return flops_of(a.numel(), b.dim(-1)); });
  Tensor y = LATHE_DISPATCH(a.device(), matmul(a, b));
  record("matmul", y, {a, b}, [a = Saved(a), b = Saved(b)](const Tensor& dy, const Needs& need) {
    Tensor da, db;
    if (need[0]) da = product(dy, transpose(b.get(), -2, -1));
    if (need[1]) db = product(transpose(a.get(), -2, -1), dy);
    return Tensors{da, db};
  });
  return y;
}

Shape batch_of(const Tensor& t) {
  Shape batch = t.shape();
  while (batch.size() > t.ndim() - 2) batch.erase(batch.size() - 1);
  return batch;
}

Shape with_matrix(Shape batch, int64_t rows, int64_t cols) {
  batch.push_back(rows);
  batch.push_back(cols);
  return batch;
}

/// t's batch dimensions broadcast to `batch` and then merged into one.
Tensor as_batch(const Tensor& t, const Shape& batch) {
  const Tensor broad = expand(t, with_matrix(batch, t.dim(-2), t.dim(-1)));
  return reshape(broad, {numel_of(batch), t.dim(-2), t.dim(-1)});
}

/// Multiplies tensors of 2 dimensions or more; their batch dimensions broadcast.
Tensor multiply_broadcast(const Tensor& a, const Tensor& b) {
  if (a.ndim() == 2 && b.ndim() == 2) return multiply(a, b);
  const int64_t rows = a.dim(-2), cols = b.dim(-1);
  if (b.ndim() == 2) {  // one matrix for all of a: its rows are one long matrix
    const Shape batch = batch_of(a);
    const Tensor y = multiply(reshape(a, {numel_of(batch) * rows, a.dim(-1)}), b);
    return view(y, with_matrix(batch, rows, cols));
  }
  const Shape batch = broadcast_shapes("matmul", batch_of(a), batch_of(b));
  return view(multiply(as_batch(a, batch), as_batch(b, batch)), with_matrix(batch, rows, cols));
}

}  // namespace

Tensor matmul(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("matmul", {a_in, b_in});
  const auto [a, b] = amp::cast(amp::kHalf, a_in, b_in);
  check_operands("matmul", OperandDType::kNumber, "a", a, "b", b);
  LATHE_CHECK(ShapeError, a.ndim() > 0 && b.ndim() > 0,
              "matmul: a and b must have at least one dimension (a: ", a, ", b: ", b, ")");
  check_inner("matmul", a, b);
  Tensor y =
      multiply_broadcast(a.ndim() == 1 ? unsqueeze(a, 0) : a, b.ndim() == 1 ? unsqueeze(b, 1) : b);
  if (b.ndim() == 1) y = squeeze(y, -1);
  if (a.ndim() == 1) y = squeeze(y, b.ndim() == 1 ? -1 : -2);
  return y;
}

Tensor bmm(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("bmm", {a_in, b_in});
  const auto [a, b] = amp::cast(amp::kHalf, a_in, b_in);
  check_operands("bmm", OperandDType::kNumber, "a", a, "b", b);
  LATHE_CHECK(ShapeError, a.ndim() == 3 && b.ndim() == 3 && a.dim(0) == b.dim(0),
              "bmm: a and b must be [B,m,k] and [B,k,n] (a: ", a, ", b: ", b, ")");
  check_inner("bmm", a, b);
  return multiply(a, b);
}

Tensor mm(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("mm", {a_in, b_in});
  const auto [a, b] = amp::cast(amp::kHalf, a_in, b_in);
  check_operands("mm", OperandDType::kNumber, "a", a, "b", b);
  LATHE_CHECK(ShapeError, a.ndim() == 2 && b.ndim() == 2,
              "mm: a and b must be [m,k] and [k,n] (a: ", a, ", b: ", b, ")");
  check_inner("mm", a, b);
  return matmul(a, b);
}

Tensor mv(const Tensor& a_in, const Tensor& x_in) {
  const profile::OpRange range("mv", {a_in, x_in});
  const auto [a, x] = amp::cast(amp::kHalf, a_in, x_in);
  check_operands("mv", OperandDType::kNumber, "a", a, "x", x);
  LATHE_CHECK(ShapeError, a.ndim() == 2 && x.ndim() == 1,
              "mv: a and x must be [m,k] and [k] (a: ", a, ", x: ", x, ")");
  check_inner("mv", a, x);
  return matmul(a, x);
}

/// addmm and baddbmm after their casts; a and b have `ndim` dimensions.
static Tensor add_product(const char* op, int ndim, const Tensor& input, const Tensor& a,
                          const Tensor& b, const AddmmOptions& opt) {
  check_operands(op, OperandDType::kNumber, "a", a, "b", b);
  check_operands(op, OperandDType::kNumber, "input", input, "a", a);
  LATHE_CHECK(ShapeError,
              a.ndim() == ndim && b.ndim() == ndim && (ndim == 2 || a.dim(0) == b.dim(0)), op,
              ndim == 2 ? ": a and b must be [m,k] and [k,n] (a: "
                        : ": a and b must be [B,m,k] and [B,k,n] (a: ",
              a, ", b: ", b, ")");
  check_inner(op, a, b);
  Shape shape = a.shape();
  shape[ndim - 1] = b.dim(-1);
  LATHE_CHECK(ShapeError, broadcast_shapes(op, input.shape(), shape) == shape, op,
              ": input does not broadcast to ", shape, " (input: ", input, ")");
  for (const Scalar& factor : {opt.beta, opt.alpha}) {
    check_number(op, factor, a);
  }
  const auto times = [](const Tensor& t, Scalar factor) {
    return factor.to<double>() == 1.0 ? t : mul(t, factor);
  };
  const Tensor product = times(multiply(a, b), opt.alpha);
  return opt.beta.to<double>() == 0.0 ? product : add(product, times(input, opt.beta));
}

Tensor addmm(const Tensor& input_in, const Tensor& a_in, const Tensor& b_in,
             const AddmmOptions& opt) {
  const profile::OpRange range("addmm", {input_in, a_in, b_in});
  const auto [input, a, b] = amp::cast(amp::kHalf, input_in, a_in, b_in);
  return add_product("addmm", 2, input, a, b, opt);
}

Tensor baddbmm(const Tensor& input_in, const Tensor& a_in, const Tensor& b_in,
               const AddmmOptions& opt) {
  const profile::OpRange range("baddbmm", {input_in, a_in, b_in});
  const auto [input, a, b] = amp::cast(amp::kHalf, input_in, a_in, b_in);
  return add_product("baddbmm", 3, input, a, b, opt);
}

Tensor linear(const Tensor& x_in, const Tensor& w_in, const Tensor& bias_in) {
  const profile::OpRange range("linear", {x_in, w_in, bias_in});
  const auto [x, w, bias] = amp::cast(amp::kHalf, x_in, w_in, bias_in);
  check_operands("linear", OperandDType::kFloating, "x", x, "w", w);
  LATHE_CHECK(ShapeError, x.ndim() > 0 && w.ndim() == 2 && x.dim(-1) == w.dim(1),
              "linear: x must be [...,in] and w [out,in] (x: ", x, ", w: ", w, ")");
  if (bias.defined()) {
    check_operands("linear", OperandDType::kFloating, "bias", bias, "w", w);
    LATHE_CHECK(ShapeError, bias.shape() == Shape{w.dim(0)}, "linear: bias must be [", w.dim(0),
                "] (bias: ", bias, ", w: ", w, ")");
  }
  if (x.ndim() != 2) {
    Shape y_shape = x.shape();
    y_shape[x.ndim() - 1] = w.dim(0);
    int64_t rows = 1;
    for (int i = 0; i + 1 < x.ndim(); ++i) rows *= x.shape()[i];
    return view(linear(reshape(x, {rows, x.dim(-1)}), w, bias), y_shape);
  }

  profile::note_flops([&] { return flops_of(x.numel(), w.dim(0)); });
  Tensor y = LATHE_DISPATCH(x.device(), linear(x, w, bias));
  const auto gradient = [x = Saved(x), w = Saved(w)](const Tensor& dy, const Needs& need) {
    Tensor dx, dw, db;
    if (need[0]) dx = product(dy, w.get());
    if (need[1] && need[2] && !grad_enabled()) {  // in one pass over dy, where there is one
      profile::note_flops([&] { return flops_of(dy.numel(), w.get().dim(1)); });
      const LinearParamGrads both = LATHE_DISPATCH(dy.device(), linear_param_grads(dy, x.get()));
      return Tensors{dx, both.dw, both.db};
    }
    if (need[1]) dw = product(transpose(dy, 0, 1), x.get());
    if (need[2]) db = sum(dy, {0});
    return Tensors{dx, dw, db};
  };
  if (bias.defined()) {
    record("linear", y, {x, w, bias}, gradient);
  } else {
    record("linear", y, {x, w}, gradient);
  }
  return y;
}

}  // namespace lathe
