// New tensors. Contracts: creation.h. Values are written on the host or by core/copy; no op has a
// gradient.
#include "lathe/ops/creation.h"

#include <cmath>

#include "lathe/core/copy.h"

namespace lathe {

namespace {

Tensor filled(Tensor t, Scalar value, bool requires_grad = false) {
  fill_values(t, value);
  if (requires_grad) t.requires_grad_();
  return t;
}

DType natural_dtype(Scalar value) { return value.is_floating() ? default_dtype() : value.dtype(); }

/// `count` values of f64 or i64, moved to the wanted dtype and device.
template <class T>
Tensor from_host(const std::vector<T>& values, const TensorOptions& options, DType natural) {
  TensorOptions complete = options;
  complete.dtype = options.dtype.value_or(natural);
  return detail::from_values(values.data(), values.size(), dtype_of<T>,
                             {static_cast<int64_t>(values.size())}, complete);
}

}  // namespace

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  return filled(empty(shape, options), 0, options.requires_grad);
}
Tensor ones(const Shape& shape, const TensorOptions& options) {
  return filled(empty(shape, options), 1, options.requires_grad);
}
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  TensorOptions complete = options;
  complete.dtype = options.dtype.value_or(natural_dtype(value));
  return filled(empty(shape, complete), value, options.requires_grad);
}
Tensor zeros_like(const Tensor& like) { return filled(empty_like(like), 0); }
Tensor ones_like(const Tensor& like) { return filled(empty_like(like), 1); }
Tensor full_like(const Tensor& like, Scalar value) { return filled(empty_like(like), value); }

Tensor arange(Scalar stop, const TensorOptions& options) { return arange(0, stop, 1, options); }

Tensor arange(Scalar start, Scalar stop, Scalar step, const TensorOptions& options) {
  const double first = start.to<double>(), last = stop.to<double>(), by = step.to<double>();
  LATHE_CHECK(ValueError,
              std::isfinite(first) && std::isfinite(last) && std::isfinite(by) && by != 0,
              "arange: start ", start, ", stop ", stop, " and step ", step,
              " must be finite, and step not 0");
  LATHE_CHECK(ValueError, (last - first) * by >= 0, "arange: step ", step, " leads from ", start,
              " away from ", stop);
  const double steps = std::ceil((last - first) / by);
  LATHE_CHECK(ShapeError, steps < 9e15, "arange: ", steps, " elements are too many");
  const auto count = static_cast<int64_t>(steps);
  if (!start.is_floating() && !stop.is_floating() && !step.is_floating()) {
    std::vector<int64_t> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      values[static_cast<size_t>(i)] = start.to<int64_t>() + i * step.to<int64_t>();
    }
    return from_host(values, options, kI64);
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = first + static_cast<double>(i) * by;
  }
  return from_host(values, options, default_dtype());
}

Tensor linspace(double start, double stop, int64_t count, const TensorOptions& options) {
  LATHE_CHECK(ValueError, count >= 0, "linspace: count must not be negative, got ", count);
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    // From the nearer end, so that both ends are exact.
    const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
    values[static_cast<size_t>(i)] = i < count / 2 + count % 2
                                         ? start + step * static_cast<double>(i)
                                         : stop - step * static_cast<double>(count - 1 - i);
  }
  return from_host(values, options, default_dtype());
}

Tensor eye(int64_t rows, const TensorOptions& options) { return eye(rows, rows, options); }

Tensor eye(int64_t rows, int64_t columns, const TensorOptions& options) {
  const Tensor t = filled(empty({rows, columns}, options), 0);
  const int64_t n = std::min(rows, columns);
  if (n > 0) fill_values(alias(t, {n}, {columns + 1}, t.offset()), 1);
  if (options.requires_grad) t.requires_grad_();
  return t;
}

namespace detail {

Tensor from_values(const void* values, size_t count, DType dtype, const Shape& shape,
                   const TensorOptions& options) {
  const Tensor out =
      empty(shape, {.dtype = options.dtype.value_or(dtype), .device = options.device});
  if (count > 0) copy_values(out, from_blob(const_cast<void*>(values), shape, dtype));
  if (options.requires_grad) out.requires_grad_();
  return out;
}

void check_row_length(size_t expected, size_t got) {
  LATHE_CHECK(ShapeError, expected == got, "tensor: rows differ in length: ", expected, " and ",
              got);
}

}  // namespace detail

}  // namespace lathe
