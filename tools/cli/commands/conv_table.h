// The table of a model's convolutions that `bench conv`, `bench step` and `algos plan` print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/text/text_table.h"
#include "lathe/train/plan/conv_layers.h"

namespace lathe::cli {

/// The table of passes, with the columns layer, count, pass, ms, GFLOP/s and roofline, then the
/// columns `more`. For a ResNet the first six columns are at most 71 characters wide, so one more
/// column of 8 characters fits a terminal of 80.
TextTable conv_table(const std::vector<plan::ConvLayer>& layers, std::vector<TextColumn> more,
                     int width);
/// The cells of the first six columns. `count`: the number of equal layers; `seconds`: the time of
/// all of them; `rate`: operations per second; `of_roofline`: the share of the roofline.
std::vector<std::string> conv_cells(const std::string& layer, int64_t count, std::string_view pass,
                                    double seconds, double rate, double of_roofline);

}  // namespace lathe::cli
