// cuDNN's version check, and the handles of threads.
#include "lathe/core/gpu/cudnn_handle.h"

#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/log.h"

namespace lathe::cudnn {

namespace {

// Minor versions add to the interface: a newer library will do, an older one may lack something.
void check_version() {
  const size_t loaded = functions().cudnnGetVersion();
  constexpr size_t kCompiled = CUDNN_VERSION;
  LATHE_CHECK(CudaError, loaded / 10000 == CUDNN_MAJOR, "cudnn: this program needs cuDNN ",
              CUDNN_MAJOR, ", but version ", version_text(loaded), " was loaded");
  if (loaded / 100 < kCompiled / 100) {
    warn_once("cudnn version", concat("cudnn: compiled for ", version_text(kCompiled),
                                      ", but the older ", version_text(loaded), " was loaded"));
  }
}

/// Handles of threads that have ended, for new threads. A handle takes long to make. None is ever
/// destroyed, because at the end of the process the driver may be gone before the last thread.
class HandlePool {
 public:
  cudnnHandle_t take(int device) {
    {
      const std::lock_guard lock(mutex_);
      auto& free = free_[static_cast<size_t>(device)];
      if (!free.empty()) {
        const cudnnHandle_t handle = free.back();
        free.pop_back();
        return handle;
      }
    }
    check_version();
    cudnnHandle_t handle = nullptr;
    check(functions().cudnnCreate(&handle), "create a handle");
    return handle;
  }
  void give_back(int device, cudnnHandle_t handle) {
    const std::lock_guard lock(mutex_);
    free_[static_cast<size_t>(device)].push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<cudnnHandle_t>, cuda::kMaxDevices> free_;
};

HandlePool& pool() {
  static auto* const the_pool = new HandlePool;
  return *the_pool;
}

/// The handles that a thread has taken, by device.
struct ThreadHandles {
  struct Slot {
    cudnnHandle_t handle = nullptr;
    std::optional<void*> stream;  // set last; absent: unknown, from another thread, perhaps gone
  };

  ~ThreadHandles() {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].handle != nullptr) pool().give_back(static_cast<int>(i), slots[i].handle);
    }
  }

  std::array<Slot, cuda::kMaxDevices> slots;
};

}  // namespace

cudnnHandle_t handle(Device device) {
  thread_local ThreadHandles handles;
  const cuda::DeviceScope on(device);
  ThreadHandles::Slot& slot = handles.slots.at(static_cast<size_t>(device.index));
  void* const stream = current_stream(device).native;
  if (slot.handle == nullptr) slot.handle = pool().take(device.index);
  if (slot.stream == stream) return slot.handle;
  slot.stream.reset();
  check(functions().cudnnSetStream(slot.handle, static_cast<cudaStream_t>(stream)),
        "set the stream");
  slot.stream = stream;
  return slot.handle;
}

}  // namespace lathe::cudnn
