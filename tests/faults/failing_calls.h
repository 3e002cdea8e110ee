// What the library itself has no fault point for: operator new and the clock of this program, which
// stand in for those of the standard library and libc.
#pragma once

#include <cstdint>
#include <functional>

#include "lathe/core/fault.h"

namespace lathe::test {

/// Every operator new of the program, on any thread: std::bad_alloc.
FaultPoint& new_fault();

/// Readings of any clock: at a hit all clocks jump an hour ahead, to stay there.
FaultPoint& clock_fault();

/// Bytes that operator new has handed out and that were not given back.
int64_t live_new_bytes();

/// The most memory that `f` held at once beside what was there before, tensors included.
int64_t peak_bytes_of(const std::function<void()>& f);

/// What a call must do when one of the calls that it makes fails.
struct Attempt {
  /// Makes everything that `run` needs; not under a fault.
  std::function<void()> prepare;
  std::function<void()> run;
  /// After a run that failed: throws nothing away but what the run itself made.
  std::function<void()> check_failed = [] {};
  /// After a run that worked, the first as well as one that came after a failure.
  std::function<void()> check_done;
};

/// Lets `run` fail at the first, second, … call that `point` sees, `stride` apart. Each failure
/// must be an lathe::Error or std::bad_alloc and leave no memory behind; the run after it, on what
/// the failure left, must end as if nothing had been. → how many runs failed.
int64_t fail_everywhere(FaultPoint& point, const Attempt& attempt, int64_t stride = 1);

}  // namespace lathe::test
