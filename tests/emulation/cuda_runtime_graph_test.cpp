// Captures and graphs of the emulated runtime: what they repeat, what they refuse, and the faults
// that they show.
#include <doctest/doctest.h>

#include <string>

#include "lathe/core/gpu/launch.h"
#include "schedule.h"

using namespace lathe;

namespace {

__global__ void add_kernel(int* sum, int value) { *sum += value; }

cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  LATHE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

int* new_number() {
  void* memory = nullptr;
  LATHE_CUDA_CHECK(cudaMalloc(&memory, sizeof(int)));
  LATHE_CUDA_CHECK(cudaMemsetAsync(memory, 0, sizeof(int), nullptr));
  LATHE_CUDA_CHECK(cudaDeviceSynchronize());
  return static_cast<int*>(memory);
}

int value_of(const int* number) {
  int value = -1;
  LATHE_CUDA_CHECK(cudaMemcpyAsync(&value, number, sizeof(int), cudaMemcpyDeviceToHost, nullptr));
  return value;
}

cudaError_t add(int* sum, int value, cudaStream_t stream) {
  const emulation::KernelArgument arguments[] = {{&sum, sizeof sum}, {&value, sizeof value}};
  return emulation::launch_kernel(emulation::erase(add_kernel), dim3(1), dim3(1), 0, stream,
                                  arguments);
}

/// A graph of what `work` gives the stream.
template <class Work>
cudaGraphExec_t record(cudaStream_t stream, Work&& work) {
  LATHE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  work();
  cudaGraph_t graph = nullptr;
  LATHE_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  LATHE_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  LATHE_CUDA_CHECK(cudaGraphDestroy(graph));
  return executable;
}

/// What `work`, underway during a capture, returns; the capture must come to nothing.
template <class Work>
cudaError_t refused_in_capture(cudaStream_t stream, Work&& work) {
  LATHE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const cudaError_t error = work();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == static_cast<cudaError_t>(901));
  CHECK(graph == nullptr);
  cudaGetLastError();
  return error;
}

constexpr auto kUnsupported = static_cast<cudaError_t>(900),
               kUnjoined = static_cast<cudaError_t>(904), kImplicit = static_cast<cudaError_t>(906),
               kCapturedEvent = static_cast<cudaError_t>(907);

}  // namespace

