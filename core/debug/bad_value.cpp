// A quick look at all values in the order of memory; only a tensor with a bad one is searched.
#include "lathe/core/debug/bad_value.h"

#include <cmath>
#include <cstring>

#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dense.h"
#include "lathe/core/stream.h"
#include "lathe/core/visit.h"

namespace lathe::debug {

namespace {

/// The values on the host and without gaps; in row-major order if `ordered`.
Tensor on_host(const Tensor& t, bool ordered) {
  if (t.device().is_cpu() && (ordered ? t.is_contiguous() : is_dense(t))) return t;
  const Tensor host = ordered ? empty(t.shape(), {.dtype = t.dtype()})
                              : empty_strided(t.shape(), empty_like(t).strides(), t.dtype(), kCPU);
  copy_values(host, t);
  return host;
}

/// Without a branch for each value, so that the loop is vectorised: x - x is 0 unless x is NaN or
/// infinite, and NaN != NaN.
template <class T>
bool has_bad(const T* values, int64_t count, bool infinity) {
  using C = ComputeType<T>;
  int bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const C x = static_cast<C>(values[i]);
    const C probe = infinity ? x - x : x;
    bad |= static_cast<int>(probe != probe);
  }
  return bad != 0;
}

Dims index_of(int64_t position, const Shape& shape) {
  Dims index = Dims::filled(shape.size(), 0);
  for (int d = shape.size() - 1; d >= 0; --d) {
    index[d] = position % shape[d];
    position /= shape[d];
  }
  return index;
}

}  // namespace

bool can_be_read(const Tensor& t) {
  return t.device().is_cpu() || !cuda::is_capturing(current_stream(t.device()));
}

std::optional<BadValue> first_bad_value(const Tensor& t, bool infinity) {
  if (!t.defined() || !is_floating(t.dtype()) || t.numel() == 0) return std::nullopt;
  std::optional<BadValue> found;
  visit_float(t.dtype(), "first_bad_value", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensor any = on_host(t, false);
    if (!has_bad(static_cast<const T*>(any.raw_data()), t.numel(), infinity)) return;
    const Tensor ordered = on_host(any, true);
    const T* const values = static_cast<const T*>(ordered.raw_data());
    for (int64_t i = 0; i < t.numel(); ++i) {
      const auto value = static_cast<double>(values[i]);
      if (!std::isnan(value) && !(infinity && std::isinf(value))) continue;
      found = {index_of(i, t.shape()), value};
      return;
    }
  });
  return found;
}

double value_at(const Tensor& t, const Dims& index) {
  int64_t offset = t.impl().offset;
  for (int d = 0; d < t.ndim(); ++d) offset += index[d] * t.strides()[d];
  return alias(t, {}, {}, offset).item<double>();
}

}  // namespace lathe::debug
