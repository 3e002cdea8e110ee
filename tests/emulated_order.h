// An order in which an emulated GPU does what is queued, and a look for races. A real GPU has an order
// of its own.
#pragma once

#ifdef LATHE_CUDA_EMULATED
#  include "emulation/kernel_access.h"
#  include "emulation/schedule.h"
#endif

namespace lathe::test {

/// For as long as it lives: the emulated GPU draws by lot with this seed, and runs up to `early`
/// queued operations at each call (emulation/schedule.h).
struct EmulatedOrder {
#ifdef LATHE_CUDA_EMULATED
  EmulatedOrder(uint64_t seed, unsigned early) : order({.seed = seed, .early = early}) {}
  const emulation::ScheduleScope order;
#else
  EmulatedOrder(uint64_t, unsigned) {}
#endif
};

/// For as long as it lives: on an emulated GPU, two accesses of the same memory that nothing orders
/// are an error.
struct NoRaces {
#ifdef LATHE_CUDA_EMULATED
  const emulation::WatchScope races{emulation::Watch::kRaces};
#else
  NoRaces() {}
#endif
};

}  // namespace lathe::test
