// What a device can do at most, for the shares of it that the bench commands print.
#pragma once

#include "lathe/core/dtype.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/train/plan/conv_layers.h"

namespace lathe::cli {

/// The given peaks (--peak-gflops, --peak-gbytes), or else those that a large matrix product and a
/// copy beyond every cache reach. For f32 on a CPU arithmetic between registers counts, too
/// (arithmetic_peak.h). The faster of several runs counts, because a peak is what is possible.
plan::Roofline measure_roofline(const Settings& settings, DType dtype, const TimingOptions& timing);

}  // namespace lathe::cli
