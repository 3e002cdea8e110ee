// In front of every source that holds mutants: on(7) says whether mutant 7 is the one that runs.
//
// The environment variable MUTANT is the number of that mutant (unset: none). MUTANT_TRACE is a
// file that gets a line "seen 7" when the code of mutant 7 is reached. With a chosen mutant only
// that one is traced, otherwise all. Programs that a test starts inherit both variables. A line
// about a test case has the seconds of the clock of Python's time.monotonic(), and the process id.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

// A mutant may warn, also where warnings are errors.
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wempty-body"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wreturn-type"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-variable"

namespace mutants {

inline constexpr int kMost = 1 << 14, kNotRead = -1, kNone = 0;
inline std::atomic<unsigned char> g_seen[kMost];
inline std::atomic<int> g_chosen = kNotRead;

// Writes a line to the trace. Makes the system call directly, because a test may replace write() of
// the C library by its own.
inline void trace(const char* word, const char* what) {
  const char* path = std::getenv("MUTANT_TRACE");
  if (!path) return;
  const int before = errno;
  char line[512];
  const int length = std::snprintf(line, sizeof line, "%s %s", word, what);
  const size_t written = static_cast<size_t>(length < 510 ? length : 510);
  line[written] = '\n';
  const long file =
      syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file >= 0) {
    syscall(SYS_write, file, line, written + 1);
    syscall(SYS_close, file);
  }
  errno = before;
}

[[gnu::noinline]] inline bool asked(int id) {
  int chosen = g_chosen.load(std::memory_order_relaxed);
  if (chosen == kNotRead) {
    const char* text = std::getenv("MUTANT");
    chosen = text ? std::atoi(text) : kNone;
    g_chosen.store(chosen, std::memory_order_relaxed);
  }
  if (chosen != kNone && chosen != id) return false;
  if (!g_seen[id].load(std::memory_order_relaxed) && !g_seen[id].exchange(1)) {
    char number[16];
    std::snprintf(number, sizeof number, "%d", id);
    trace("seen", number);
  }
  return chosen == id;
}

inline bool on(int id) { return asked(id); }

inline void trace_now(const char* word, const char* what) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[480];
  const double seconds = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  std::snprintf(line, sizeof line, "%.3f %d %s", seconds, static_cast<int>(getpid()), what);
  trace(word, line);
}

/// Call it when a test case begins: forgets what earlier cases reached.
inline void begin_case(const char* name) {
  for (auto& seen : g_seen) seen.store(0, std::memory_order_relaxed);
  trace_now("case", name);
}

}  // namespace mutants
