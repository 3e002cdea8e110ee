// The table of a model's convolutions that `bench conv`, `bench step` and `algos plan` print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/text/text_table.h"
#include "lathe/train/plan/conv_layers.h"

namespace lathe::cli {

/// The table of passes: layer, how many there are, pass, ms, GFLOP/s, roofline, and `more`. A row
/// of a ResNet has at most 71 columns without that, so that one more of 8 fits a terminal of 80.
TextTable conv_table(const std::vector<plan::ConvLayer>& layers, std::vector<TextColumn> more,
                     int width);
/// The texts of its first six columns: `count` layers, their time together, the rate in operations
/// per second and the part of the roofline.
std::vector<std::string> conv_cells(const std::string& layer, int64_t count, std::string_view pass,
                                    double seconds, double rate, double of_roofline);

}  // namespace lathe::cli
