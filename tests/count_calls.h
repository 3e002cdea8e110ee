// Counts what a steady state must not do: allocations and mutexes locked. Included by one source of
// a program, whose operator new and pthread_mutex_lock it replaces. Under ThreadSanitizer, which has
// both of its own, it counts all allocations, those of malloc too, and no mutexes.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <new>

#include "lathe/core/config.h"

namespace lathe::test {

/// Of this thread, so far.
inline thread_local uint64_t t_allocations = 0, t_locks = 0;

#ifdef LATHE_TSAN
inline constexpr bool kCountsLocks = false;
#else
inline constexpr bool kCountsLocks = true;
#endif

struct CallCount {
  uint64_t allocations = 0, locks = 0;
};

/// What f does of both.
template <class F>
CallCount count_calls(F f) {
  const CallCount before{t_allocations, t_locks};
  f();
  return {t_allocations - before.allocations, t_locks - before.locks};
}

}  // namespace lathe::test

#ifdef LATHE_TSAN
extern "C" __attribute__((no_sanitize("thread"))) void __sanitizer_malloc_hook(const volatile void*,
                                                                               size_t) {
  ++lathe::test::t_allocations;
}
#else
void* operator new(size_t bytes) {
  ++lathe::test::t_allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++lathe::test::t_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
// Not inlined: GCC 14 would see free() beside an operator new that it knows nothing of, and warn.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto original =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++lathe::test::t_locks;
  return original(mutex);
}
#endif
