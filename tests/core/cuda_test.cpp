// Streams, events, copies and memory of a GPU, real or emulated.
#include <doctest/doctest.h>

#include <cstdlib>
#include <numeric>

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/stream.h"
#include "lathe/ops/index.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const Device kGpu(DeviceType::kCUDA);

/// The pool of a GPU is made once per process: ctest runs the cases of memory a second time, with
/// the variable.
CudaCase wants_expandable_segments() {
  const bool set = std::getenv("LATHE_EXPANDABLE_SEGMENTS") != nullptr;
  if (!set) return {false, "needs LATHE_EXPANDABLE_SEGMENTS=1"};
  return cuda_case();
}

}  // namespace

TEST_CASE("copy: values survive the way to a GPU and back, whatever dtypes and strides" *
          cuda_case()) {
  const Tensor x = randn({3, 4, 5});
  for (const Layout& layout : layouts()) {
    const Tensor there = layout.apply(x).to(kGpu);
    CHECK(there.device() == kGpu);
    CHECK(difference(there.cpu(), x, 0) == "");
    CHECK(difference(layout.apply(there).cpu(), x, 0) == "");
  }
  for (const DType from : {kF32, kF64, kF16, kI64, kU8, kBool}) {
    for (const DType to : {kF32, kF64, kBF16, kI32, kBool}) {
      const Tensor source = cast(mul(rand({2, 7}), 9), from);
      const Tensor target = empty({2, 7}, {.dtype = to, .device = kGpu});
      copy_values(target, source);
      CHECK_MESSAGE(difference(target.cpu(), cast(source, to), 0) == "", concat(from, " to ", to));
    }
  }
  const Tensor wide = empty({4, 3}, {.device = kGpu});
  const Tensor row = rand({3});
  copy_values(wide, row);
  CHECK(difference(wide.cpu(), row.expand({4, 3}), 0) == "");
  const Tensor empty_one = zeros({0, 3}, {.device = kGpu});
  CHECK(empty_one.cpu().numel() == 0);
  CHECK(full({}, 2.5, {.device = kGpu}).item<double>() == 2.5);
}

TEST_CASE("pinned memory: copies are exact, and a block in use by a copy is not handed out" *
          cuda_case()) {
  const Tensor pinned = rand({1000}).pin_memory();
  CHECK(pinned.is_pinned());
  CHECK(pinned.pin_memory().is_same(pinned));
  CHECK_FALSE(rand({3}).is_pinned());
  CHECK(difference(pinned.to(kGpu).cpu(), pinned, 0) == "");
  const Tensor made = zeros({8}, {.pinned = true});
  CHECK(made.is_pinned());
  CHECK_THROWS_AS(zeros({8}, {.device = kGpu, .pinned = true}), DeviceError);
  // The copy is queued; the block is given back at once, and somebody else asks for one like it.
  Tensor target = empty({1000}, {.device = kGpu});
  Tensor source = full({1000}, 7).pin_memory();
  copy_values_async(target, source);
  source = Tensor();
  const Tensor next = full({1000}, 1).pin_memory();
  CHECK(target.sum().item<double>() == 7000);
}

TEST_CASE("pinned memory: a copy from the GPU is queued, and what it writes is nobody else's" *
          cuda_case()) {
  const Tensor sevens = full({1000}, 7.0, {.device = kGpu});
  cuda::synchronize();
  const uint64_t waits = cuda::counters().synchronizations;
  Tensor freed = zeros({1000}, {.pinned = true});
  const Tensor kept = zeros({1000}, {.pinned = true});
  copy_values_async(freed, sevens);
  copy_values_async(kept, sevens);
  CHECK(cuda::counters().synchronizations == waits);
  freed = Tensor();
  const Tensor next = full({1000}, 1.0).pin_memory();
  cuda::synchronize();
  CHECK(difference(kept, full({1000}, 7.0), 0) == "");
  CHECK(difference(next, full({1000}, 1.0), 0) == "");
  // Another dtype is converted on the host, which waits for what arrives.
  const Tensor wide = zeros({1000}, {.dtype = kF64, .pinned = true});
  copy_values_async(wide, sevens);
  CHECK(wide.to_vector<double>()[999] == 7);
}

TEST_CASE("pinned memory: what somebody else pinned is read when the copy returns" * cuda_case()) {
  const Tensor block = zeros({1000}, {.pinned = true});
  const Tensor lent = from_blob(block.raw_data(), {1000}, kF32, kCPU);
  REQUIRE_FALSE(lent.is_pinned());
  for (const auto copy : {copy_values, copy_values_async}) {
    lent.fill_(7);
    const Tensor target = empty({1000}, {.device = kGpu});
    copy(target, lent);
    lent.fill_(1);
    CHECK(target.sum().item<double>() == 7000);
  }
}

