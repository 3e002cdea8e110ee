// The common dtype and device of several operands: PyTorch's rules of promotion. Contracts:
// promote.h.
#include "lathe/ops/promote.h"

#include <cmath>
#include <limits>

#include "lathe/core/copy.h"
#include "lathe/core/visit.h"
#include "lathe/ops/cast.h"

namespace lathe {

DType result_dtype(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return a.dtype();
  if ((a.ndim() == 0) == (b.ndim() == 0)) return promote_types(a.dtype(), b.dtype());
  const Tensor& full = a.ndim() == 0 ? b : a;
  const Tensor& number = a.ndim() == 0 ? a : b;
  return category_of(number.dtype()) > category_of(full.dtype()) ? number.dtype() : full.dtype();
}

Tensor scalar_like(Scalar value, const Tensor& a) {
  const bool raises = category_of(value.dtype()) > category_of(a.dtype());
  const DType dtype = !raises ? a.dtype() : value.is_floating() ? default_dtype() : value.dtype();
  Tensor t = empty({}, {.dtype = dtype});
  fill_values(t, value);
  return t;
}

Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, default_dtype()); }

void check_holds(const char* op, DType dtype, Scalar value) {
  if (!is_integer(dtype)) return;
  const bool holds = visit_integer(dtype, op, [&]<class T>(TypeTag<T>) {
    using Limits = std::numeric_limits<T>;
    if (value.is_floating()) {  // 2^63 itself is no i64: the last number and 1 are compared
      const double whole = std::trunc(value.to<double>());
      return whole >= static_cast<double>(Limits::lowest()) &&
             whole < static_cast<double>(Limits::max()) + 1;
    }
    const int64_t last = static_cast<int64_t>(Limits::max()), whole = value.to<int64_t>();
    const bool is_signed = std::is_signed_v<T>;
    return whole <= last && whole >= (is_signed ? int64_t{Limits::lowest()} : -last);
  });
  LATHE_CHECK(ValueError, holds, op, ": ", value, " is outside the range of ", dtype);
}

void check_number(const char* op, Scalar value, const Tensor& x) {
  LATHE_CHECK(DTypeError, category_of(value.dtype()) <= category_of(x.dtype()), op, ": ", value,
              " does not fit ", x.dtype(), " (x: ", x, ")");
  check_holds(op, x.dtype(), value);
}

void check_operands(const char* op, OperandDType kind, const char* a_name, const Tensor& a,
                    const char* b_name, const Tensor& b) {
  const bool floating = kind == OperandDType::kFloating;
  const bool fits = floating ? is_floating(a.dtype()) : a.dtype() != kBool;
  LATHE_CHECK(DTypeError, fits && a.dtype() == b.dtype(), op, ": ", a_name, " and ", b_name,
              " must have one ", floating ? "floating" : "number", " dtype (", a_name, ": ", a,
              ", ", b_name, ": ", b, ")");
  LATHE_CHECK(DeviceError, a.device() == b.device(), op, ": ", a_name, " and ", b_name,
              " must be on one device (", a_name, ": ", a, ", ", b_name, ": ", b, ")");
}

void check_devices(const char* op, const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return;
  const auto is_cpu_number = [](const Tensor& t) { return t.ndim() == 0 && t.device().is_cpu(); };
  LATHE_CHECK(DeviceError, is_cpu_number(a) || is_cpu_number(b), op,
              ": the operands are on different devices (a: ", a, ", b: ", b, ")");
}

}  // namespace lathe
