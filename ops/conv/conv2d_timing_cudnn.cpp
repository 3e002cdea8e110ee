// Conv2dTimingCopies: what timed runs of a convolution read and write. Contract: conv2d_cudnn.h.
#include <algorithm>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/ops/conv/conv2d_cudnn.h"

namespace lathe::cuda {

namespace {

constexpr int64_t kCopyAlignment = 256;  // of each copy of a tensor: what the allocator gives

int64_t l2_bytes(Device device) {
  int bytes = 0;
  LATHE_CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device.index));
  return bytes;
}

struct TimedTensor {
  int64_t bytes;
  bool is_written;
};

/// All tensors of a call, in the order of their bindings.
std::vector<TimedTensor> tensors_of(ConvPass pass, const Conv2dOperands& operands) {
  const Conv2dUid output = conv2d_output_uid(pass);
  std::vector<TimedTensor> all{{operands.x.bytes(), output == kUidX},
                               {operands.w.bytes(), output == kUidW},
                               {operands.y.bytes(), output == kUidY}};
  if (operands.bias.defined()) all.push_back({operands.bias.bytes(), false});
  for (const FusedOperand& more : operands.fused) {
    all.push_back({more.tensor.bytes(), more.is_written});
  }
  return all;
}

/// Of one copy of the tensors.
int64_t bytes_of_copy(const std::vector<TimedTensor>& tensors, bool only_written = false) {
  int64_t sum = 0;
  for (const TimedTensor& t : tensors) {
    if (!only_written || t.is_written) sum += round_up(t.bytes, kCopyAlignment);
  }
  return sum;
}

void queue_copy(void* to, const void* from, int64_t bytes, Device device) {
  LATHE_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                                   static_cast<cudaStream_t>(current_stream(device).native)));
}

}  // namespace

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

Conv2dTimingCopies::Conv2dTimingCopies(ConvPass pass, const Conv2dOperands& operands) {
  const Device device = operands.x.device();
  const std::vector<TimedTensor> tensors = tensors_of(pass, operands);
  const int64_t whole = bytes_of_copy(tensors);
  const int64_t count = ceil_div(2 * l2_bytes(device), whole);
  if (count > 1) {
    try {
      memory_.emplace(count * whole, device);
      copy_all(pass, operands, count);
      return;
    } catch (const OutOfMemoryError&) {  // then only what is written is apart
    }
  }
  const std::span<cudnn::Binding> bindings = copies_.emplace_back(operands).get();
  memory_.emplace(bytes_of_copy(tensors, true), device);
  auto* room = static_cast<char*>(memory_->get());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].is_written) continue;
    bindings[i].second = room;
    room += round_up(tensors[i].bytes, kCopyAlignment);
  }
}

void Conv2dTimingCopies::copy_all(ConvPass pass, const Conv2dOperands& operands, int64_t count) {
  const Device device = operands.x.device();
  const std::vector<TimedTensor> tensors = tensors_of(pass, operands);
  const int64_t whole = bytes_of_copy(tensors);
  auto* const first = static_cast<char*>(memory_->get());
  copies_.assign(static_cast<size_t>(count), Conv2dBindings(operands));
  int64_t begin = 0;  // of a tensor in each copy
  for (size_t i = 0; i < tensors.size(); ++i) {
    const void* const address = copies_[0].get()[i].second;
    if (!tensors[i].is_written) queue_copy(first + begin, address, tensors[i].bytes, device);
    for (int64_t n = 0; n < count; ++n) {
      copies_[static_cast<size_t>(n)].get()[i].second = first + n * whole + begin;
    }
    begin += round_up(tensors[i].bytes, kCopyAlignment);
  }
  for (int64_t done = 1; done < count; done *= 2) {
    queue_copy(first + done * whole, first, std::min(done, count - done) * whole, device);
  }
}

std::span<const cudnn::Binding> Conv2dTimingCopies::next() {
  return copies_[next_++ % copies_.size()].get();
}

}  // namespace lathe::cuda