TEST_CASE("streams: work on two waits only where an event says so" * cuda_case()) {
  const OwnedStream side(kGpu);
  const Tensor x = full({100}, 3, {.device = kGpu});
  Event filled(kGpu);
  filled.record(current_stream(kGpu));
  Tensor doubled;
  {
    const StreamScope on(side);
    CHECK(current_stream(kGpu) == side.get());
    filled.block(side);
    doubled = add(x, x);
    record_stream(x, side);
  }
  CHECK_FALSE(current_stream(kGpu) == side.get());
  Event done(kGpu);
  done.record(side);
  done.synchronize();
  CHECK(done.done());
  CHECK(difference(doubled.cpu(), full({100}, 6), 0) == "");
}

TEST_CASE("streams: what a stream that is gone still does is not disturbed by the next one" *
          cuda_case()) {
  const Tensor seven = full({1000}, 7, {.device = kGpu});
  cuda::synchronize();
  Tensor doubled;
  {
    const OwnedStream side(kGpu);
    const StreamScope on(side);
    const Tensor copy = seven.clone();
    doubled = add(copy, copy);
  }
  {
    const OwnedStream side(kGpu);
    const StreamScope on(side);
    const Tensor other = full({1000}, 1, {.device = kGpu});  // where the copy was
    synchronize(side);
  }
  cuda::synchronize();
  CHECK(doubled.sum().item<double>() == 14000);
}

TEST_CASE("streams: record_stream takes pinned tensors, and others' memory as it is" *
          cuda_case()) {
  const OwnedStream side(kGpu);
  const Tensor target = empty({1000}, {.device = kGpu});
  Tensor source = full({1000}, 7).pin_memory();
  {
    const StreamScope on(side);
    copy_values_async(target, source);
  }
  record_stream(source, side);
  source = Tensor();
  const Tensor next = full({1000}, 1).pin_memory();
  synchronize(side);
  CHECK(target.sum().item<double>() == 7000);
  const Tensor block = ones({4}, {.device = kGpu});
  record_stream(from_blob(block.raw_data(), {4}, kF32, kGpu), side);
  record_stream(from_blob(block.data<float>() + 1, {3}, kF32, kGpu), side);
  record_stream(rand({3}), side);
}

TEST_CASE("events: waiting for one stream leaves the others at work" * cuda_case()) {
  const Tensor x = rand({5, 2}, {.device = kGpu});
  const Tensor y = index_select(x, 0, tensor({1}).to(kI64).to(kGpu));  // kernels may note faults
  Event computed(kGpu), done(kGpu);
  computed.record(current_stream(kGpu));
  const OwnedStream side(kGpu);
  done.record(side);
  const uint64_t before = cuda::counters().synchronizations;
  done.synchronize();
  synchronize(side);
  CHECK(cuda::counters().synchronizations == before + 2);
  if (!kHasCudaLibraries) CHECK_FALSE(computed.done());  // a GPU may be that fast
}

TEST_CASE("events: time passes between two of them" * cuda_case()) {
  Event from(kGpu, {.timing = true}), to(kGpu, {.timing = true});
  from.record(current_stream(kGpu));
  const Tensor x = mul(rand({1000}, {.device = kGpu}), 2);
  to.record(current_stream(kGpu));
  to.synchronize();
  CHECK(elapsed_ms(from, to) >= 0);
}

TEST_CASE("events: on the CPU they are reached at once and tell the time") {
  Event from(kCPU, {.timing = true}), to(kCPU, {.timing = true});
  from.record(current_stream(kCPU));
  to.record(current_stream(kCPU));
  CHECK(from.done());
  from.synchronize();
  from.block(current_stream(kCPU));
  CHECK(elapsed_ms(from, to) >= 0);
  const OwnedStream stream(kCPU);
  synchronize(stream);
}

TEST_CASE("memory: counters follow the tensors, and empty_cache gives everything back" *
          cuda_case()) {
  cuda::synchronize();
  cuda::empty_cache();
  const size_t before = cuda::memory_allocated(), reserved = cuda::memory_reserved();
  {
    const Tensor x = zeros({1 << 20}, {.device = kGpu});
    CHECK(cuda::memory_allocated() >= before + (size_t{4} << 20));
    CHECK(cuda::memory_reserved() >= cuda::memory_allocated());
  }
  CHECK(cuda::memory_allocated() == before);
  cuda::synchronize();
  cuda::empty_cache();
  CHECK(cuda::memory_reserved() <= reserved);
  CHECK(cuda::memory_snapshot().find("segments") != std::string::npos);
}

