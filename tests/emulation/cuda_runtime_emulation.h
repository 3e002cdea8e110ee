// The part of the CUDA runtime that Lathe calls, for machines without a GPU: one or more devices
// whose memory is host memory and whose kernels run on fibers (cuda_emulation.h).
//
// It keeps the rules that a GPU enforces, so that breaking one shows up in the tests:
// - Work is queued. A stream's work runs when somebody waits for it, as late as the rules allow, so
//   that a missing wait reads old values.
// - Device memory is out of the host's reach (PROT_NONE) except while queued work runs.
// - Copies from and to page-locked host memory are queued, whoever took it.
// - New memory begins with 4 MiB of 0xA5 bytes. A copy whose ends are not where its kind says, a
//   double free, a dead stream or event: cudaErrorInvalidValue or cudaErrorInvalidResourceHandle.
// - Destroying a stream does not wait. Its work goes on, and the next stream may get its handle.
// - What a GPU does in any order is done in one that is drawn by lot: schedule.h.
//
// LATHE_EMULATED_DEVICES (default 1) and LATHE_EMULATED_MEMORY (bytes per device, default 16 GiB,
// of which only what is touched is taken) shape the machine. A device has kMultiprocessors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>

#include "lathe/core/fault.h"
#include "lathe/tests/emulation/cuda_emulation.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
};

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};

enum cudaMemoryType {
  cudaMemoryTypeUnregistered,
  cudaMemoryTypeHost,
  cudaMemoryTypeDevice,
  cudaMemoryTypeManaged,
};
struct cudaPointerAttributes {
  cudaMemoryType type;
};

namespace lathe::emulation {
struct GraphState;
}  // namespace lathe::emulation
using cudaGraph_t = lathe::emulation::GraphState*;
using cudaGraphExec_t = lathe::emulation::GraphState*;
struct cudaGraphNode_t;

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed,
};

namespace lathe::emulation {
inline constexpr int kMultiprocessors = 4;
}  // namespace lathe::emulation

enum cudaDeviceAttr {
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound,
};

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
  int pciDomainID, pciBusID, pciDeviceID;
};

namespace lathe::emulation {
struct StreamState;
struct EventState;
}  // namespace lathe::emulation
using cudaStream_t = lathe::emulation::StreamState*;
using cudaEvent_t = lathe::emulation::EventState*;

inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0,
                          cudaEventDisableTiming = 2, cudaEventRecordDefault = 0,
                          cudaEventRecordExternal = 1, cudaHostAllocDefault = 0,
                          cudaHostAllocPortable = 1, cudaEnableDefault = 0;

/// Of a structure that is smaller than the runtime's own, hence with a name of C++.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);

// Named as in the runtime's library, so that objects of nvcc's can be linked with them (tests/ptx).
extern "C" {

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);

// A capture of one stream: no stream joins it, and an event recorded on it is refused.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

/// Of the functions in driver/cuda.h.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* answer);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

}  // extern "C"

namespace lathe::emulation {

/// Queues a kernel: `run` executes its grid.
cudaError_t enqueue_kernel(cudaStream_t stream, std::function<void()> run);

/// What the parameters of one kernel may take, with the gaps between them: CUDA 12.1 and later,
/// from compute capability 7.0 on; 4,096 before. A launch of more does not compile, here as with
/// nvcc.
inline constexpr size_t kMostParameterBytes = 32764;
template <class... Parameters>
constexpr size_t parameter_bytes() {
  size_t bytes = 0;
  ((bytes = (bytes + alignof(Parameters) - 1) / alignof(Parameters) * alignof(Parameters) +
            sizeof(Parameters)),
   ...);
  return bytes;
}

/// A kernel without its type: call(address, arguments) calls it with *arguments[i] as parameter i.
struct ErasedKernel {
  void (*address)();
  void (*call)(void (*address)(), void* const* arguments);
};
template <class... Parameters>
ErasedKernel erase(void (*kernel)(Parameters...)) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "a launch copies bytes");
  static_assert(((alignof(Parameters) <= alignof(std::max_align_t)) && ...));
  static_assert(parameter_bytes<Parameters...>() <= kMostParameterBytes);
  return {reinterpret_cast<void (*)()>(kernel), [](void (*address)(), void* const* arguments) {
            [&]<size_t... I>(std::index_sequence<I...>) {
              watch_kernel(true);
              reinterpret_cast<void (*)(Parameters...)>(address)(
                  *static_cast<Parameters*>(arguments[I])...);
              watch_kernel(false);
            }
            (std::index_sequence_for<Parameters...>{});
          }};
}

struct KernelArgument {
  const void* bytes;
  size_t size;
};
/// Copies the arguments, as a launch does, and queues the kernel. In a build without a backend,
/// where there are neither queues nor device tensors, it has run when this returns. A launch beyond
/// the GPU's limits is refused; see launch_limits.h.   throws: what the kernel throws, in such a
/// build.
cudaError_t launch_kernel(ErasedKernel kernel, dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, std::span<const KernelArgument> arguments);

}  // namespace lathe::emulation

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

/// How core/gpu/launch.h starts a kernel. Arguments that convert are temporaries.
template <class... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const std::type_identity_t<Parameters>&... arguments) {
  const lathe::emulation::KernelArgument erased[] = {{&arguments, sizeof(Parameters)}...};
  return lathe::emulation::launch_kernel(lathe::emulation::erase(kernel), config->gridDim,
                                         config->blockDim, config->dynamicSmemBytes, config->stream,
                                         erased);
}

namespace lathe::emulation {

/// For the other files of the emulation: the machine, until the lock ends; and a device's memory.
std::unique_lock<std::recursive_mutex> enter_machine();
size_t free_bytes_of(int device);
/// Whether the device has a context: some call has needed one.
bool has_context(int device);

/// What tests look at and break.
struct RuntimeProbe {
  FaultPoint malloc_fault;  // fails the n-th cudaMalloc, cudaHostAlloc or cuMemCreate
  FaultPoint graph_fault;   // fails the n-th of the calls that begin, end, instantiate and launch
  size_t device_bytes = 0;  // taken by cudaMalloc and not given back
  size_t pinned_bytes = 0;
  size_t streams = 0, events = 0, graphs = 0;  // alive; executable graphs too
  uint64_t pageable_copies = 0;                // to a device, from memory that is not page-locked
  uint64_t calls = 0;  // of any function above: 0 in a program that never used the GPU
  // A GPU that does nothing: kernels, copies and graphs are dropped as they are queued, so that the
  // time of the calls is the host's own. Memory keeps its values.
  bool idle = false;
};
RuntimeProbe& runtime_probe();

}  // namespace lathe::emulation
