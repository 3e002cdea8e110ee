// The search for the largest batch, and the parsing of /proc/meminfo and the control group's
// limits.
#include "lathe/tools/cli/commands/largest_batch.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "lathe/core/cuda.h"
#include "lathe/core/memory/host_allocator.h"

namespace lathe::cli {
namespace {

std::optional<size_t> leading_number(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  size_t number = 0;
  const auto result = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (result.ec != std::errc()) return std::nullopt;
  return number;
}

std::string content(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits) {
  int64_t good = 0, bad = most + 1;
  for (int64_t next = 1; next < bad; next = std::min(2 * next, most)) {
    if (!fits(next)) {
      bad = next;
      break;
    }
    good = next;
    if (good == most) return most;
  }
  while (good > 0 && bad - good > std::max<int64_t>(good / 32, 1)) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

size_t available_bytes(std::string_view meminfo, std::string_view group_max,
                       std::string_view group_current) {
  constexpr std::string_view kAvailable = "MemAvailable:";
  std::optional<size_t> bytes;
  if (const size_t at = meminfo.find(kAvailable); at != std::string_view::npos) {
    if (const auto kilobytes = leading_number(meminfo.substr(at + kAvailable.size())))
      bytes = *kilobytes * 1024;
  }
  const auto most = leading_number(group_max), current = leading_number(group_current);
  if (most && current) {
    const size_t left = *most > *current ? *most - *current : 0;
    bytes = std::min(bytes.value_or(left), left);
  }
  return bytes.value_or(0);
}

size_t available_bytes() {
  return available_bytes(content("/proc/meminfo"), content("/sys/fs/cgroup/memory.max"),
                         content("/sys/fs/cgroup/memory.current"));
}

int64_t memory_for_tensors(Device device) {
  if (device.is_cuda()) {
    return static_cast<int64_t>(cuda::device_info(device.index).free_bytes +
                                cuda::memory_reserved(device));
  }
  const size_t available = available_bytes();
  return available == 0 ? 0
                        : static_cast<int64_t>(available + host_allocator().stats().reserved_bytes);
}

}  // namespace lathe::cli
