// Fake quantisation, by elementwise ops. Contract: fake_quantize.h.
#include "lathe/ops/fake_quantize.h"

#include <cmath>

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

struct QuantRange {
  int64_t least, most;
};

void check_quant_range(const char* op, QuantRange range) {
  LATHE_CHECK(ValueError, range.least <= range.most, op, ": quant_min ", range.least,
              " is above quant_max ", range.most);
}

void check_quant_tensors(const char* op, const Tensor& x, const Tensor& scale,
                         const Tensor& zero_point, int64_t count, QuantRange range) {
  check_quant_range(op, range);
  LATHE_CHECK(DTypeError, is_floating(scale.dtype()), op,
              ": scale must be floating (scale: ", scale, ")");
  LATHE_CHECK(DTypeError, zero_point.dtype() == kI32 || zero_point.dtype() == kI64, op,
              ": zero_point must be i32 or i64 (zero_point: ", zero_point, ")");
  for (const Tensor& t : {scale, zero_point}) {
    LATHE_CHECK(DeviceError, t.device() == x.device() || (t.device().is_cpu() && t.ndim() == 0), op,
                ": scale and zero_point must be on x's device (x: ", x, ", scale: ", scale,
                ", zero_point: ", zero_point, ")");
    LATHE_CHECK(ShapeError, t.numel() == count && t.ndim() <= 1, op,
                ": scale and zero_point must have ", count, " elements (x: ", x, ", scale: ", scale,
                ", zero_point: ", zero_point, ")");
  }
  if (!zero_point.device().is_cpu()) return;
  for (const int64_t zero : zero_point.to_vector<int64_t>()) {
    LATHE_CHECK(ValueError, zero >= range.least && zero <= range.most, op, ": zero_point ", zero,
                " is outside [", range.least, ", ", range.most, "]");
  }
}

/// scale and zero_point broadcast to x. The value is a constant. Where the integer lies in the
/// range, x - x is added to it, which is 0 and has the gradient of x.
Tensor fake_quantized(const Tensor& x, const Tensor& scale_in, const Tensor& zero_in,
                      QuantRange range) {
  const DType wide = compute_dtype(x.dtype());
  const Tensor scale = cast(scale_in.detach(), wide), zero = cast(zero_in, wide);
  const Tensor fixed = x.detach();
  const Tensor q = add(round(mul(cast(fixed, wide), reciprocal(scale))), zero);
  const Tensor inside = logical_and(ge(q, range.least), le(q, range.most));
  const Tensor kept = clamp(q, range.least, range.most);
  const Tensor value = cast(mul(sub(kept, zero), scale), x.dtype());
  return add(value, where(inside, sub(x, fixed), 0));
}

}  // namespace

Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, int64_t zero_point,
                                       int64_t quant_min, int64_t quant_max) {
  constexpr const char* kName = "fake_quantize_per_tensor_affine";
  check_floating(kName, x);
  const bool wide = x.dtype() == kF64;
  const double held = wide ? scale : static_cast<double>(static_cast<float>(scale));
  const double inverse = wide ? 1 / held : static_cast<double>(1 / static_cast<float>(held));
  LATHE_CHECK(ValueError, held > 0 && std::isfinite(held) && std::isfinite(inverse), kName,
              ": scale must be above 0, and scale and 1 / scale finite in ",
              compute_dtype(x.dtype()), "; got ", scale, " (x: ", x, ")");
  return fake_quantize_per_tensor_affine(x, tensor(scale, kF64), tensor(zero_point, kI64),
                                         quant_min, quant_max);
}

Tensor fake_quantize_per_tensor_affine(const Tensor& x, const Tensor& scale,
                                       const Tensor& zero_point, int64_t quant_min,
                                       int64_t quant_max) {
  constexpr const char* kName = "fake_quantize_per_tensor_affine";
  const profile::OpRange range(kName, {x, scale, zero_point});
  check_floating(kName, x);
  const QuantRange limits{quant_min, quant_max};
  check_quant_tensors(kName, x, scale, zero_point, 1, limits);
  return fake_quantized(x, reshape(scale, {}), reshape(zero_point, {}), limits);
}

Tensor fake_quantize_per_channel_affine(const Tensor& x, const Tensor& scale,
                                        const Tensor& zero_point, int64_t axis, int64_t quant_min,
                                        int64_t quant_max) {
  constexpr const char* kName = "fake_quantize_per_channel_affine";
  const profile::OpRange range(kName, {x, scale, zero_point});
  check_floating(kName, x);
  const int dim = wrap_dim(kName, axis, x.ndim());
  const QuantRange limits{quant_min, quant_max};
  const int64_t count = x.ndim() == 0 ? 1 : x.shape()[dim];
  check_quant_tensors(kName, x, scale, zero_point, count, limits);
  Shape shape = Dims::filled(x.ndim(), 1);
  if (x.ndim() > 0) shape[dim] = count;
  // Only a 0-d tensor may stay on the CPU.
  const auto beside_x = [&](const Tensor& t) { return reshape(to_device(t, x.device()), shape); };
  return fake_quantized(x, beside_x(scale), beside_x(zero_point), limits);
}

}  // namespace lathe
