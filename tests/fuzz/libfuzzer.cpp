// Drives a target by libFuzzer: fuzz_<parser> DIRECTORY... [-max_total_time=60 ...]. The first
// directory gets our seeds, and what libFuzzer finds; the others are read only.
#include <cstdint>
#include <filesystem>

#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path directory = (*argv)[i];
    if (!std::filesystem::is_directory(directory)) continue;
    int number = 0;
    for (const std::string& seed : lathe::fuzz::seeds())
      lathe::data::testing::write_file(directory / ("seed-" + std::to_string(number++)), seed);
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lathe::fuzz::try_input(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
