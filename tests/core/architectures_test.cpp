// The GPUs that code for a list of architectures runs on, against NVIDIA's rules.
#include "lathe/core/gpu/architectures.h"

#include <doctest/doctest.h>

using namespace lathe;

TEST_CASE("architectures: machine code runs within its major version, PTX also on newer GPUs") {
  constexpr cuda::ComputeCapability kT4{7, 5}, kA100{8, 0}, kL4{8, 9}, kH100{9, 0}, kB200{10, 0},
      kB300{10, 3}, kRtx5090{12, 0};
  struct Row {
    const char* architectures;
    cuda::ComputeCapability gpu;
    bool runs;
  };
  const Row rows[] = {
      {"90", kH100, true},
      {"90", kA100, false},
      {"90", kT4, false},
      {"90", kL4, false},
      {"90", kB200, true},  // by its PTX
      {"90-real", kB200, false},
      {"90-real", kH100, true},
      {"90-virtual", kRtx5090, true},
      {"80-real", kL4, true},
      {"86-real", kA100, false},
      {"89-real", kL4, true},
      {"90a", kH100, true},
      {"90a", kB200, false},
      {"90a-real", kH100, true},
      {"100f", kB300, true},
      {"100f", kRtx5090, false},
      {"100f-virtual", kB300, true},
      {"75 80-real 90", kT4, true},
      {"80-real 120", kH100, false},
      {"80-real 120", kL4, true},
      {"80-real 120", kRtx5090, true},
      {"native", kT4, true},
      {"", kH100, false},
  };
  for (const Row& row : rows) {
    INFO(row.architectures, " on ", row.gpu.major, ".", row.gpu.minor);
    CHECK(cuda::kernels_run_on(row.architectures, row.gpu) == row.runs);
  }
}
