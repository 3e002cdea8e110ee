// What the processor can compute at most: the roof of roofline.h for f32 on a CPU.
#pragma once

#include "lathe/tools/cli/commands/bench.h"

namespace lathe::cli {

/// f32 operations per second of all threads of the pool together: multiplications with additions
/// between registers, two operations each. The instructions are those of the build's clones
/// (LATHE_CLONES), so another compiler than GCC may know less of the processor than a library does.
double measure_arithmetic_peak(const TimingOptions& timing);

}  // namespace lathe::cli
