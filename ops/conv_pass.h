// ConvPass: which of a convolution's three products is computed. For the convolutions of both
// backends and for the search.
#pragma once

#include <cstdint>

namespace lathe {

/// Words in texts: forward, backward_input, backward_weight.
enum class ConvPass : uint8_t { kForward, kBackwardInput, kBackwardWeight };

}  // namespace lathe
