// The setting that has a CPU measure its convolutions. Another one is cpu::set_conv_exact
// (ops/conv2d.h). The file of choices and the limits of a search are those of cudnn_settings.h.
#pragma once

#include "lathe/core/config.h"

namespace lathe::cpu {

/// true: the ways to compute an f32 convolution (conv_ways.h) are timed for every new problem, and
/// the fastest is taken from then on. The first step is slower, so it is worth it where shapes
/// repeat. What is fastest may differ from run to run, and the bits with it, unless a file keeps
/// the choices. false, the default: a rule chooses by the sizes alone, for the same bits each time.
/// set_deterministic() overrides it: nothing is timed, and the rule chooses. With set_conv_exact()
/// only direct ways are timed. What other threads compute meanwhile disturbs the times, never a
/// result. For the whole process; thread-safe; affects later calls.
LATHE_API void set_conv_benchmark(bool on) noexcept;
LATHE_API bool conv_benchmark() noexcept;

}  // namespace lathe::cpu
