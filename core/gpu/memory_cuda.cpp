// Where the memory of GPUs and pinned host memory come from: core/memory/block_pool over the CUDA
// runtime.
#include "lathe/core/gpu/memory_cuda.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/relaxed_capture.h"
#include "lathe/core/gpu/virtual_memory_cuda.h"
#include "lathe/core/log.h"
#include "lathe/core/memory/block_pool.h"
#include "lathe/core/memory/cache_setting.h"

namespace lathe::cuda {

namespace {

std::atomic<uint64_t> g_driver_allocations{0};

/// The stream of pinned blocks, which stands for the host. GPUs' streams join by record_stream().
char g_host_stream;

/// Events and captures, the same for both kinds of memory. The events are those of one device.
class CudaMemory : public RawMemory {
 public:
  bool is_alive() const noexcept override { return alive_.load(std::memory_order_relaxed); }

  EventHandle record(StreamHandle stream) noexcept override {
    cudaEvent_t event = nullptr;
    if (events_.empty()) {
      if (!make_room() || !works(cudaEventCreateWithFlags(&event, cudaEventDisableTiming))) {
        return nullptr;
      }
      ++event_count_;
    } else {
      event = events_.back();
      events_.pop_back();
    }
    if (works(cudaEventRecord(event, static_cast<cudaStream_t>(stream)))) return event;
    events_.push_back(event);
    return nullptr;
  }
  void release(EventHandle event) noexcept override {
    events_.push_back(static_cast<cudaEvent_t>(event));
  }
  bool query(EventHandle event) noexcept override {
    return works(cudaEventQuery(static_cast<cudaEvent_t>(event)));
  }
  bool synchronize() noexcept override {
    detail::count_synchronization();
    return works(cudaDeviceSynchronize());
  }
  MemoryInfo mem_info() noexcept override {
    MemoryInfo info;
    works(cudaMemGetInfo(&info.free_bytes, &info.total_bytes));
    return info;
  }
  uint64_t capture_id(StreamHandle stream) noexcept override {
    if (stream == &g_host_stream) return 0;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    const bool asked =
        works(cudaStreamGetCaptureInfo(static_cast<cudaStream_t>(stream), &status, &id));
    return asked && status != cudaStreamCaptureStatusNone ? id : 0;
  }

 protected:
  /// True for success. Clears an error, so that nobody else's check reports it.
  bool works(cudaError_t error) noexcept {
    if (error == cudaSuccess) return true;
    cudaGetLastError();
    if (error == cudaErrorCudartUnloading) alive_.store(false, std::memory_order_relaxed);
    return false;
  }

 private:
  /// Makes room for one more event, so that giving events back cannot fail.
  bool make_room() noexcept try {
    events_.reserve(event_count_ + 1);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  std::atomic<bool> alive_{true};
  // Guarded by the pool, which makes one call at a time.
  std::vector<cudaEvent_t> events_;  // those that are not in use
  size_t event_count_ = 0;           // all that were made
};

class DeviceMemory final : public CudaMemory {
 public:
  explicit DeviceMemory(std::unique_ptr<VirtualMemory> virtual_memory)
      : virtual_memory_(std::move(virtual_memory)) {}

  void* allocate(size_t bytes) noexcept override {
    const RelaxedCapture relaxed;
    void* block = nullptr;
    if (!works(cudaMalloc(&block, bytes))) return nullptr;
    count_driver_allocation();
    return block;
  }
  void deallocate(void* block) noexcept override { works(cudaFree(block)); }
  VirtualMemory* virtual_memory() noexcept override { return virtual_memory_.get(); }

 private:
  const std::unique_ptr<VirtualMemory> virtual_memory_;
};

class PinnedMemory final : public CudaMemory {
 public:
  void* allocate(size_t bytes) noexcept override {
    const RelaxedCapture relaxed;
    void* block = nullptr;
    if (!works(cudaHostAlloc(&block, bytes, cudaHostAllocPortable))) return nullptr;
    count_driver_allocation();
    return block;
  }
  void deallocate(void* block) noexcept override { works(cudaFreeHost(block)); }
};

bool wants_expandable_segments() {
  const char* text = std::getenv("LATHE_EXPANDABLE_SEGMENTS");
  return text != nullptr && std::string_view(text) == "1";
}

/// A pool behind the interface of Storage. A block belongs to the stream that is current.
class PoolAllocator final : public Allocator {
 public:
  PoolAllocator(std::unique_ptr<RawMemory> memory, BlockPoolOptions options, Device device,
                bool pinned)
      : device_(device), pinned_(pinned), memory_(std::move(memory)), pool_(*memory_, options) {}

  void* allocate(size_t bytes) override {
    const DeviceScope on(device_);
    return pool_.allocate(bytes, pinned_ ? &g_host_stream : current_stream(device_).native,
                          current_call());
  }
  void deallocate(void* block, size_t) noexcept override {
    int before = device_.index;
    const bool moved = cudaGetDevice(&before) == cudaSuccess && before != device_.index &&
                       cudaSetDevice(device_.index) == cudaSuccess;
    pool_.deallocate(block);
    if (moved) cudaSetDevice(before);
  }

  BlockPool& pool() { return pool_; }

