// What core asks of the CUDA backend, below the public interface of cuda.h and stream.h. Defined in
// core/gpu/*_cuda.cpp or, in a build without CUDA, in core/gpu/cuda_absent.cpp. Handles are those
// of the CUDA runtime.
#pragma once

#include "lathe/core/allocator.h"
#include "lathe/core/cuda.h"
#include "lathe/core/stream.h"

namespace lathe {
class Generator;
class RandomStart;
class Tensor;
}  // namespace lathe

namespace lathe::cuda {

/// GPUs beyond this number are not used: per-device state is kept in arrays of this size.
inline constexpr int kMaxDevices = 64;

/// Loads every library of libraries() (cuda.h) that is not loaded yet, for a report. If one cannot
/// be loaded, its `problem` says why.
LATHE_API void load_libraries();
/// Warns of each library with a problem, once per process.
void warn_of_other_libraries();

/// Cached memory of a GPU. A block belongs to the stream that is current when it is taken.
/// throws: NoCudaError, DeviceError.
Allocator& device_allocator(Device device);
/// Cached host memory that a GPU reads and writes by itself.
/// throws: NoCudaError.
Allocator& pinned_allocator();
/// Says that the work queued on `stream` so far also uses a pinned block. Waits for that work if
/// the stream is of another GPU than the first: the pool of pinned memory has the first GPU's
/// events.
void record_pinned(void* block, Stream stream);

/// dst = src where they are on different devices, at least one of them a GPU. Converts and
/// broadcasts like copy_values. Waits if the host gets the result. From pinned memory to a GPU it
/// also waits, unless `async`.
void transfer(const Tensor& dst, const Tensor& src, bool async);

/// A stream for one user until it is given back. Earlier users' work may still be queued on it.
void* create_stream(Device device);
void give_back_stream(Device device, void* stream) noexcept;
void synchronize_stream(Stream stream);
/// Says that the work queued on `stream` so far also uses the block, memory of `device`. Does
/// nothing for memory that is not the pool's. Waits if the stream is of another device.
void record_stream(void* block, Device device, Stream stream);

/// True while the stream's work is captured into a CUDA graph.
bool is_capturing(Stream stream);
/// throws: StateError if the stream's work is captured, for `op`, which would wait for it.
void refuse_in_capture(const char* op, Stream stream);
/// True while the current stream, or any stream that allocates from a graph's private pool, is
/// captured: nothing may wait for the device then.
bool capture_underway(Device device);
/// As reserve_words() (core/random/random_start.h) while `device`'s current stream is captured.
RandomStart reserve_in_capture(Generator& generator, Device device, uint64_t counters);
/// Bytes that the current stream could get now: the largest cached block and what the driver has
/// left.
size_t available_memory(Device device);

/// Blocks taken from the driver so far, of device and pinned memory.
uint64_t driver_allocations() noexcept;
void count_driver_allocation() noexcept;

void* create_event(Device device, bool timing);
void destroy_event(Device device, void* event) noexcept;
void record_event(void* event, Stream stream);
void wait_event(Stream stream, void* event);
bool query_event(Device device, void* event);
void synchronize_event(Device device, void* event);
double elapsed_ms(Device device, void* from, void* to);

/// A range of this thread in NVIDIA's tools (NVTX), if the build has their header.
void push_tool_range(const char* name) noexcept;
void pop_tool_range() noexcept;

/// Throws the error that kernels on `device` noted (core/gpu/device_fault.h) and clears it. Call it
/// after a wait.
void check_fault(Device device);

}  // namespace lathe::cuda
