// ConvLimits: how much a search for a convolution's engine may cost.
#pragma once

#include <cstdint>

namespace lathe {

/// How much a search may cost. 0: no limit. A fused pattern has one engine with about ten settings,
/// which are all timed.
struct ConvLimits {
  // How many settings of one engine are timed per key. A heuristic may begin with 16 of one engine
  // while the fastest is another.
  int64_t per_engine = 4;
  // How many settings are timed of the engine that the heuristic names first. The heuristic gives
  // it dozens, which differ by the size of a tile.
  int64_t of_first = 16;
  // Time of the measured runs alone: loading, plans, and the run before each measurement do not
  // count. After it no further engine is tried, and the choice is not written to the file. The
  // fastest are then measured again for as long at most.
  double ms = 5000;
};

}  // namespace lathe
