// What the emulated CUDA runtime refuses, and what it does as late as it may.
#include "cuda_runtime_emulation.h"

#include <doctest/doctest.h>

#include "device_failure.h"
#include "schedule.h"

using namespace lathe::emulation;

TEST_CASE("emulated runtime: a destroyed stream's work goes on, and its handle is the next one's") {
  const ScheduleScope late({.early = 0});
  cudaStream_t first = nullptr, second = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) == cudaSuccess);
  int done = 0;
  enqueue_kernel(first, [&] { done = 1; });
  CHECK(cudaStreamDestroy(first) == cudaSuccess);
  CHECK(done == 0);
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  CHECK(cudaStreamGetCaptureInfo(first, &status, &id) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(first) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(second == first);
  CHECK(cudaStreamSynchronize(second) == cudaSuccess);
  CHECK(done == 0);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(done == 1);
  CHECK(cudaStreamDestroy(second) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("emulated runtime: a capture refuses memory and waits, except in relaxed mode") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 8) != cudaSuccess);
  CHECK(cudaHostAlloc(&memory, 8, cudaHostAllocDefault) != cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) != cudaSuccess);
  CHECK(cudaDeviceSynchronize() != cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(cudaMalloc(&memory, 8) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) != cudaSuccess);
  CHECK(cudaDeviceSynchronize() != cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaGraph_t nothing = nullptr;
  CHECK(cudaStreamEndCapture(stream, &nothing) != cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("emulated runtime: the attributes of memory tell where it is") {
  void *device = nullptr, *host = nullptr;
  REQUIRE(cudaMalloc(&device, 8) == cudaSuccess);
  REQUIRE(cudaHostAlloc(&host, 8, cudaHostAllocDefault) == cudaSuccess);
  const auto type_of = [](const void* memory) {
    cudaPointerAttributes attributes{};
    CHECK(cudaPointerGetAttributes(&attributes, memory) == cudaSuccess);
    return attributes.type;
  };
  CHECK(type_of(device) == cudaMemoryTypeDevice);
  CHECK(type_of(host) == cudaMemoryTypeHost);
  CHECK(type_of(&device) == cudaMemoryTypeUnregistered);
  CHECK(cudaFree(device) == cudaSuccess);
  CHECK(cudaFreeHost(host) == cudaSuccess);
}

TEST_CASE("emulated runtime: after a kernel has failed nothing runs, and every call says so") {
  const ScheduleScope late({.early = 0});
  int done = 0;
  kernel_fault().fail_at(2);
  for (int i = 0; i < 3; ++i) CHECK(enqueue_kernel(nullptr, [&] { ++done; }) == cudaSuccess);
  kernel_fault().disarm();
  CHECK(cudaStreamSynchronize(nullptr) == cudaErrorLaunchFailure);
  CHECK(done == 1);
  void* memory = nullptr;
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaMalloc(&memory, 8) == cudaErrorLaunchFailure);
  CHECK(enqueue_kernel(nullptr, [&] { ++done; }) == cudaErrorLaunchFailure);
  replace_devices();
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(done == 1);
}