TEST_CASE("emulated graph: nodes hold copies of their arguments" * doctest::skip(!kHasCuda)) {
  const cudaStream_t stream = new_stream();
  int* const sum = new_number();
  int value = 3;
  const cudaGraphExec_t graph = record(stream, [&] {
    add(sum, value, stream);
    value = 5;
    add(sum, value, stream);
  });
  value = 1000;  // no matter: a graph is changed by recording it anew
  CHECK(value_of(sum) == 0);
  for (int launch = 1; launch <= 3; ++launch) {
    CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(value_of(sum) == 8 * launch);
  }
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
  CHECK(cudaFree(sum) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE(
    "emulated graph: an argument whose memory was given back is found when the graph is launched" *
    doctest::skip(!kHasCuda)) {
  const cudaStream_t stream = new_stream();
  int* const sum = new_number();
  int* other = new_number();
  const cudaGraphExec_t graph = record(stream, [&] {
    add(sum, 1, stream);
    add(other, 1, stream);
  });
  CHECK(cudaFree(other) == cudaSuccess);
  for (const bool taken_again : {false, true}) {
    if (taken_again) other = new_number();  // at the same address, and somebody else's
    CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess);
    std::string text;
    try {
      cudaStreamSynchronize(stream);
    } catch (const CudaError& error) {
      text = error.what();
    }
    CHECK(text.find("graph: node 2: argument 1, byte 0, of ") != text.npos);
    CHECK(text.find("add_kernel") != text.npos);
    CHECK(text.find("given back after it was recorded") != text.npos);
  }
  CHECK(value_of(sum) == 2);
  CHECK(value_of(other) == 0);
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
  CHECK(cudaFree(sum) == cudaSuccess);
  CHECK(cudaFree(other) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("emulated graph: what a capture refuses ends it") {
  const cudaStream_t stream = new_stream();
  int* const number = new_number();
  void* memory = nullptr;
  CHECK(refused_in_capture(stream, [&] { return cudaMalloc(&memory, 8); }) == kUnsupported);
  CHECK(refused_in_capture(stream, [&] { return cudaFree(number); }) == kUnsupported);
  CHECK(refused_in_capture(stream, [&] { return cudaStreamSynchronize(stream); }) == kUnsupported);
  CHECK(refused_in_capture(stream, [&] { return cudaStreamQuery(stream); }) == kUnsupported);
  CHECK(refused_in_capture(
            stream, [&] { return cudaMemsetAsync(number, 0, sizeof(int), nullptr); }) == kImplicit);
  CHECK(refused_in_capture(stream, [&] {
          return cudaMemcpyAsync(number, number, sizeof(int), cudaMemcpyDeviceToDevice, nullptr);
        }) == kImplicit);
  // The legacy stream and a stream that is not non-blocking wait for each other.
  const cudaStream_t blocking = new_stream(0);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(refused_in_capture(blocking, [&] {
          return cudaMemsetAsync(number, 0, sizeof(int), nullptr);
        }) == kImplicit);
  const cudaGraphExec_t graph = record(
      stream, [&] { CHECK(cudaMemsetAsync(number, 1, sizeof(int), nullptr) == cudaSuccess); });
  cudaThreadExchangeStreamCaptureMode(&mode);
  CHECK(value_of(number) == 0x01010101);
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
  CHECK(cudaFree(number) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
}

TEST_CASE("emulated graph: a stream that waits for a captured event joins, and must be waited for" *
          doctest::skip(!kHasCuda)) {
  const cudaStream_t stream = new_stream(), branch = new_stream();
  cudaEvent_t fork = nullptr, join = nullptr;
  for (cudaEvent_t* event : {&fork, &join})
    REQUIRE(cudaEventCreateWithFlags(event, cudaEventDisableTiming) == cudaSuccess);
  int* const number = new_number();
  const auto begin = [&] {
    CHECK(cudaEventRecord(fork, stream) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(branch, fork, 0) == cudaSuccess);
  };
  const auto end = [&] {
    CHECK(cudaEventRecord(join, branch) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(stream, join, 0) == cudaSuccess);
  };
  const cudaGraphExec_t graph = record(stream, [&] {
    begin();
    CHECK(add(number, 5, branch) == cudaSuccess);
    end();
  });
  CHECK(value_of(number) == 0);
  CHECK(cudaEventQuery(join) == kCapturedEvent);
  CHECK(cudaEventSynchronize(join) == kCapturedEvent);
  CHECK(cudaStreamWaitEvent(branch, join, 0) == kCapturedEvent);
  cudaGetLastError();
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(value_of(number) == 10);
  CHECK(add(number, 1, branch) == cudaSuccess);  // it belongs to no capture any more
  CHECK(cudaStreamSynchronize(branch) == cudaSuccess);
  CHECK(value_of(number) == 11);

  const auto ends_with = [&](auto&& work) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    work();
    cudaGraph_t none = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &none);
    CHECK(none == nullptr);
    return error;
  };
  CHECK(ends_with(begin) == kUnjoined);
  CHECK(ends_with([&] {
          begin();
          end();
          CHECK(add(number, 1, branch) == cudaSuccess);
        }) == kUnjoined);
  cudaGetLastError();
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
  CHECK(cudaFree(number) == cudaSuccess);
  for (const cudaEvent_t event : {fork, join}) CHECK(cudaEventDestroy(event) == cudaSuccess);
  for (const cudaStream_t each : {stream, branch}) CHECK(cudaStreamDestroy(each) == cudaSuccess);
}

TEST_CASE("emulated graph: each launch records an external event anew" * doctest::skip(!kHasCuda)) {
  const cudaStream_t stream = new_stream();
  cudaEvent_t from = nullptr, to = nullptr;
  for (cudaEvent_t* event : {&from, &to})
    REQUIRE(cudaEventCreateWithFlags(event, cudaEventDefault) == cudaSuccess);
  int* const number = new_number();
  const auto mark = [&](cudaEvent_t event) {
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal);
  };
  CHECK(mark(from) == cudaErrorInvalidValue);  // outside of a capture
  cudaGetLastError();
  const cudaGraphExec_t graph = record(stream, [&] {
    CHECK(mark(from) == cudaSuccess);
    CHECK(add(number, 5, stream) == cudaSuccess);
    CHECK(mark(to) == cudaSuccess);
  });
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, from, to) == cudaErrorInvalidResourceHandle);  // not launched
  cudaGetLastError();
  for (int i = 1; i <= 2; ++i) {
    CHECK(cudaGraphLaunch(graph, stream) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&ms, from, to) == cudaErrorNotReady);
    CHECK(cudaEventSynchronize(to) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&ms, from, to) == cudaSuccess);
    CHECK(ms >= 0);
    CHECK(value_of(number) == 5 * i);
  }
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
  CHECK(cudaFree(number) == cudaSuccess);
  for (const cudaEvent_t event : {from, to}) CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

