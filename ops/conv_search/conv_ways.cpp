// The names of a CPU's ways. Contracts: conv_ways.h.
#include "lathe/ops/conv_search/conv_ways.h"

#include <iterator>

#include "lathe/core/format.h"

namespace lathe {

namespace {

constexpr std::string_view kWayNames[] = {"by-library",      "winograd-4x4",  "winograd-2x2",
                                          "products",        "onednn-direct", "onednn-blocks",
                                          "onednn-winograd", "im2col"};

}  // namespace

std::string_view name_of(ConvWay way) { return kWayNames[static_cast<size_t>(way)]; }

std::string engine_text(const ConvKey& key, const ConvEngine& engine) {
  const bool is_way = is_cpu_library(key.machine->library) && engine.knobs.empty() &&
                      engine.index > 0 && engine.index < std::ssize(kWayNames);
  return is_way ? std::string(name_of(static_cast<ConvWay>(engine.index))) : concat(engine);
}

}  // namespace lathe
