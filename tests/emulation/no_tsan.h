// What ThreadSanitizer does not see of the emulation.
#pragma once

#include "lathe/core/config.h"

// The scheduler's own records are shared by fibers between which, for ThreadSanitizer, nothing is
// ordered; they are kept out of its sight, so that it sees only what kernels do. Such a function
// uses plain pointers: a container's operator[] is a function of its own, which would be seen.
// Clang's no_sanitize("thread") still counts the calls that have not returned, and the last one of
// a fiber never does.
#if defined(LATHE_TSAN) && defined(__clang__)
#  define LATHE_NO_TSAN __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#  define LATHE_NO_TSAN __attribute__((no_sanitize("thread"), noinline))
#endif
