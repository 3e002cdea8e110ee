// What a device can do at most, for the shares of it that the bench commands print, and the chart
// of it.
#pragma once

#include <string>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/commands/conv_layers.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The given peaks (--peak-gflops, --peak-gbytes), or else those that a large matrix product and a
/// copy beyond every cache reach. For f32 on a CPU arithmetic between registers counts, too
/// (arithmetic_peak.h). The faster of several runs counts, because a peak is what is possible.
Roofline measure_roofline(const Settings& settings, DType dtype, const TimingOptions& timing);

/// A measured pass of a convolution: where it stands below the roof.
struct RooflineDot {
  std::string pass;  // "forward"; the dots of a pass have one colour
  double operations, bytes, seconds;
};

/// Operations per second over operations per byte, both logarithmic: the roof, and the dots below
/// it. A dot on the slope is bound by memory, one under the flat part by arithmetic.
std::string roofline_svg(const std::string& title, const Roofline& roof,
                         const std::vector<RooflineDot>& dots);

}  // namespace lathe::cli
