// safetensors_copy IN OUT: reads a file and writes what it read. Driven by
// safetensors_python_test.py.
#include <cstdio>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: safetensors_copy IN OUT\n");
    return 2;
  }
  try {
    const auto contents = lathe::safetensors::read(argv[1]);
    lathe::safetensors::write(argv[2], contents.tensors, contents.metadata);
  } catch (const lathe::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
  return 0;
}
