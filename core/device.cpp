// Devices from and to text ("cpu", "cuda:0").
#include "lathe/core/device.h"

#include <charconv>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"

namespace lathe {

Device::Device(std::string_view text) {
  if (text == "cpu") return;
  if (text == "cuda" || text.substr(0, 5) == "cuda:") {
    type = DeviceType::kCUDA;
    if (text == "cuda") return;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + 5, end, index);
    if (parsed.ec == std::errc() && parsed.ptr == end && index >= 0) return;
  }
  LATHE_FAIL(ValueError, "device: expected \"cpu\", \"cuda\" or \"cuda:N\", got \"", text, "\"");
}

void append_text(std::string& out, Device device) {
  if (device.is_cpu()) {
    out.append("cpu");
  } else {
    out.append("cuda:");
    append_text(out, int64_t{device.index});
  }
}

bool cuda_is_available() noexcept { return cuda::device_count() > 0; }

}  // namespace lathe