// Planted: the second stream reads what the first one writes. Without a wait the host, which waits
// for the first one before the second, hides it from a device that does everything as late as it
// may.
TEST_CASE("emulated streams: a wait between two streams that is missing shows under some seeds") {
  for (const bool waits : {true, false}) {
    int right = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      const emulation::ScheduleScope scope({.seed = seed, .early = 3});
      const cudaStream_t first = new_stream(), second = new_stream();
      cudaEvent_t event = nullptr;
      REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
      int written = 0, read = 0;
      for (int i = 0; i < 3; ++i) emulation::enqueue_kernel(first, [] {});
      emulation::enqueue_kernel(first, [&] { written = 7; });
      CHECK(cudaEventRecord(event, first) == cudaSuccess);
      if (waits) CHECK(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
      emulation::enqueue_kernel(second, [&] { read = written; });
      CHECK(cudaStreamSynchronize(first) == cudaSuccess);
      CHECK(cudaStreamSynchronize(second) == cudaSuccess);
      right += read == 7 ? 1 : 0;
      CHECK(cudaEventDestroy(event) == cudaSuccess);
      CHECK(cudaStreamDestroy(first) == cudaSuccess);
      CHECK(cudaStreamDestroy(second) == cudaSuccess);
    }
    if (waits) {
      CHECK(right == 30);
    } else {
      CHECK(right > 0);
      CHECK(right < 30);
    }
  }
}

// Planted: the event is recorded again, on a stream with nothing to do, before the wait is served.
TEST_CASE("emulated streams: a wait is for what the event had recorded when it was queued") {
  const emulation::ScheduleScope late({.early = 0});
  const cudaStream_t first = new_stream(), second = new_stream(), idle = new_stream();
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);  // for nothing
  int written = 0, read = 0;
  emulation::enqueue_kernel(first, [&] { written = 7; });
  CHECK(cudaEventRecord(event, first) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
  emulation::enqueue_kernel(second, [&] { read = written; });
  CHECK(cudaEventRecord(event, idle) == cudaSuccess);
  SUBCASE("recorded again") {}
  SUBCASE("and its stream destroyed") { CHECK(cudaStreamDestroy(first) == cudaSuccess); }
  SUBCASE("and the event destroyed") { CHECK(cudaEventDestroy(event) == cudaSuccess); }
  CHECK(cudaStreamSynchronize(second) == cudaSuccess);
  CHECK(read == 7);
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  CHECK(cudaStreamDestroy(second) == cudaSuccess);
  CHECK(cudaStreamDestroy(idle) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("emulated streams: work runs before anybody waits, in the order of its stream") {
  const emulation::ScheduleScope scope({.seed = 1, .early = 2});
  const cudaStream_t stream = new_stream();
  int done = 0, out_of_order = 0;
  for (int i = 0; i < 100; ++i) {
    emulation::enqueue_kernel(stream, [&, i] { out_of_order += done++ != i ? 1 : 0; });
  }
  CHECK(done > 20);
  CHECK(done < 100);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(done == 100);
  CHECK(out_of_order == 0);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}
