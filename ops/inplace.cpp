// In-place ops. Where nothing is recorded they write straight into x. Otherwise they compute the
// new value by an ordinary op, and x takes it over with its history. Contracts: inplace.h.
#include "lathe/ops/inplace.h"

#include "lathe/autograd/meta.h"
#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/strided_adjoint.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::check_in_place;
using autograd::meta_of;
using autograd::Needs;

namespace {

/// The base of a view gets a new history: its old values, with the view's part replaced by `value`.
void record_base_write(const Tensor& base, const Tensor& view, const Tensor& value) {
  const autograd::TensorRef inputs[] = {base, value};
  if (!autograd::wants_record(inputs, 2)) return;
  auto backward = [whole = geometry_of(base), part = geometry_of(view)](const Tensor& dy,
                                                                        const Needs& need) {
    Tensor d_base, d_value;
    const Tensor seen = gather_strided(dy, whole, part);
    if (need[0]) d_base = sub(dy, scatter_strided(seen, part, whole));
    if (need[1]) d_value = seen;
    return Tensors{d_base, d_value};
  };
  using Node = autograd::ClosureNode<decltype(backward)>;
  autograd::attach(base, inputs, 2, autograd::NodePtr(new Node("write_view", std::move(backward))));
}

/// x's values were replaced by those of `value`. So is its history, and that of the tensor it
/// views.
void take_history(const Tensor& x, const Tensor& value) {
  if (!grad_enabled()) return;
  const IntrusivePtr<TensorImpl> base = x.impl().base;
  const bool base_tracked = base && Tensor(base).requires_grad();
  if (!value.requires_grad() && !x.requires_grad() && !base_tracked) return;
  if (base) {
    record_base_write(Tensor(base), x, value);
    ++meta_of(Tensor(base)).history;  // every view of it, x too, now takes its history from there
    return;
  }
  if (value.requires_grad()) {
    autograd::record("assign", x, {value},
                     [](const Tensor& dy, const Needs&) { return Tensors{dy}; });
  } else {
    autograd::set_maker(x, {});
  }
  ++meta_of(x).history;  // last: `value` may be a view of x, with the history before the write
}

void check_number_dtype(const char* op, const Tensor& x) {
  LATHE_CHECK(DTypeError, x.dtype() != kBool, op, ": not defined for bool (x: ", x, ")");
}

/// Checks shape, dtype and device before a binary in-place op writes.
void check_operand(const char* op, const Tensor& x, const Tensor& other, bool floating) {
  check_in_place(op, x);
  LATHE_CHECK(ShapeError, broadcast_shapes(op, x.shape(), other.shape()) == x.shape(), op, ": ",
              other.shape(), " does not broadcast to x's shape ", x.shape(), " (x: ", x,
              ", other: ", other, ")");
  check_number_dtype(op, x);
  const int category = floating ? 2 : category_of(other.dtype());
  LATHE_CHECK(DTypeError, category <= category_of(x.dtype()), op, ": the result does not fit ",
              x.dtype(), " (x: ", x, ", other: ", other, ")");
}

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

/// The dtype in which x and `other` are computed: the promoted one, and f32 for half types, so that
/// the operand is not rounded first.
DType joint_dtype(const Tensor& x, const Tensor& other) {
  return compute_dtype(result_dtype(x, other));
}

const Tensor& binary_(const char* name, BinaryOp op, BinaryFunction function, const Tensor& x,
                      const Tensor& other_in) {
  const profile::OpRange range(name, {x, other_in});
  check_operand(name, x, other_in, op == BinaryOp::kDiv);
  const DType wide = joint_dtype(x, other_in);
  if (other_in.dtype() != x.dtype() && wide != x.dtype()) {
    return assign_(name, x, cast(function(cast(x, wide), cast(other_in, wide)), x.dtype()));
  }
  if (autograd::wants_record_in_place(x, {other_in})) {
    // The op may save x for other's gradient, so it gets a copy that the write below does not
    // change.
    const Tensor before = other_in.requires_grad() ? clone(x) : x;
    return assign_(name, x, cast(function(before, other_in), x.dtype()));
  }
  Tensor other = cast(other_in, x.dtype());
  const bool same_place = other.is_same(x);
  if (!same_place && other.shares_storage(x)) other = clone(other);
  LATHE_DISPATCH(x.device(), binary(op, x, x, other));
  profile::note_output(x);
  x.bump_version();
  profile::raise_found();
  return x;
}

Tensor number_for(const Tensor& x, Scalar value) {
  const bool raises = category_of(value.dtype()) > category_of(x.dtype());
  const DType dtype = raises ? value.dtype() : compute_dtype(x.dtype());
  const Tensor t = empty({}, {.dtype = dtype});
  fill_values(t, value);
  return t;
}

/// Unary in-place ops. The ops used here save their output, never x.
const Tensor& unary_(const char* name, UnaryOp op, Tensor (*function)(const Tensor&),
                     const Tensor& x) {
  const profile::OpRange range(name, {x});
  check_in_place(name, x);
  check_number_dtype(name, x);
  LATHE_CHECK(DTypeError, is_floating(x.dtype()) || op <= UnaryOp::kRelu, name,
              ": the result does not fit ", x.dtype(), " (x: ", x, ")");
  if (autograd::wants_record_in_place(x, {})) return assign_(name, x, function(x));
  LATHE_DISPATCH(x.device(), unary(op, x, x, UnaryParams{}));
  profile::note_output(x);
  x.bump_version();
  profile::raise_found();
  return x;
}

}  // namespace

