// Columns and cells of the table of convolutions. Contract: conv_table.h.
#include "lathe/tools/cli/commands/conv_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lathe/core/text/formatted.h"

namespace lathe::cli {

TextTable conv_table(const std::vector<plan::ConvLayer>& layers, std::vector<TextColumn> more,
                     int width) {
  size_t name_width = 0;
  for (const plan::ConvLayer& layer : layers) name_width = std::max(name_width, layer.name.size());
  std::vector<TextColumn> columns{{.heading = "layer", .width = name_width, .right = false},
                                  {.heading = "", .width = 4},
                                  {.heading = "pass", .width = 15, .right = false},
                                  {.heading = "ms", .width = 9},
                                  {.heading = "GFLOP/s", .width = 9},
                                  {.heading = "roofline", .width = 8}};
  std::ranges::move(more, std::back_inserter(columns));
  return {std::move(columns), 2, width};
}

std::vector<std::string> conv_cells(const std::string& layer, int64_t count, std::string_view pass,
                                    double seconds, double rate, double of_roofline) {
  return {layer,
          formatted("{} x", count),
          std::string(pass),
          formatted("{:.3f}", 1e3 * seconds),
          formatted("{:.1f}", rate / 1e9),
          formatted("{:.1f} %", 100 * of_roofline)};
}

}  // namespace lathe::cli
