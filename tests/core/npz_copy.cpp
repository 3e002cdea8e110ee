// npz_copy IN OUT: reads a .npz or .npy file and writes what it read, deflated if OUT ends with
// ".deflated.npz". Driven by npz_python_test.py.
#include <cstdio>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/core/formats/npy.h"
#include "lathe/core/formats/npz.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: npz_copy IN OUT\n");
    return 2;
  }
  const std::string_view to = argv[2];
  try {
    if (to.ends_with(".npy")) {
      lathe::npy::write(argv[2], lathe::npy::read(argv[1]));
    } else {
      lathe::npz::write(argv[2], lathe::npz::read(argv[1]),
                        {.compress = to.ends_with(".deflated.npz")});
    }
  } catch (const lathe::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
  return 0;
}