const Tensor& assign_(const char* op, const Tensor& x, const Tensor& value) {
  const profile::OpRange range("assign_", {x, value});
  check_in_place(op, x);
  LATHE_CHECK(ShapeError, value.shape() == x.shape() && value.dtype() == x.dtype(), op, ": value ",
              value, " does not match x ", x);
  {
    const NoGrad off;
    const bool overlaps = value.shares_storage(x) && !value.is_same(x);
    copy_values(x, overlaps ? clone(value) : value);
  }
  x.bump_version();
  take_history(x, value);
  return x;
}

/// alpha * other, in the dtype of the sum; of half types in f32, so that the sum is rounded once.
static Tensor multiple(const char* op, const Tensor& x, const Tensor& other, Scalar alpha) {
  if (alpha.to<double>() == 1.0) return other;
  check_operand(op, x, other, /*floating=*/false);
  const DType dtype = result_dtype(x, other);
  LATHE_CHECK(DTypeError, category_of(alpha.dtype()) <= category_of(dtype), op, ": alpha ", alpha,
              " does not fit ", dtype, " (x: ", x, ", other: ", other, ")");
  check_holds(op, dtype, alpha);
  return mul(cast(other, compute_dtype(dtype)), alpha);
}

const Tensor& add_(const Tensor& x, const Tensor& other, Scalar alpha) {
  return binary_("add_", BinaryOp::kAdd, add, x, multiple("add_", x, other, alpha));
}
const Tensor& sub_(const Tensor& x, const Tensor& other, Scalar alpha) {
  return binary_("sub_", BinaryOp::kSub, sub, x, multiple("sub_", x, other, alpha));
}
const Tensor& mul_(const Tensor& x, const Tensor& other) {
  return binary_("mul_", BinaryOp::kMul, mul, x, other);
}
const Tensor& div_(const Tensor& x, const Tensor& other) {
  return binary_("div_", BinaryOp::kDiv, div, x, other);
}
const Tensor& div_(const Tensor& x, const Tensor& other, DivOptions options) {
  if (options.rounding_mode == RoundingMode::kNone) return div_(x, other);
  const profile::OpRange range("div_", {x, other});
  check_operand("div_", x, other, /*floating=*/false);
  const DType wide = joint_dtype(x, other);
  return assign_("div_", x, cast(div(cast(x, wide), cast(other, wide), options), x.dtype()));
}
const Tensor& add_(const Tensor& x, Scalar value) { return add_(x, number_for(x, value)); }
const Tensor& sub_(const Tensor& x, Scalar value) { return sub_(x, number_for(x, value)); }
const Tensor& mul_(const Tensor& x, Scalar value) { return mul_(x, number_for(x, value)); }
const Tensor& div_(const Tensor& x, Scalar value) { return div_(x, number_for(x, value)); }

