// What a GPU leaves open and the emulated one draws by lot: in which order blocks and threads run,
// and when queued work does.
#pragma once

#include <cstdint>

namespace lathe::emulation {

/// Read from the environment at the first use. The same numbers in a program with one thread of the
/// host give the same order again.
struct Schedule {
  /// LATHE_EMULATED_SEED. A test that fails prints it.
  uint64_t seed = 1;
  /// LATHE_EMULATED_RESIDENT: so many blocks of a grid are underway at once. They take turns at
  /// barriers and atomics.
  unsigned resident = 1;
  /// LATHE_EMULATED_EARLY: each call of the runtime first runs up to so many queued operations, of
  /// any streams. With 0 work runs as late as it may, when somebody waits for it.
  unsigned early = 0;
};

const Schedule& schedule();
/// From now on this one, from its seed on. Nothing may be running.
void set_schedule(const Schedule& schedule);

/// A number below `limit`, which is positive. Under the machine's lock, where there are queues.
uint64_t draw(uint64_t limit);

/// A schedule for as long as it lives.
class ScheduleScope {
 public:
  explicit ScheduleScope(const Schedule& wanted) : before_(schedule()) { set_schedule(wanted); }
  ~ScheduleScope() { set_schedule(before_); }
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;

 private:
  const Schedule before_;
};

}  // namespace lathe::emulation
