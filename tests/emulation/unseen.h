// What the sanitizers do not see of the emulation.
#pragma once

#include "lathe/core/config.h"

// LATHE_UNSEEN before a function of the scheduler's own.
//
// ThreadSanitizer: the scheduler's records are shared by fibers between which, for it, nothing is
// ordered; they are kept out of its sight, so that it sees only what kernels do. Such a function
// uses plain pointers: a container's operator[] is a function of its own, which would be seen.
// Clang's no_sanitize("thread") still counts the calls that have not returned, and the last one of
// a fiber never does.
//
// AddressSanitizer: these functions run at each access and each barrier of each thread, and their
// memory is not the kernels'. Checks in them took half of the time of a launch. What they call has
// to be unseen, too, or it is not inlined.
#if defined(LATHE_TSAN) && defined(__clang__)
#  define LATHE_UNSEEN __attribute__((disable_sanitizer_instrumentation, noinline))
#elif defined(LATHE_TSAN)
#  define LATHE_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#elif defined(LATHE_ASAN) && defined(__clang__)
#  define LATHE_UNSEEN __attribute__((no_sanitize("address", "undefined")))
#else
#  define LATHE_UNSEEN
#endif
