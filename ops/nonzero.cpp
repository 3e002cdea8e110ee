// nonzero, masked_select and masked_scatter, by running counts and searches in them. Contracts:
// nonzero.h.
#include "lathe/ops/nonzero.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/searchsorted.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

/// The coordinates of the true elements of a row-major mask on the CPU.
Tensor coordinates_of(const Tensor& mask) {
  const Tensor y = cpu::true_coordinates(mask);
  profile::note_output(y);
  return y;
}

/// The places of the true elements of a bool tensor, as if it were flattened. Waits for the device.
Tensor true_places(const Tensor& mask) {
  const TensorOptions options{.dtype = kI64, .device = mask.device()};
  if (mask.numel() == 0) return empty({0}, options);
  const Tensor flat = reshape(mask, {mask.numel()});
  if (mask.device().is_cpu()) return reshape(coordinates_of(flat), {-1});
  const Tensor counts = cumsum(flat, 0);
  const auto total = counts[-1].item<int64_t>();
  // The k-th true element is where the running count first reaches k.
  return searchsorted(counts, arange(1, total + 1, 1, options));
}

void check_mask(const char* op, const Tensor& x, const Tensor& mask) {
  LATHE_CHECK(DTypeError, mask.dtype() == kBool, op, ": mask must be bool (mask: ", mask, ")");
  LATHE_CHECK(DeviceError, mask.device() == x.device(), op, ": mask is on another device (x: ", x,
              ", mask: ", mask, ")");
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  const profile::OpRange range("nonzero", {x});
  const Tensor mask = ne(x.detach(), 0);
  if (x.device().is_cpu() && x.ndim() > 0 && x.numel() > 0) {
    return coordinates_of(contiguous(mask));
  }
  Tensor places = true_places(mask);
  if (x.ndim() == 0) return empty({places.numel(), 0}, {.dtype = kI64, .device = x.device()});
  Tensors coordinates(static_cast<size_t>(x.ndim()));
  for (int d = x.ndim() - 1; d >= 0; --d) {
    // x has elements where there are places, so no size is 0.
    const int64_t size = std::max<int64_t>(x.shape()[d], 1);
    coordinates[static_cast<size_t>(d)] = remainder(places, size);
    places = div(places, size, {RoundingMode::kFloor});
  }
  return stack(coordinates, 1);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const profile::OpRange range("masked_select", {x, mask});
  check_mask("masked_select", x, mask);
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  const Tensor flat = reshape(expand(x, shape), {numel_of(shape)});
  return index_select(flat, 0, true_places(contiguous(expand(mask, shape))));
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask_in, const Tensor& source) {
  const profile::OpRange range("masked_scatter", {x, mask_in, source});
  check_mask("masked_scatter", x, mask_in);
  LATHE_CHECK(DTypeError, source.dtype() == x.dtype(),
              "masked_scatter: source must have x's dtype (x: ", x, ", source: ", source, ")");
  LATHE_CHECK(DeviceError, source.device() == x.device(),
              "masked_scatter: source is on another device (x: ", x, ", source: ", source, ")");
  LATHE_CHECK(ShapeError,
              broadcast_shapes("masked_scatter", x.shape(), mask_in.shape()) == x.shape(),
              "masked_scatter: mask does not broadcast to x (x: ", x, ", mask: ", mask_in, ")");
  if (x.numel() == 0) return clone(x);
  const Tensor mask = contiguous(expand(mask_in, x.shape()));
  const Tensor bits = reshape(mask, {mask.numel()}), counts = cumsum(bits, 0);
  check_index("masked_scatter", narrow(counts, 0, counts.numel() - 1, 1), source.numel() + 1);
  if (source.numel() == 0) return clone(x);
  // The number of true elements before it says which element of source an element gets.
  const Tensor from = mul(sub(counts, 1), bits);
  const Tensor chosen = index_select(reshape(source, {source.numel()}), 0, from);
  return where(mask, reshape(chosen, x.shape()), x);
}

}  // namespace lathe