const Tensor& copy_(const Tensor& x, const Tensor& source) {
  const profile::OpRange range("copy_", {x, source});
  check_in_place("copy_", x);
  LATHE_CHECK(ShapeError, broadcast_shapes("copy_", x.shape(), source.shape()) == x.shape(),
              "copy_: ", source.shape(), " does not broadcast to x's shape ", x.shape(), " (x: ", x,
              ", source: ", source, ")");
  if (autograd::wants_record_in_place(x, {source})) {
    return assign_("copy_", x, expand(cast(to_device(source, x.device()), x.dtype()), x.shape()));
  }
  copy_values(x, source.shares_storage(x) && !source.is_same(x) ? clone(source) : source);
  x.bump_version();
  return x;
}

static const Tensor& fill(const char* op, const Tensor& x, Scalar value) {
  const profile::OpRange range(op, {x});
  check_in_place(op, x);
  check_holds(op, x.dtype(), value);
  if (autograd::wants_record_in_place(x, {})) {
    const Tensor filled = empty_like(x);
    fill_values(filled, value);
    return assign_(op, x, filled);
  }
  fill_values(x, value);
  x.bump_version();
  return x;
}
const Tensor& fill_(const Tensor& x, Scalar value) { return fill("fill_", x, value); }
const Tensor& zero_(const Tensor& x) { return fill("zero_", x, 0); }

/// The end of both forms of clamp_.
static const Tensor& take_clamped(const Tensor& x, const Tensor& y) {
  LATHE_CHECK(DTypeError, category_of(y.dtype()) <= category_of(x.dtype()),
              "clamp_: the result does not fit ", x.dtype(), " (x: ", x, ")");
  return assign_("clamp_", x, cast(y, x.dtype()));
}

const Tensor& clamp_(const Tensor& x, const ClampOptions& options) {
  const profile::OpRange range("clamp_", {x});
  check_in_place("clamp_", x);
  check_number_dtype("clamp_", x);
  const bool record = autograd::wants_record_in_place(x, {});
  return take_clamped(x, clamp(record ? clone(x) : x, options));  // clamp saves its input
}

const Tensor& clamp_(const Tensor& x, const Tensor& low, const Tensor& high) {
  const profile::OpRange range("clamp_", {x, low, high});
  check_in_place("clamp_", x);
  check_number_dtype("clamp_", x);
  const bool record = autograd::wants_record_in_place(x, {low, high});
  return take_clamped(x, clamp(record ? clone(x) : x, low, high));
}

// clang-format off
const Tensor& neg_(const Tensor& x)     { return unary_("neg_", UnaryOp::kNeg, neg, x); }
const Tensor& exp_(const Tensor& x)     { return unary_("exp_", UnaryOp::kExp, exp, x); }
const Tensor& sqrt_(const Tensor& x)    { return unary_("sqrt_", UnaryOp::kSqrt, sqrt, x); }
const Tensor& tanh_(const Tensor& x)    { return unary_("tanh_", UnaryOp::kTanh, tanh, x); }
const Tensor& sigmoid_(const Tensor& x) { return unary_("sigmoid_", UnaryOp::kSigmoid, sigmoid, x); }
const Tensor& relu_(const Tensor& x)    { return unary_("relu_", UnaryOp::kRelu, relu, x); }
// clang-format on

}  // namespace lathe
