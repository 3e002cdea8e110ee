// Local response normalisation, made of other ops. Contract: local_response_norm.h.
#include "lathe/ops/local_response_norm.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

Tensor local_response_norm(const Tensor& x_in, const LocalResponseNormOptions& o) {
  const profile::OpRange range("local_response_norm", {x_in});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  LATHE_CHECK(DTypeError, is_floating(x.dtype()), "local_response_norm: x must be floating (x: ", x,
              ")");
  LATHE_CHECK(ShapeError, x.ndim() >= 3, "local_response_norm: x must be [N,C,…] (x: ", x_in, ")");
  LATHE_CHECK(ValueError, o.size >= 1 && o.size < (int64_t{1} << 31),
              "local_response_norm: size must be in [1, 2^31), got ", o.size);
  if (x.numel() == 0) return clone(x);
  // Means over windows of channels: those of an image with a row for each channel.
  // Half types: squares would overflow.
  const Tensor wide = is_half(x.dtype()) ? cast(x, kF32) : x;
  const Tensor rows = reshape(square(wide), {x.dim(0), 1, x.dim(1), -1});
  const Tensor padded = pad(rows, {0, 0, o.size / 2, (o.size - 1) / 2});
  const Tensor mean = avg_pool2d(padded, {.kernel = {o.size, 1}, .stride = 1});
  const Tensor scale = pow(add(mul(reshape(mean, x.shape()), o.alpha), o.k), o.beta);
  return cast(div(wide, scale), x.dtype());
}

}  // namespace lathe
