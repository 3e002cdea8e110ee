// Cuts the loops of pointwise kernels into parts, and decides whether they use packets.
#include "lathe/core/gpu/pointwise_part.h"

#include <cstddef>

#include "lathe/core/dtype.h"
#include "lathe/core/error.h"

namespace lathe {

namespace {

bool can_pack(const PointwisePart& part, int size, std::span<const PointwiseOperand> operands) {
  const LoopDim& inner = part.nest.dims[0];
  if (inner.size < size || (part.nest.ndim > 1 && inner.size % size != 0)) return false;
  for (size_t k = 0; k < operands.size(); ++k) {
    if (k > 0 && inner.step[k] == 0) continue;
    const size_t packet = size_of(operands[k].dtype) * static_cast<size_t>(size);
    if (inner.step[k] != 1 || reinterpret_cast<uintptr_t>(part.data[k]) % packet != 0) return false;
    for (int d = 1; d < part.nest.ndim; ++d) {
      if (part.nest.dims[d].step[k] % size != 0) return false;
    }
  }
  return true;
}

/// Changes a loop over elements into one over packets.
void pack(PointwisePart& part, int size) {
  part.packed = true;
  part.left = static_cast<uint32_t>(part.nest.numel() % size);
  LoopDim& inner = part.nest.dims[0];
  inner.size /= size;
  for (int k = 0; k < part.nest.operands; ++k) {
    if (k > 0 && inner.step[k] == 0) part.repeated |= 1u << (k - 1);
    inner.step[k] *= size;
  }
}

bool is_number(const Tensor& t) { return t.ndim() == 0 && t.device().is_cpu(); }

}  // namespace

void each_pointwise_part(std::span<const PointwiseOperand> operands, int packet,
                         FunctionRef<void(const PointwisePart&)> launch) {
  LATHE_CHECK(ValueError, !operands.empty() && operands.size() <= kMaxOperands,
              "pointwise: ", operands.size(), " operands, not 1 to ", kMaxOperands);
  const Tensor& out = operands[0].tensor;
  for (const auto& [tensor, dtype] : operands) {
    LATHE_CHECK(DTypeError, tensor.dtype() == dtype, "pointwise: the kernel takes ", dtype,
                ", not ", tensor);
  }
  if (out.numel() == 0) return;
  StridedOperand strided[kMaxOperands];
  for (size_t k = 0; k < operands.size(); ++k) {
    const Tensor& t = operands[k].tensor;
    strided[k] = {nullptr, 1, k == 0 ? t.strides() : broadcast_strides(t, out.shape())};
  }
  const int count = static_cast<int>(operands.size());
  const LoopNest nest = make_nest(out.shape(), strided, count, LoopOrder::kDensestInside);
  const Stream stream = current_stream(out.device());
  each_32_bit_part(nest, [&](const LoopNest& piece, const int64_t* start) {
    PointwisePart part{.nest = piece, .stream = stream};
    for (size_t k = 0; k < operands.size(); ++k) {
      const Tensor& t = operands[k].tensor;
      if (k > 0 && is_number(t)) continue;
      part.data[k] = static_cast<std::byte*>(t.raw_data()) +
                     start[k] * static_cast<int64_t>(size_of(t.dtype()));
    }
    if (can_pack(part, packet, operands)) pack(part, packet);
    part.count = static_cast<uint32_t>(part.nest.numel());
    launch(part);
  });
}

}  // namespace lathe
