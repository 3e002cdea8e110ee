// Copies of tensors for timed runs, and their time. Contracts: conv2d_timing_cudnn.h.
#include "lathe/ops/conv/cudnn/conv2d_timing_cudnn.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/hooks/watch.h"

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

/// The same tensors, in the same order.
template <class F>
void for_each_tensor(Conv2dOperands& operands, F f) {
  f(operands.x);
  f(operands.w);
  f(operands.y);
  if (operands.bias.defined()) f(operands.bias);
  for (FusedOperand& more : operands.fused) f(more.tensor);
}

/// A tensor like `like` in other memory.
Tensor tensor_at(void* memory, const Tensor& like) {
  return alias(from_blob(memory, {like.numel()}, like.dtype(), like.device()), like.shape(),
               like.strides(), 0);
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

/// A moment on the device. Recorded in a capture, each launch of the graph sets it anew.
class Mark {
 public:
  explicit Mark(Device device) : device_(device), event_(create_event(device, true)) {}
  ~Mark() { destroy_event(device_, event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  void record() {
    const Stream stream = current_stream(device_);
    const unsigned in_graph =
        is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
    LATHE_CUDA_CHECK(cudaEventRecordWithFlags(static_cast<cudaEvent_t>(event_),
                                              static_cast<cudaStream_t>(stream.native), in_graph));
  }
  friend double elapsed_ms(const Mark& from, const Mark& to) {
    return cuda::elapsed_ms(from.device_, from.event_, to.event_);
  }

 private:
  Device device_;
  void* event_;
};

}  // namespace

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
  memory_.emplace(bytes_of_copy(tensors, true), device);
  Conv2dOperands& apart = copies_.emplace_back(operands);
  auto* room = static_cast<char*>(memory_->get());
  size_t at = 0;
  for_each_tensor(apart, [&](Tensor& t) {
    if (!tensors[at++].is_written) return;
    t = tensor_at(room, t);
    room += round_up(t.bytes(), kCopyAlignment);
  });
}

Conv2dTimingCopies::~Conv2dTimingCopies() {
  const profile::MeantWait search;  // once for a shape
  pool_.reset();
}

void Conv2dTimingCopies::copy_all(ConvPass pass, const Conv2dOperands& operands, int64_t count) {
  const Device device = operands.x.device();
  const std::vector<TimedTensor> tensors = tensors_of(pass, operands);
  const int64_t whole = bytes_of_copy(tensors);
  auto* const first = static_cast<char*>(memory_->get());
  copies_.assign(static_cast<size_t>(count), operands);
  for (int64_t n = 0; n < count; ++n) {
    size_t at = 0;
    char* room = first + n * whole;
    for_each_tensor(copies_[static_cast<size_t>(n)], [&](Tensor& t) {
      if (n == 0 && !tensors[at].is_written) queue_copy(room, t.raw_data(), t.bytes(), device);
      t = tensor_at(room, t);
      room += round_up(tensors[at++].bytes, kCopyAlignment);
    });
  }
  for (int64_t done = 1; done < count; done *= 2) {
    queue_copy(first + done * whole, first, std::min(done, count - done) * whole, device);
  }
}

const Conv2dOperands& Conv2dTimingCopies::next() { return copies_[next_++ % copies_.size()]; }

const Graph& Conv2dTimingCopies::pool() {
  if (!pool_) pool_.emplace(copies_.front().x.device());
  return *pool_;
}

ConvTime conv2d_time_graph(const Graph& pool, Device device, int runs, FunctionRef<void()> run) {
  run();
  Mark begin(device), end(device);
  const auto all = [&] {
    run();  // the device is busy when the first mark is reached
    begin.record();
    for (int i = 0; i < runs; ++i) run();
    end.record();
  };
  const profile::MeantWait search;  // once for a shape; a graph's end waits, too
  std::optional<Graph> graph(Graph::with_pool_of(pool));
  try {
    graph->capture(all);
  } catch (const StateError&) {
    graph.reset();
  }
  graph ? graph->launch() : all();
  synchronize(current_stream(device));
  return {elapsed_ms(begin, end) / runs, runs};
}

}  // namespace lathe::cuda
