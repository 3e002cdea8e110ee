#include <ctime>

#include <stdexcept>

#include "lathe/core/error.h"
#include "lathe/tests/fuzz/fuzz.h"

namespace lathe::fuzz {

namespace {

// Of the process and not of the clock: a busy machine makes nothing a bug.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

bool try_input(const std::string& bytes) {
  const double begin = processor_seconds();
  bool accepted = true;
  try {
    feed(bytes);
  } catch (const Error&) {
    accepted = false;
  }
  const double seconds = processor_seconds() - begin;
  if (seconds > 1)
    throw std::logic_error("an input took " + std::to_string(seconds) + " s of processor time");
  return accepted;
}

}  // namespace lathe::fuzz
