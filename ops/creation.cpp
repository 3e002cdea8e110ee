// New tensors. Contracts: creation.h; kernels: elementwise_kernels/creation_cpu.cpp,
// creation_cuda.cu and core/copy. No op has a gradient.
#include "lathe/ops/creation.h"

#include <cmath>
#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/promote.h"

namespace lathe {

namespace {

Tensor filled(const char* op, Tensor t, Scalar value, bool requires_grad = false) {
  check_holds(op, t.dtype(), value);
  fill_values(t, value);
  profile::note_output(t);
  profile::raise_found();
  if (requires_grad) t.requires_grad_();
  return t;
}

DType natural_dtype(Scalar value) { return value.is_floating() ? default_dtype() : value.dtype(); }

/// The first `count` numbers of a sequence.
template <class Sequence>
Tensor generated(int64_t count, const TensorOptions& options, DType natural, Sequence sequence) {
  const Tensor out =
      empty({count}, {.dtype = options.dtype.value_or(natural), .device = options.device});
  LATHE_DISPATCH(options.device, fill_sequence(out, sequence));
  profile::note_output(out);
  profile::raise_found();
  if (options.requires_grad) out.requires_grad_();
  return out;
}

/// The integers from `first` on, below `last` (above it for a negative step); exact over all of
/// i64.
Tensor integer_range(int64_t first, int64_t last, int64_t step, const TensorOptions& options) {
  LATHE_CHECK(ValueError, step != 0, "arange: step must not be 0");
  LATHE_CHECK(ValueError, step > 0 ? first <= last : first >= last, "arange: step ", step,
              " leads from ", first, " away from ", last);
  // Distances need all 64 bits; unsigned differences and products wrap to the right value.
  const auto start = static_cast<uint64_t>(first), by = static_cast<uint64_t>(step);
  const uint64_t distance =
      step > 0 ? static_cast<uint64_t>(last) - start : start - static_cast<uint64_t>(last);
  const uint64_t stride = step > 0 ? by : 0 - by;
  const uint64_t count = distance / stride + (distance % stride != 0 ? 1 : 0);
  LATHE_CHECK(ShapeError, std::in_range<int64_t>(count), "arange: ", count,
              " elements are too many");
  return generated(static_cast<int64_t>(count), options, kI64, math::IntegerSequence{start, by});
}

}  // namespace

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  const profile::DeviceRange range("zeros", options.device);
  return filled("zeros", empty(shape, options), 0, options.requires_grad);
}
Tensor ones(const Shape& shape, const TensorOptions& options) {
  const profile::DeviceRange range("ones", options.device);
  return filled("ones", empty(shape, options), 1, options.requires_grad);
}
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  const profile::DeviceRange range("full", options.device);
  TensorOptions complete = options;
  complete.dtype = options.dtype.value_or(natural_dtype(value));
  return filled("full", empty(shape, complete), value, options.requires_grad);
}
Tensor zeros_like(const Tensor& like) {
  const profile::DeviceRange range("zeros_like", like.device());
  return filled("zeros_like", empty_like(like), 0);
}
Tensor ones_like(const Tensor& like) {
  const profile::DeviceRange range("ones_like", like.device());
  return filled("ones_like", empty_like(like), 1);
}
Tensor full_like(const Tensor& like, Scalar value) {
  const profile::DeviceRange range("full_like", like.device());
  return filled("full_like", empty_like(like), value);
}
Tensor zeros_like(const Tensor& like, DType dtype) {
  const profile::DeviceRange range("zeros_like", like.device());
  return filled("zeros_like", empty_like(like, dtype), 0);
}
Tensor ones_like(const Tensor& like, DType dtype) {
  const profile::DeviceRange range("ones_like", like.device());
  return filled("ones_like", empty_like(like, dtype), 1);
}
Tensor full_like(const Tensor& like, Scalar value, DType dtype) {
  const profile::DeviceRange range("full_like", like.device());
  return filled("full_like", empty_like(like, dtype), value);
}

Tensor arange(Scalar stop, const TensorOptions& options) { return arange(0, stop, 1, options); }

Tensor arange(Scalar start, Scalar stop, Scalar step, const TensorOptions& options) {
  const profile::DeviceRange range("arange", options.device);
  if (!start.is_floating() && !stop.is_floating() && !step.is_floating()) {
    return integer_range(start.to<int64_t>(), stop.to<int64_t>(), step.to<int64_t>(), options);
  }
  const double first = start.to<double>(), last = stop.to<double>(), by = step.to<double>();
  LATHE_CHECK(ValueError,
              std::isfinite(first) && std::isfinite(last) && std::isfinite(by) && by != 0,
              "arange: start ", start, ", stop ", stop, " and step ", step,
              " must be finite, and step not 0");
  LATHE_CHECK(ValueError, by > 0 ? first <= last : first >= last, "arange: step ", step,
              " leads from ", start, " away from ", stop);
  const double count = std::ceil((last - first) / by);
  LATHE_CHECK(ShapeError, count < 0x1p63, "arange: ", count, " elements are too many");
  return generated(static_cast<int64_t>(count), options, default_dtype(),
                   math::FloatSequence{first, by});
}

Tensor linspace(double start, double stop, int64_t count, const TensorOptions& options) {
  const profile::DeviceRange range("linspace", options.device);
  LATHE_CHECK(ValueError, count >= 0, "linspace: count must not be negative, got ", count);
  LATHE_CHECK(ValueError, std::isfinite(stop - start), "linspace: start ", start, ", stop ", stop,
              " and their difference must be finite");
  const DType dtype = options.dtype.value_or(default_dtype());
  check_holds("linspace", dtype, start);
  check_holds("linspace", dtype, stop);
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  return generated(count, options, default_dtype(), math::EvenlySpaced{start, stop, step, count});
}

Tensor eye(int64_t rows, const TensorOptions& options) { return eye(rows, rows, options); }

Tensor eye(int64_t rows, int64_t columns, const TensorOptions& options) {
  const profile::DeviceRange range("eye", options.device);
  const Tensor t = filled("eye", empty({rows, columns}, options), 0);
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
  if (out.dtype() != dtype && is_integer(out.dtype())) {
    visit_all(dtype, [&]<class T>(TypeTag<T>) {
      for (size_t i = 0; i < count; ++i) {
        using Number = std::conditional_t<is_floating(dtype_of<T>), double, T>;
        check_holds("tensor", out.dtype(),
                    Number(ComputeType<T>(static_cast<const T*>(values)[i])));
      }
    });
  }
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
