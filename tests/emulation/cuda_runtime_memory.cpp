// Memory and copies of the emulated CUDA runtime; see cuda_runtime_machine.h.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "cuda_runtime_machine.h"
#include "device_failure.h"
#include "device_ranges.h"
#include "kernel_access.h"

namespace lathe::emulation {
namespace {

bool on_device(const void* memory, size_t bytes) {
  return device_ranges().holds(memory, bytes) ||
         std::ranges::any_of(machine().memories,
                             [&](const auto& emulated) { return emulated->holds(memory, bytes); });
}

bool is_pinned(const void* memory) {
  char* p = const_cast<char*>(static_cast<const char*>(memory));
  auto at = machine().pinned.upper_bound(p);
  if (at == machine().pinned.begin()) return false;
  --at;
  return p < at->first + at->second.bytes;
}

void move_bytes(void* to, const void* from, size_t bytes) {
  note_access(from, bytes, false);
  note_access(to, bytes, true);
  std::memmove(to, from, bytes);
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 StreamState& stream) {
  const bool to_device = on_device(to, bytes), from_device = on_device(from, bytes);
  const bool wants_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool wants_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (to_device != wants_to || from_device != wants_from)) {
    return cudaErrorInvalidValue;
  }
  const auto enqueue = [&stream](std::function<void()> run) { submit(stream, std::move(run)); };
  if (is_recorded(stream)) {  // pageable memory too: at each launch
    submit(stream, [=] { move_bytes(to, from, bytes); }, {{.memory = to}, {.memory = from}});
    return cudaSuccess;
  }
  if (to_device && !from_device && !is_pinned(from)) {  // pageable memory is read at once
    ++runtime_probe().pageable_copies;
    const auto* first = static_cast<const unsigned char*>(from);
    enqueue([to, bytes = std::vector<unsigned char>(first, first + bytes)] {
      note_access(to, bytes.size(), true);
      std::memcpy(to, bytes.data(), bytes.size());
    });
    return cudaSuccess;
  }
  if (from_device && !to_device && copy_fault().hit()) {
    enqueue([] { machine().failed = true; });
  } else {
    enqueue([=] { move_bytes(to, from, bytes); });
  }
  if (!to_device && !is_pinned(to)) {  // pageable memory is written before the call returns
    drain(stream);
    return waited();
  }
  return cudaSuccess;
}

}  // namespace

uint64_t birth_at(const void* memory) {
  for (const auto& emulated : machine().memories) {
    if (emulated->owns(memory)) return emulated->birth_of(memory);
  }
  if (const auto mapping = device_ranges().mapping_of(memory); mapping.first != nullptr) {
    return device_ranges().birth_of(mapping.first);
  }
  auto pinned = machine().pinned.upper_bound(const_cast<char*>(static_cast<const char*>(memory)));
  if (!is_pinned(memory)) return 0;
  return std::prev(pinned)->second.birth;
}

MemoryRange usable_memory(const void* at) {
  const auto range = [](const std::pair<const void*, size_t>& block) {
    const auto begin = reinterpret_cast<uintptr_t>(block.first);
    return MemoryRange{begin, begin + block.second};
  };
  for (const auto& emulated : machine().memories) {
    if (emulated->owns(at)) return range(emulated->block_of(at));
  }
  if (const auto mapping = device_ranges().mapping_of(at); mapping.first != nullptr) {
    // A tensor may go on in the next mapping.
    MemoryRange found = range(mapping);
    while (device_ranges().holds(reinterpret_cast<const void*>(found.end), 1)) {
      found.end = range(device_ranges().mapping_of(reinterpret_cast<const void*>(found.end))).end;
    }
    return found;
  }
  auto pinned = machine().pinned.upper_bound(const_cast<char*>(static_cast<const char*>(at)));
  if (pinned == machine().pinned.begin()) return {};
  --pinned;
  return range({pinned->first, pinned->second.bytes});
}

const char* unusable_memory_text(const void* at) {
  const bool of_device = device_ranges().owns(at) ||
                         std::ranges::any_of(machine().memories, [&](const auto& emulated) {
                           return emulated->owns(at);
                         });
  return of_device ? "device memory outside every block, or given back" : "memory of the host";
}

size_t free_bytes_of(int device) {
  const EmulatedMemory& emulated = *machine().memories[static_cast<size_t>(device)];
  return emulated.bytes() - emulated.live_bytes() - device_ranges().bytes_of(device);
}

}  // namespace lathe::emulation

using namespace lathe::emulation;

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (machine().memories.empty()) return result(cudaErrorNoDevice);
  const auto& emulated = *machine().memories[static_cast<size_t>(this_thread().device)];
  *total = emulated.bytes();
  *free = free_bytes_of(this_thread().device);
  make_context();
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (machine().memories.empty()) return result(cudaErrorNoDevice);
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  make_context();
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!runtime_probe().malloc_fault.hit() && bytes <= free_bytes_of(this_thread().device)) {
    *memory = machine().memories[static_cast<size_t>(this_thread().device)]->allocate(bytes);
  }
  if (*memory == nullptr) return result(cudaErrorMemoryAllocation);
  runtime_probe().device_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (memory == nullptr) return cudaSuccess;
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  drain_all();  // a free waits for the device
  for (const auto& emulated : machine().memories) {
    const size_t before = emulated->live_bytes();
    if (!emulated->deallocate(memory)) continue;
    runtime_probe().device_bytes -= before - emulated->live_bytes();
    return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  *memory = nullptr;
  if (machine().memories.empty()) return result(cudaErrorNoDevice);
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  make_context();
  if (!runtime_probe().malloc_fault.hit()) {
    *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  }
  if (*memory == nullptr) return result(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xA5, bytes);
  machine().pinned.emplace(static_cast<char*>(*memory),
                           Machine::Pinned{bytes, ++machine().blocks_made});
  runtime_probe().pinned_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  if (memory == nullptr) return cudaSuccess;
  if (capture_refuses()) return result(kStreamCaptureUnsupported);
  const auto at = machine().pinned.find(static_cast<char*>(memory));
  if (at == machine().pinned.end()) return result(cudaErrorInvalidValue);
  drain_all();
  runtime_probe().pinned_bytes -= at->second.bytes;
  machine().pinned.erase(at);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  *attributes = {.type = on_device(memory, 0) ? cudaMemoryTypeDevice
                         : is_pinned(memory)  ? cudaMemoryTypeHost
                                              : cudaMemoryTypeUnregistered};
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Call call;
  if (machine().failed) return result(cudaErrorLaunchFailure);
  StreamState* state = find_stream(stream);
  if (state == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t problem = capture_problem(stream); problem != cudaSuccess) {
    return result(problem);
  }
  return bytes == 0 ? cudaSuccess : result(copy(to, from, bytes, kind, *state));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const Call call;
  if (!on_device(memory, bytes)) return result(cudaErrorInvalidValue);
  return enqueue_kernel(stream, [=] {
    note_access(memory, bytes, true);
    std::memset(memory, value, bytes);
  });
}
