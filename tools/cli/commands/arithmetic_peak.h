// What the processor can compute at most: the roof of roofline.h for f32 on a CPU.
#pragma once

#include "lathe/tools/cli/commands/bench.h"

namespace lathe::cli {

/// Measures the f32 operations per second of all threads of the pool together. Each thread runs
/// fused multiply-adds between registers, two operations each. Only GCC compiles the function for
/// several instruction sets (LATHE_CLONES). With another compiler it may measure less than a
/// library reaches.
double measure_arithmetic_peak(const TimingOptions& timing);

}  // namespace lathe::cli
