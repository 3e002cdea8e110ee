// The functions of core/cuda.h, core/stream.h and core/cuda_backend.h in a build without CUDA.
#include "lathe/core/cuda.h"

#include "lathe/core/allocator.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/gpu/loaded_kernel.h"
#include "lathe/core/random/random_start.h"
#include "lathe/core/tensor.h"

namespace lathe {

namespace cuda {

int device_count() noexcept { return 0; }

const std::string& unavailable_reason() noexcept {
  static const std::string reason = "this build has no CUDA backend";
  return reason;
}

DeviceInfo device_info(int) { throw_no_cuda("device_info"); }
Versions versions() { return {}; }
std::vector<Library> libraries() { return {}; }
void load_libraries() {}
void warn_of_other_libraries() {}

size_t memory_allocated(Device) { return 0; }
size_t memory_reserved(Device) { return 0; }
size_t max_memory_allocated(Device) { return 0; }
size_t max_memory_reserved(Device) { return 0; }
void reset_peak_memory(Device) {}
void empty_cache() {}
void set_memory_limit(size_t, Device) {}
void set_memory_history(size_t, Device) {}
FaultPoint& allocation_fault(Device) { throw_no_cuda("allocation_fault"); }
FaultPoint& pinned_allocation_fault() { throw_no_cuda("pinned_allocation_fault"); }
std::string memory_snapshot(Device) { return "{}"; }
void synchronize(Device) {}
Counters counters() noexcept { return {}; }

Allocator& device_allocator(Device device) {
  LATHE_FAIL(NoCudaError, "allocator_for: no memory on ", device,
             ": this build has no CUDA backend; configure with -DLATHE_CUDA=ON");
}
Allocator& pinned_allocator() { throw_no_cuda("pin_memory"); }
void record_pinned(void*, Stream) {}

void transfer(const Tensor& dst, const Tensor& src, bool) {
  LATHE_FAIL(NoCudaError, "copy: this build has no CUDA backend (dst: ", dst, ", src: ", src, ")");
}

void* create_stream(Device) { throw_no_cuda("OwnedStream"); }
void give_back_stream(Device, void*) noexcept {}
void synchronize_stream(Stream) {}
void record_stream(void*, Device, Stream) {}
bool is_capturing(Stream) { return false; }
bool capture_underway(Device) { return false; }
RandomStart reserve_in_capture(Generator&, Device, uint64_t) { throw_no_cuda("cuda::Graph"); }

void before_each_launch(std::function<void()>) {}
void after_each_launch(std::function<void()>) {}
void at_end_of_capture(std::function<void()>) {}
uint64_t capture_number() noexcept { return 0; }
struct Graph::Impl {};
Graph::Graph(Device) { throw_no_cuda("cuda::Graph"); }
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph Graph::with_pool_of(const Graph&) { throw_no_cuda("cuda::Graph"); }
void Graph::capture(const std::function<void()>&) { throw_no_cuda("cuda::Graph"); }
void Graph::launch() { throw_no_cuda("cuda::Graph"); }
size_t Graph::size() const noexcept { return 0; }

void* create_event(Device, bool) { throw_no_cuda("Event"); }
void destroy_event(Device, void*) noexcept {}
void record_event(void*, Stream) {}
void wait_event(Stream, void*) {}
bool query_event(Device, void*) { return true; }
void synchronize_event(Device, void*) {}
double elapsed_ms(Device, void*, void*) { return 0; }

ComputeCapability compute_capability(Device) { throw_no_cuda("compute_capability"); }
LoadedKernel::LoadedKernel(const std::string&, const char*, Device) {
  throw_no_cuda("LoadedKernel");
}
void LoadedKernel::launch(int64_t, std::span<void*>) const {}

}  // namespace cuda

namespace detail {
void count_launch() noexcept {}
void count_synchronization() noexcept {}
}  // namespace detail

}  // namespace lathe
