// Conv2dTimingCopies: what timed runs of a convolution read and write. Contract: conv2d_cudnn.h.
#include <algorithm>
#include <numeric>

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

/// Of each tensor that exists.
std::vector<int64_t> bytes_of(const Conv2dOperands& operands) {
  std::vector<int64_t> bytes;
  for (const Tensor* t : {&operands.x, &operands.w, &operands.y, &operands.bias}) {
    if (t->defined()) bytes.push_back(t->bytes());
  }
  return bytes;
}

/// Of one copy of all tensors.
int64_t bytes_of_copy(const std::vector<int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}, [](int64_t sum, int64_t more) {
    return sum + round_up(more, kCopyAlignment);
  });
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
}

Conv2dTimingCopies::Conv2dTimingCopies(ConvPass pass, const Conv2dOperands& operands) {
  const Device device = operands.x.device();
  const std::vector<int64_t> bytes = bytes_of(operands);
  const int64_t whole = bytes_of_copy(bytes);
  const int64_t count = ceil_div(2 * l2_bytes(device), whole);
  if (count > 1) {
    try {
      memory_.emplace(count * whole, device);
      copy_all(pass, operands, bytes, count);
      return;
    } catch (const OutOfMemoryError&) {  // then only the output is apart
    }
  }
  const std::span<cudnn::Binding> tensors = copies_.emplace_back(operands).get();
  const auto output = std::ranges::find(tensors, conv2d_output_uid(pass), &cudnn::Binding::first);
  memory_.emplace(bytes[static_cast<size_t>(output - tensors.begin())], device);
  output->second = memory_->get();
}

void Conv2dTimingCopies::copy_all(ConvPass pass, const Conv2dOperands& operands,
                                  const std::vector<int64_t>& bytes, int64_t count) {
  const Device device = operands.x.device();
  const int64_t whole = bytes_of_copy(bytes);
  auto* const first = static_cast<char*>(memory_->get());
  copies_.assign(static_cast<size_t>(count), Conv2dBindings(operands));
  int64_t begin = 0;  // of a tensor in each copy
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto [uid, address] = copies_[0].get()[i];
    if (uid != conv2d_output_uid(pass)) queue_copy(first + begin, address, bytes[i], device);
    for (int64_t n = 0; n < count; ++n) {
      copies_[static_cast<size_t>(n)].get()[i].second = first + n * whole + begin;
    }
    begin += round_up(bytes[i], kCopyAlignment);
  }
  for (int64_t done = 1; done < count; done *= 2) {
    queue_copy(first + done * whole, first, std::min(done, count - done) * whole, device);
  }
}

std::span<const cudnn::Binding> Conv2dTimingCopies::next() {
  return copies_[next_++ % copies_.size()].get();
}

}  // namespace lathe::cuda
