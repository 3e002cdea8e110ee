// For functions that stand in front of libc's.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>

#include <cstdarg>

namespace lathe::test {

/// The function that the caller's hides, as F, a pointer to it.
template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// What open was given behind its flags: the mode of a file that it may create, or nothing (0).
inline mode_t creation_mode(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

}  // namespace lathe::test
