// What is said about the machine's convolutions; see tools/cli/training/compute.h.
#include "lathe/tools/cli/training/compute.h"

#include <doctest/doctest.h>

namespace lathe::cli {
namespace {

const cpu::OneDnnInfo kWithout = {};
const cpu::OneDnnInfo kVersion2 = {.library = "oneDNN 2.6.3", .winograd = true, .bf16 = true};
const cpu::OneDnnInfo kVersion3 = {.library = "oneDNN 3.7.2", .bf16 = true};

TEST_CASE("convolution_text: says what the library can do and what it lacks") {
  CHECK(convolution_text(kVersion2) == "oneDNN 2.6.3: direct, Winograd, bf16");
  CHECK(convolution_text(kVersion3) == "oneDNN 3.7.2: direct, bf16; Winograd for NHWC only");
  CHECK(convolution_text({.library = "oneDNN", .problem = "it cannot be loaded"}) ==
        "it cannot be loaded");
  CHECK(convolution_text({.library = "oneDNN 3.7.2"}) ==
        "oneDNN 3.7.2: direct; Winograd for NHWC only");
  CHECK(convolution_text(kWithout).find("Eigen, because this build is without oneDNN") == 0);
}

TEST_CASE("convolution_remark: one line about what a build without oneDNN costs on a CPU") {
  const std::string remark = convolution_remark(kWithout, kCPU);
  CHECK(remark.find("a ResNet-18 trains several times as fast") != std::string::npos);
  CHECK(remark.find("install libdnnl-dev") != std::string::npos);
  CHECK(remark.find('\n') == std::string::npos);
  CHECK(convolution_remark(kWithout, Device("cuda:0")).empty());
  CHECK(convolution_remark(kVersion2, kCPU).empty());
  CHECK(convolution_remark(kVersion3, kCPU).empty());
}

}  // namespace
}  // namespace lathe::cli
