// Drives a target by libFuzzer: fuzz_<parser> [corpus directory] [-max_total_time=60 ...].
#include <cstdint>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/tests/fuzz/fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    lathe::fuzz::feed(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const lathe::Error&) {
  }
  return 0;
}

// Starts from our seeds, so that no corpus has to be kept: an empty input becomes one of them.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int random) {
  static const std::vector<std::string> seeds = lathe::fuzz::seeds();
  const std::string& seed = seeds[random % seeds.size()];
  if (size <= 1 && seed.size() <= max_size) {
    std::memcpy(data, seed.data(), seed.size());
    size = seed.size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