 private:
  const Device device_;
  const bool pinned_;
  const std::unique_ptr<RawMemory> memory_;
  BlockPool pool_;
};

// Never destroyed: tensors of static storage duration outlive main().
std::mutex g_mutex;  // guards the making of the allocators
std::atomic<PoolAllocator*> g_device_allocators[kMaxDevices];
std::atomic<PoolAllocator*> g_pinned_allocator;

/// The allocator at `place`, made by the first call.
template <class Make>
PoolAllocator& once(std::atomic<PoolAllocator*>& place, Make make) {
  if (PoolAllocator* made = place.load(std::memory_order_acquire)) return *made;
  const std::lock_guard lock(g_mutex);
  if (PoolAllocator* made = place.load(std::memory_order_relaxed)) return *made;
  PoolAllocator* const fresh = make().release();
  place.store(fresh, std::memory_order_release);
  return *fresh;
}

PoolAllocator& device_pool(Device device) {
  const DeviceScope on(device);  // throws if there is no such device
  return once(g_device_allocators[device.index], [device] {
    warn_of_other_libraries();  // now, when the program begins to use its GPU
    BlockPoolOptions options;
    options.name = concat(device);
    options.cache = cache_is_wanted(true);
    std::unique_ptr<VirtualMemory> virtual_memory;
    if (wants_expandable_segments()) {
      virtual_memory = CudaVirtualMemory::make(device.index);
      if (virtual_memory == nullptr) {
        warn(device, " has no virtual memory management: LATHE_EXPANDABLE_SEGMENTS is ignored");
      }
    }
    options.expandable = virtual_memory != nullptr;
    return std::make_unique<PoolAllocator>(
        std::make_unique<DeviceMemory>(std::move(virtual_memory)), options, device, false);
  });
}

PoolAllocator& pinned_pool() {
  return once(g_pinned_allocator, [] {
    const Device device = first_usable_device();
    BlockPoolOptions options;
    options.name = "pinned memory";
    options.rounding = BlockPoolOptions::Rounding::kPowerOfTwo;
    options.cache = cache_is_wanted(true);
    return std::make_unique<PoolAllocator>(std::make_unique<PinnedMemory>(), options, device, true);
  });
}

/// The pool of a device, or null if nothing was allocated there: a question makes no context.
BlockPool* existing_pool(Device device) {
  const bool known = device.is_cuda() && device.index >= 0 && device.index < kMaxDevices;
  PoolAllocator* made =
      known ? g_device_allocators[device.index].load(std::memory_order_acquire) : nullptr;
  return made == nullptr ? nullptr : &made->pool();
}

BlockPoolStats stats_of(Device device) {
  const BlockPool* pool = existing_pool(device);
  return pool == nullptr ? BlockPoolStats{} : pool->stats();
}

}  // namespace

Allocator& device_allocator(Device device) { return device_pool(device); }
Allocator& pinned_allocator() { return pinned_pool(); }
BlockPool& block_pool(Device device) { return device_pool(device).pool(); }
bool has_expandable_segments(Device device) { return block_pool(device).options().expandable; }

void record_stream(void* block, Device device, Stream stream) {
  BlockPool* const pool = existing_pool(device);
  if (pool == nullptr || !pool->holds(block)) return;
  if (stream.device != device) return synchronize_stream(stream);  // the pool has no events there
  const DeviceScope on(device);
  pool->record_stream(block, stream.native);
}
void record_pinned(void* block, Stream stream) {
  // The pool has the first GPU's events. For another GPU the host waits instead.
  if (stream.device.index != 0) return synchronize_stream(stream);
  pinned_pool().pool().record_stream(block, stream.native);
}

bool capture_underway(Device device) {
  const BlockPool* pool = existing_pool(device);
  return pool != nullptr && pool->is_capturing(current_stream(device).native);
}

size_t available_memory(Device device) {
  const DeviceScope on(device);
  return device_pool(device).pool().available_bytes(current_stream(device).native);
}

uint64_t driver_allocations() noexcept {
  return g_driver_allocations.load(std::memory_order_relaxed);
}
void count_driver_allocation() noexcept {
  g_driver_allocations.fetch_add(1, std::memory_order_relaxed);
}

size_t memory_allocated(Device device) { return stats_of(device).allocated_bytes.current; }
size_t memory_reserved(Device device) { return stats_of(device).reserved_bytes.current; }
size_t max_memory_allocated(Device device) { return stats_of(device).allocated_bytes.peak; }
size_t max_memory_reserved(Device device) { return stats_of(device).reserved_bytes.peak; }

void reset_peak_memory(Device device) {
  if (BlockPool* pool = existing_pool(device)) pool->reset_peak();
}

void empty_cache() {
  for (int8_t i = 0; i < kMaxDevices; ++i) {
    const Device device(DeviceType::kCUDA, i);
    BlockPool* pool = existing_pool(device);
    if (pool == nullptr) continue;
    const DeviceScope on(device);
    pool->empty_cache();
  }
  if (PoolAllocator* pinned = g_pinned_allocator.load(std::memory_order_acquire)) {
    pinned->pool().empty_cache();
  }
}

void set_memory_limit(size_t bytes, Device device) { device_pool(device).pool().set_limit(bytes); }
void set_memory_history(size_t events, Device device) {
  device_pool(device).pool().set_history(events);
}
FaultPoint& allocation_fault(Device device) { return device_pool(device).pool().fault(); }
FaultPoint& pinned_allocation_fault() { return pinned_pool().pool().fault(); }

std::string memory_snapshot(Device device) {
  const BlockPool* pool = existing_pool(device);
  return pool == nullptr ? "{}" : pool->snapshot();
}

}  // namespace lathe::cuda
