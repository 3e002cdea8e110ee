// The collectives on GPUs, through NCCL. The only file that knows NCCL. Contract: device_backend.h.
//
// Note [A communicator that cannot block]
// It is made non-blocking: no call of NCCL waits for another rank. A call that is not over returns
// ncclInProgress, and ncclCommGetAsyncError says when it is. So the lock is held for moments only,
// and another thread can end the communicator at any time (ncclCommAbort), which also ends the
// kernels that wait on the GPU for a rank that is gone.
//
// Note [An abort waits for graphs]
// ncclCommAbort ends the kernels at once. But it returns only when no CUDA graph has a collective
// of the communicator any more, and has no limit. Who aborts may own such a graph, or be what its
// owner waits for. So a thread that nobody needs calls it, without the lock.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/format.h"
#include "lathe/core/gpu/memory_cuda.h"
#include "lathe/core/gpu/nccl_functions.h"
#include "lathe/core/gpu/relaxed_capture.h"
#include "lathe/distributed/device_backend.h"
#include "lathe/distributed/hex.h"

namespace lathe::distributed {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long calls may take to end when a rank leaves, and then an abort.
constexpr milliseconds kLeaving{2000};

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return ncclFloat16;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF32: return ncclFloat32;
    case DType::kF64: return ncclFloat64;
    case DType::kU8: return ncclUint8;
    case DType::kI8: return ncclInt8;
    case DType::kI32: return ncclInt32;
    case DType::kI64: return ncclInt64;
    case DType::kI16:
    case DType::kBool: break;
  }
  LATHE_FAIL(DTypeError, "process group: NCCL does not compute with ", dtype);
}

ncclRedOp_t operation_of(Reduce op) {
  switch (op) {
    case Reduce::kSum: return ncclSum;
    case Reduce::kAverage: return ncclAvg;
    case Reduce::kMin: return ncclMin;
    case Reduce::kMax: return ncclMax;
    case Reduce::kProduct: break;
  }
  return ncclProd;
}

/// Waits between two questions: at first for a moment, then longer.
class Pause {
 public:
  explicit Pause(milliseconds limit) : deadline_(std::chrono::steady_clock::now() + limit) {}
  void shorten(milliseconds limit) {
    deadline_ = std::min(deadline_, std::chrono::steady_clock::now() + limit);
  }
  /// False: the limit is over.
  bool wait() {
    if (std::chrono::steady_clock::now() > deadline_) return false;
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, microseconds(1000));
    return true;
  }

 private:
  std::chrono::steady_clock::time_point deadline_;
  microseconds next_{20};
};

class NcclBackend final : public DeviceBackend {
 public:
  NcclBackend(int rank, int world_size, Device device, int64_t limit_ms, const ncclUniqueId& id)
      : rank_(rank),
        world_size_(world_size),
        device_(device),
        limit_(limit_ms),
        id_(id),
        nccl_(nccl::functions()),
        stream_(device) {}
  ~NcclBackend() override {
    abort();
    // A process that ends now should not take the library away from under it.
    if (ending_.valid()) ending_.wait_for(kLeaving);
  }

  void connect() override {
    const cuda::DeviceScope on(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    run("ncclCommInitRankConfig",
        [&] { return nccl_.ncclCommInitRankConfig(&comm_, world_size_, id_, rank_, &config); });
  }

  Device device() const override { return device_; }
  Stream stream() const override { return stream_; }

  void all_reduce(void* data, size_t count, DType dtype, Reduce op) override {
    queue("ncclAllReduce", [&](cudaStream_t stream) {
      return nccl_.ncclAllReduce(data, data, count, type_of(dtype), operation_of(op), comm_,
                                 stream);
    });
  }
  void broadcast(void* data, size_t bytes, int root) override {
    queue("ncclBroadcast", [&](cudaStream_t stream) {
      return nccl_.ncclBroadcast(data, data, bytes, ncclUint8, root, comm_, stream);
    });
  }
  void all_gather(void* out, const void* in, size_t bytes) override {
    queue("ncclAllGather", [&](cudaStream_t stream) {
      return nccl_.ncclAllGather(in, out, bytes, ncclUint8, comm_, stream);
    });
  }
  void reduce_scatter(void* out, const void* in, size_t count, DType dtype, Reduce op) override {
    queue("ncclReduceScatter", [&](cudaStream_t stream) {
      return nccl_.ncclReduceScatter(in, out, count, type_of(dtype), operation_of(op), comm_,
                                     stream);
    });
  }

  void watch(const Event& event, const std::function<bool()>& somebody_left) override {
    const cuda::RelaxedCapture beside_a_capture;
    bool left = false;
    for (Pause pause(limit_); !event.done();) {
      check("a collective", state());
      if (!left && somebody_left()) {
        left = true;
        pause.shorten(kLeaving);
      }
      if (!pause.wait()) fail("a collective", "is not over in time");
    }
    const std::lock_guard lock(mutex_);  // an abort lets the event come, too
    if (comm_ == nullptr) fail("a collective", "was aborted");
  }

  // See note [An abort waits for graphs].
  void abort() noexcept override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (comm_ == nullptr) return;
    const auto end = [call = nccl_.ncclCommAbort, comm = std::exchange(comm_, nullptr)] {
      call(comm);
    };
    try {
      std::packaged_task<void()> task(end);
      std::future<void> over = task.get_future();
      std::thread(std::move(task)).detach();
      ending_ = std::move(over);
    } catch (const std::exception&) {  // no thread can be had: better late than never
      end();
    }
  }

