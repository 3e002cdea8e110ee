// While nothing records, a range does nothing but a load.
#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/core/hooks/live_memory.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/unary.h"
#include "lathe/profile/profiler.h"
#include "lathe/tests/count_calls.h"

namespace lathe::profile {
namespace {

/// Nanoseconds of one call, the best of several series.
template <class F>
double ns_of(const F& f) {
  constexpr int kCalls = 100'000;
  double best = 1e9;
  for (int series = 0; series < 20; ++series) {
    const int64_t begin = now_ns();
    for (int i = 0; i < kCalls; ++i) f();
    best = std::min(best, static_cast<double>(now_ns() - begin) / kCalls);
  }
  return best;
}

[[gnu::noinline]] void ranged(const Tensor& x) {
  const OpRange range("planted", {x, x});
  asm volatile("" : : "r"(&x) : "memory");
}
[[gnu::noinline]] void plain(const Tensor& x) { asm volatile("" : : "r"(&x) : "memory"); }

TEST_CASE("profiler: while it is off, a range takes no memory and no lock") {
  const Tensor x = ones({4});
  ranged(x);
  const test::CallCount calls = test::count_calls([&] {
    for (int i = 0; i < 1000; ++i) {
      ranged(x);
      const Range user("user");
      note_output(x);
      note_node("planted", 1);
      note_memory(1, x.device());
      note_flops([] { return 1; });
      note_arguments(1, x);
      before_wait("planted");
      raise_found();
    }
  });
  CHECK(calls.allocations == 0);
  if (test::kCountsLocks) CHECK(calls.locks == 0);
}

TEST_CASE("memory_use: counting takes no memory and no lock below the peak") {
  { const Tensor high = empty({1 << 20}); }  // a peak that what follows stays below
  const test::CallCount calls = test::count_calls([&] {
    for (int i = 0; i < 1000; ++i) {
      const CountedMemory one(100, kCPU, MemoryTag::kWorkspace);
      const MemoryTagScope scope(MemoryTag::kData);
    }
  });
  CHECK(calls.allocations == 0);
  if (test::kCountsLocks) CHECK(calls.locks == 0);
}

TEST_CASE("LiveMemory: while there is none, a tensor takes no memory and no lock for it") {
  const Tensor x = ones({4});
  const test::CallCount calls = test::count_calls([&] {
    for (int i = 0; i < 1000; ++i) {
      note_alive(*x.impl().storage);
      note_shape(x.impl());
      note_gone(*x.impl().storage);
      note_node_gone(&x);
    }
  });
  CHECK(calls.allocations == 0);
  if (test::kCountsLocks) CHECK(calls.locks == 0);
}

TEST_CASE("profiler: what a range costs (reported, not asserted)") {
  const Tensor x = ones({4});
  const double without = ns_of([&] { plain(x); });
  const double off = ns_of([&] { ranged(x); }) - without;
  double on = 0;
  {
    Profiler profiler({.max_ranges = int64_t{1} << 23});
    on = ns_of([&] { ranged(x); }) - without;
  }
  MESSAGE("a range costs " << off << " ns while nothing records, " << on << " ns while it is");
}

}  // namespace
}  // namespace lathe::profile
