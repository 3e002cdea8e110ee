// What a device can do at most, for the shares of it that the bench commands print.
#pragma once

#include "lathe/core/dtype.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/train/plan/conv_layers.h"

namespace lathe::cli {

/// Returns the device's peaks: those of --peak-gflops and --peak-gbytes, otherwise measured ones.
/// The peaks are measured with a large matrix product, and with a copy of more bytes than the
/// caches hold. For f32 on a CPU, arithmetic between registers (arithmetic_peak.h) is measured,
/// too. The fastest run counts.
plan::Roofline measure_roofline(const Settings& settings, DType dtype, const TimingOptions& timing);

}  // namespace lathe::cli
