// Drives a target by libFuzzer: `LATHE_FUZZ_PARSER=npy fuzz DIRECTORY... [-max_total_time=60 ...]`.
// The first directory gets our seeds, and what libFuzzer finds; the others are read only. The
// parser's name is in the environment, because -merge and -fork start the program again with the
// arguments that libFuzzer knows.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>

#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/target.h"

namespace {

const lathe::fuzz::Target& chosen() try {
  const char* name = std::getenv("LATHE_FUZZ_PARSER");
  return lathe::fuzz::target_named(name != nullptr ? name : "");
} catch (const std::exception& error) {
  std::cerr << "LATHE_FUZZ_PARSER: " << error.what() << "\n";
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path directory = (*argv)[i];
    if (!std::filesystem::is_directory(directory)) continue;
    int number = 0;
    for (const std::string& seed : chosen().seeds())
      lathe::data::testing::write_file(directory / ("seed-" + std::to_string(number++)), seed);
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const lathe::fuzz::Target& target = chosen();
  target.try_input(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