TEST_CASE("memory: an expandable segment grows in place, and gives its granules back" *
          wants_expandable_segments()) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const auto bytes = [](int64_t n) { return empty({n}, {.dtype = kU8, .device = kGpu}); };
  cuda::synchronize();
  cuda::empty_cache();
  const size_t before = cuda::memory_reserved();
  Tensor first = bytes(3 * kMiB), second = bytes(41 * kMiB);
  const void* const address = first.raw_data();
  const size_t reserved = cuda::memory_reserved();
  CHECK(cuda::memory_snapshot().find("\"expandable\": true") != std::string::npos);
  first = Tensor(), second = Tensor();
  Tensor both = bytes(44 * kMiB);  // of two sizes that a cache of fixed segments could not join
  CHECK(both.raw_data() == address);
  CHECK(cuda::memory_reserved() == reserved);
  const Tensor values = (rand({44 * kMiB / 64}) * 255).to(kU8);
  copy_values(both.reshape({64, -1}), values.expand({64, values.numel()}));
  CHECK(difference(both.reshape({64, -1})[63].cpu(), values, 0) == "");
  both = Tensor();
  cuda::synchronize();
  cuda::empty_cache();
  CHECK(cuda::memory_reserved() <= before);
}

TEST_CASE("memory: a limit is an OutOfMemoryError that names the numbers, and work goes on" *
          cuda_case()) {
  const Tensor small = ones({4}, {.device = kGpu});
  cuda::set_memory_limit(cuda::memory_reserved() + (size_t{30} << 20));
  CHECK_THROWS_WITH_AS(empty({int64_t{64} << 20}, {.dtype = kU8, .device = kGpu}),
                       doctest::Contains("cuda:0: out of memory"), OutOfMemoryError);
  cuda::set_memory_limit(0);
  CHECK(empty({int64_t{64} << 20}, {.dtype = kU8, .device = kGpu}).numel() == int64_t{64} << 20);
  CHECK(small.sum().item<double>() == 4);
}

TEST_CASE("device faults: an index out of range is thrown at the next wait, and work goes on" *
          cuda_case()) {
  const Tensor x = rand({5, 2}, {.device = kGpu});
  const Tensor index = tensor({0, 7, 1}).to(kI64).to(kGpu);
  const Tensor y = index_select(x, 0, index);
  CHECK_THROWS_WITH_AS(cuda::synchronize(), doctest::Contains("index 7 at position 1"), IndexError);
  cuda::synchronize();
  CHECK(difference(index_select(x, 0, tensor({4}).to(kI64).to(kGpu)).cpu(), x.cpu().narrow(0, 4, 1),
                   0) == "");
}

TEST_CASE("counters: launches and waits are counted" * cuda_case()) {
  const cuda::Counters before = cuda::counters();
  const Tensor y = add(ones({8}, {.device = kGpu}), 1);
  const cuda::Counters queued = cuda::counters();
  CHECK(queued.launches > before.launches);
  CHECK(queued.synchronizations == before.synchronizations);
  CHECK(y.sum().item<double>() == 16);
  CHECK(cuda::counters().synchronizations > queued.synchronizations);
}

TEST_CASE("devices: what is there is described, what is not is an error that says so" *
          cuda_case()) {
  const cuda::DeviceInfo info = cuda::device_info(0);
  CHECK(!info.name.empty());
  CHECK(info.total_bytes >= info.free_bytes);
  const int count = cuda::device_count();
  CHECK_THROWS_WITH_AS(cuda::device_info(count), doctest::Contains("this machine has"),
                       DeviceError);
  const Device beyond(DeviceType::kCUDA, static_cast<int8_t>(count));
  CHECK_THROWS_AS(zeros({2}, {.device = beyond}), DeviceError);
}

TEST_CASE("devices: without a GPU the questions have answers") {
  if (cuda_is_available()) {
    CHECK(cuda::unavailable_reason().empty());
    return;
  }
  CHECK(!cuda::unavailable_reason().empty());
  CHECK(cuda::memory_allocated() == 0);
  cuda::synchronize();
  cuda::empty_cache();
  CHECK_THROWS_AS(zeros({2}).pin_memory(), NoCudaError);
  CHECK_THROWS_AS(OwnedStream{}, NoCudaError);
}

TEST_CASE("errors: one that was thrown is not reported again by the next call" * cuda_case()) {
  void* const nowhere = nullptr;
  CHECK_THROWS_AS(cuda::query_event(kGpu, nowhere), CudaError);
  CHECK(add(ones({3}, {.device = kGpu}), 1).sum().item<double>() == 6);
}
