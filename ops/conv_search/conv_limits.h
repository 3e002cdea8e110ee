// ConvLimits: how much a search for a convolution's engine may cost.
#pragma once

#include <cstdint>

namespace lathe {

/// How much a search may cost. 0: no limit.
struct ConvLimits {
  int64_t candidates = 16;  // how many are made ready per key
  double ms = 2000;         // after this time no further candidate is tried
};

}  // namespace lathe