  void leave() noexcept override {
    try {
      const cuda::DeviceScope on(device_);
      run(
          "ncclCommFinalize", [&] { return nccl_.ncclCommFinalize(comm_); },
          std::min(limit_, kLeaving));
      const std::lock_guard lock(mutex_);
      ended_ = true;
      if (comm_ != nullptr) nccl_.ncclCommDestroy(std::exchange(comm_, nullptr));
    } catch (const std::exception&) {  // calls do not end, or a rank has failed
      abort();
    }
  }

 private:
  template <class F>
  void queue(const char* name, F&& f) {
    const cuda::DeviceScope on(device_);
    if (cuda::is_capturing(stream())) check_registrable(name);
    run(name, [&] { return f(static_cast<cudaStream_t>(stream().native)); });
  }

  /// NCCL opens the buffers of a graph's collectives to the other GPUs through cudaIpcGetMemHandle,
  /// which takes no memory of cuMemMap.
  void check_registrable(const char* name) const {
    if (!cuda::has_expandable_segments(device_)) return;
    const char* const registers = std::getenv("NCCL_GRAPH_REGISTER");
    if (registers != nullptr && std::string_view(registers) == "0") return;
    fail(name,
         "it would register buffers that LATHE_EXPANDABLE_SEGMENTS=1 has mapped; start all ranks "
         "with NCCL_GRAPH_REGISTER=0, or without expandable segments");
  }

  /// Makes a call and waits until NCCL has taken it.
  template <class F>
  void run(const char* name, F&& f) {
    run(name, std::forward<F>(f), limit_);
  }
  template <class F>
  void run(const char* name, F&& f, milliseconds limit) {
    ncclResult_t result;
    {
      const std::lock_guard lock(mutex_);
      if (ended_) fail(name, "comes after an abort");
      result = f();
    }
    for (Pause pause(limit); result == ncclInProgress; result = state()) {
      if (!pause.wait()) fail(name, "is not over in time");
    }
    check(name, result);
  }

  ncclResult_t state() {
    const std::lock_guard lock(mutex_);
    if (ended_) fail("a call", "was aborted");
    ncclResult_t of_comm = ncclSuccess;
    const ncclResult_t asked = nccl_.ncclCommGetAsyncError(comm_, &of_comm);
    return asked == ncclSuccess ? of_comm : asked;
  }

  void check(const char* name, ncclResult_t result) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    std::string text = nccl_.ncclGetErrorString(result);
    const std::lock_guard lock(mutex_);
    const char* const last = comm_ == nullptr ? nullptr : nccl_.ncclGetLastError(comm_);
    if (last != nullptr && *last != '\0') text += concat(" (", last, ")");
    fail(name, text);
  }

  [[noreturn]] static void fail(const char* name, const std::string& what) {
    throw DeviceBackendError(concat("NCCL: ", name, ": ", what));
  }

  const int rank_, world_size_;
  const Device device_;
  const milliseconds limit_;
  const ncclUniqueId id_;
  const nccl::Functions& nccl_;
  const OwnedStream stream_;
  std::mutex mutex_;  // guards what follows
  ncclComm_t comm_ = nullptr;
  bool ended_ = false;
  std::future<void> ending_;  // of the thread that aborts
};

}  // namespace

std::string device_backend_problem(Device device) {
  try {
    nccl::functions();
    const cuda::DeviceScope exists(device);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::string identity_of(Device device) {
  cudaDeviceProp properties;
  LATHE_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
  return concat(to_hex(properties.uuid.bytes), " at ", properties.pciDomainID, ":",
                properties.pciBusID, ":", properties.pciDeviceID);
}

std::string make_communicator_id() {
  ncclUniqueId id;
  const ncclResult_t result = nccl::functions().ncclGetUniqueId(&id);
  LATHE_CHECK(CudaError, result == ncclSuccess,
              "NCCL: ncclGetUniqueId: ", nccl::functions().ncclGetErrorString(result));
  return to_hex(id.internal);
}

std::unique_ptr<DeviceBackend> make_device_backend(int rank, int world_size, Device device,
                                                   int64_t limit_ms, const std::string& id) {
  ncclUniqueId made = {};
  const std::vector<char> bytes = from_hex(id);
  LATHE_CHECK(DistributedError, bytes.size() == sizeof made.internal, "process group: \"", id,
              "\" is not the id of an NCCL communicator");
  std::ranges::copy(bytes, made.internal);
  return std::make_unique<NcclBackend>(rank, world_size, device, limit_ms, made);
}

}  // namespace lathe::distributed
