#include "failing_calls.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <link.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "lathe/core/error.h"
#include "lathe/core/memory/host_allocator.h"

namespace lathe::test {
namespace {

constinit FaultPoint g_new, g_clock;
constinit std::atomic<int64_t> g_live{0}, g_peak{0}, g_hours{0};

/// Where the machine code of oneDNN lies. It ends the process when it gets no memory inside of a
/// parallel region; that is not ours.
struct OneDnnCode {
  uintptr_t begin = 0, end = 0;
  bool holds(const void* caller) const {
    const auto at = reinterpret_cast<uintptr_t>(caller);
    return at >= begin && at < end;
  }
};
constinit OneDnnCode g_onednn;

/// To be called when oneDNN has been used: it is loaded then, and stays where it is.
void find_onednn() {
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* out) {
        if (std::strstr(library->dlpi_name, "libdnnl") == nullptr) return 0;
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = library->dlpi_phdr[i];
          const uintptr_t begin = library->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0)
            *static_cast<OneDnnCode*>(out) = {begin, begin + part.p_memsz};
        }
        return 1;
      },
      &g_onednn);
}

struct Live {
  size_t tensors = host_allocator().stats().allocated_bytes;
  int64_t others = live_new_bytes();
  bool operator==(const Live&) const = default;
};

}  // namespace

FaultPoint& new_fault() { return g_new; }
FaultPoint& clock_fault() { return g_clock; }
int64_t live_new_bytes() { return g_live; }

int64_t peak_bytes_of(const std::function<void()>& f) {
  const auto tensors = static_cast<int64_t>(host_allocator().stats().allocated_bytes);
  const int64_t others = g_live;
  host_allocator().reset_peak();
  g_peak = others;
  f();
  const auto peak = static_cast<int64_t>(host_allocator().stats().peak_allocated_bytes);
  return peak - tensors + g_peak - others;
}

int64_t fail_everywhere(FaultPoint& point, const Attempt& attempt, int64_t stride) {
  // Twice: what is made once and kept, such as another library's plans, is there afterwards.
  for (int i = 0; i < 2; ++i) {
    attempt.prepare();
    attempt.run();
    attempt.check_done();
  }
  find_onednn();
  attempt.prepare();
  point.count();
  attempt.run();
  const int64_t calls = point.calls();
  point.disarm();
  REQUIRE(calls > 0);

  int64_t failed = 0;
  for (int64_t n = 1; n <= calls; n += stride) {
    CAPTURE(n);
    attempt.prepare();
    const Live before;
    bool threw = false;
    try {
      const ArmedFault armed(point, n);
      attempt.run();
    } catch (const Error&) {
      threw = true;
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    if (threw) {
      ++failed;
      attempt.check_failed();
      const Live after;
      CHECK(after.tensors == before.tensors);
      CHECK(after.others == before.others);
      attempt.run();
    }
    attempt.check_done();
  }
  return failed;
}

}  // namespace lathe::test

namespace {

void* allocate(size_t bytes, const void* caller) noexcept {
  using namespace lathe::test;
  if (!g_onednn.holds(caller) && g_new.hit()) return nullptr;
  void* const block = std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) return nullptr;
  const int64_t live = g_live += static_cast<int64_t>(malloc_usable_size(block));
  int64_t peak = g_peak;
  while (live > peak && !g_peak.compare_exchange_weak(peak, live)) {
  }
  return block;
}

}  // namespace

// The whole program's. The forms for arrays are made from these by the standard library; those for
// over-aligned types stay as they are, in pairs.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* block = allocate(bytes, __builtin_return_address(0))) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  if (block != nullptr) lathe::test::g_live -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { operator delete(block); }
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  operator delete(block);
}

#pragma GCC visibility push(default)  // the loader must find it before libc's
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto original =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  if (lathe::test::g_clock.hit()) ++lathe::test::g_hours;
  const int result = original(clock, time);
  time->tv_sec += 3600 * lathe::test::g_hours;
  return result;
}
#pragma GCC visibility pop
