// Names of devices.
#include "lathe/core/device.h"
#include "lathe/tests/fuzz/fuzz.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() { return {"cpu", "cuda", "cuda:12"}; }

void feed(const std::string& bytes) { Device{std::string_view(bytes)}; }

}  // namespace lathe::fuzz
