// What core asks of the CUDA backend, below the public face of cuda.h and stream.h. Defined in
// core/gpu/*_cuda.cpp or, in a build without CUDA, in core/gpu/cuda_absent.cpp. Handles are the runtime's.
#pragma once

#include "lathe/core/allocator.h"
#include "lathe/core/cuda.h"
#include "lathe/core/stream.h"

namespace lathe {
class Tensor;
}

namespace lathe::cuda {

/// GPUs beyond these are not used: what is kept per device stands in arrays.
inline constexpr int kMaxDevices = 64;

/// Loads those of libraries() (cuda.h) that are not loaded yet, for a report: where one cannot be,
/// its problem says why.
LATHE_API void load_libraries();
/// A warning for each library with a problem, once per process.
void warn_of_other_libraries();

/// Memory of a GPU, cached; blocks belong to the stream that is current when they are taken.
/// throws: NoCudaError, DeviceError.
Allocator& device_allocator(Device device);
/// Host memory that a GPU reads and writes by itself, cached.   throws: NoCudaError.
Allocator& pinned_allocator();
/// A pinned block is also used by what was queued on `stream` so far. Waits for a stream of another
/// GPU than the first, whose events the pool of pinned memory has.
void record_pinned(void* block, Stream stream);

/// dst = src where at least one of them is on a GPU and they are on different devices; converts and
/// broadcasts like copy_values. Waits where the host gets the result. From pinned memory to a GPU:
/// waits too, unless `async`.
void transfer(const Tensor& dst, const Tensor& src, bool async);

/// A stream that nobody else has, until it is given back. It may have served others before, and
/// their work may still be queued on it.
void* create_stream(Device device);
void give_back_stream(Device device, void* stream) noexcept;
void synchronize_stream(Stream stream);
/// The block's memory, of `device`, is also used by what was queued on `stream` so far. Does
/// nothing for memory that is not the pool's; waits for a stream of another device.
void record_stream(void* block, Device device, Stream stream);

/// True while the stream's work is captured into a graph.
bool is_capturing(Stream stream);
/// The same of the current stream, or of any that allocates from a graph's private pool: now
/// nothing may wait for the device.
bool capture_underway(Device device);
/// Bytes that could be had now on the current stream: the largest cached block, and what the driver
/// has left.
size_t available_memory(Device device);

/// Blocks taken from the driver so far, device and pinned memory.
uint64_t driver_allocations() noexcept;
void count_driver_allocation() noexcept;

void* create_event(Device device, bool timing);
void destroy_event(Device device, void* event) noexcept;
void record_event(void* event, Stream stream);
void wait_event(Stream stream, void* event);
bool query_event(Device device, void* event);
void synchronize_event(Device device, void* event);
double elapsed_ms(Device device, void* from, void* to);

/// Throws what kernels on `device` noted (core/gpu/device_fault.h), and clears it. Call after a wait.
void check_fault(Device device);

}  // namespace lathe::cuda
