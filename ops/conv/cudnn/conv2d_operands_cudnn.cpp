// What a call's tensors are bound to, and the key they make. Contracts: conv2d_operands_cudnn.h.
#include "lathe/ops/conv/cudnn/conv2d_operands_cudnn.h"

#include <array>
#include <optional>

#include "lathe/core/alignment.h"
#include "lathe/core/cuda.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/ops/conv/search/conv2d_key.h"

namespace lathe::cuda {

/// The machine does not change while a program runs, so it is asked once per thread and device.
static const SharedMachine& machine_of(Device device) {
  thread_local std::array<std::optional<SharedMachine>, kMaxDevices> t_known;
  std::optional<SharedMachine>& known = t_known.at(static_cast<size_t>(device.index));
  if (known) return *known;
  const DeviceInfo info = device_info(device.index);
  const Versions installed = versions();
  return known.emplace(ConvMachine{.device = info.name,
                                   .major = info.major,
                                   .minor = info.minor,
                                   .multiprocessors = info.multiprocessors,
                                   .library = "cudnn " + cudnn::version(),
                                   .runtime = installed.runtime,
                                   .driver = installed.driver});
}

Conv2dUid conv2d_output_uid(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward: return kUidY;
    case ConvPass::kBackwardInput: return kUidX;
    case ConvPass::kBackwardWeight: break;
  }
  return kUidW;
}

Conv2dBindings::Conv2dBindings(const Conv2dOperands& operands) {
  const auto bind = [&](Conv2dUid uid, const Tensor& t) {
    if (t.defined()) tensors_[count_++] = {uid, t.raw_data()};
  };
  bind(kUidX, operands.x);
  bind(kUidW, operands.w);
  bind(kUidY, operands.y);
  bind(kUidBias, operands.bias);
  for (const FusedOperand& more : operands.fused) {
    tensors_.at(count_++) = {more.uid, more.tensor.raw_data()};
  }
}

ConvKey conv2d_key_of(ConvPass pass, const Conv2dGeometry& g, MemoryFormat format,
                      const Conv2dOperands& operands) {
  ConvKey key = conv2d_key(pass, g, format, operands.x.dtype());
  key.x.alignment = alignment_of(operands.x.raw_data());
  key.w.alignment = alignment_of(operands.w.raw_data());
  key.y.alignment = alignment_of(operands.y.raw_data());
  if (const Tensor& bias = operands.bias; bias.defined()) {
    key.bias = conv2d_tensor({1, g.K, 1, 1}, format, bias.dtype(), alignment_of(bias.raw_data()));
  }
  key.machine = machine_of(operands.x.device());
  return key;
}

}  // namespace lathe::cuda
