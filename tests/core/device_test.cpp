// Devices: their texts, and what a build or machine without a GPU says.
#include "lathe/core/device.h"

#include <doctest/doctest.h>

#include "lathe/core/error.h"
#include "lathe/ops/creation.h"

using namespace lathe;

TEST_CASE("device: texts lead to devices and back") {
  CHECK(Device() == kCPU);
  CHECK(Device("cpu") == kCPU);
  CHECK(Device("cuda") == Device(DeviceType::kCUDA, 0));
  CHECK(Device("cuda:3") == Device(DeviceType::kCUDA, 3));
  for (const char* text : {"cpu", "cuda:0", "cuda:7"}) CHECK(concat(Device(text)) == text);
  for (const char* text :
       {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:999"}) {
    CAPTURE(std::string(text));
    CHECK_THROWS_WITH_AS(Device{text},
                         doctest::Contains("expected \"cpu\", \"cuda\" or \"cuda:N\""), ValueError);
  }
}

TEST_CASE("device: without a GPU, asking for one is an error that changes nothing") {
  if (cuda_is_available()) return;
  const Tensor x = ones({2});
  CHECK_THROWS_AS(zeros({2}, {.device = "cuda:0"}), NoCudaError);
  CHECK_THROWS_AS(x.to(Device("cuda")), NoCudaError);
  CHECK_THROWS_AS(x.cuda(), NoCudaError);
  CHECK(x.to(kCPU).is_same(x));
  CHECK(x.cpu().is_same(x));
  // The choice that programs make:
  CHECK(ones({2}, {.device = cuda_is_available() ? Device("cuda") : kCPU}).device() == kCPU);
}
