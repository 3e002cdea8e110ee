// The parts, as bits of one number.
#include "lathe/core/unmeasured.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "lathe/core/error.h"

namespace lathe {

namespace {

constexpr std::array<std::string_view, 3> kPartNames = {"relu-bits", "dependent-launch",
                                                        "residual-grad"};

unsigned bit_of(size_t part) { return 1u << part; }

unsigned named_parts(std::string_view list) {
  unsigned parts = 0;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    const auto at = std::ranges::find(kPartNames, name);
    LATHE_CHECK(ValueError, at != kPartNames.end(), "LATHE_UNMEASURED: no part is named '", name,
                "'; there are relu-bits, dependent-launch and residual-grad");
    parts |= bit_of(static_cast<size_t>(at - kPartNames.begin()));
  }
  return parts;
}

std::atomic<unsigned>& tried_parts() {
  static std::atomic<unsigned> parts = [] {
    const char* const list = std::getenv("LATHE_UNMEASURED");
    return named_parts(list == nullptr ? "" : list);
  }();
  return parts;
}

}  // namespace

bool tries(Unmeasured part) {
  return (tried_parts().load(std::memory_order_relaxed) & bit_of(static_cast<size_t>(part))) != 0;
}

void set_unmeasured(std::string_view list) {
  const unsigned parts = named_parts(list);
  tried_parts() = parts;
}

std::string_view name_of(Unmeasured part) noexcept { return kPartNames[static_cast<size_t>(part)]; }

}  // namespace lathe
