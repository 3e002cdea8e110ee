// make_input(): what the batches of a GPU look like when they come to the model.
#include "lathe/tools/cli/training/input.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "../cuda_case.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/cast.h"

using namespace lathe;
using namespace lathe::cli;

namespace {

/// The first batch, as it is on `device`.
Tensor first_batch(const std::string& amp, const std::string& layout, Device device) {
  // Not assigned one by one: g++ 12 takes an assignment of the name for a use of what is not set.
  const Settings settings{
      {.dataset = "synthetic"}, {.workers = 0}, {}, {.batch_size = 4}, {}, {.amp = amp},
      {.layout = layout}};
  const auto images = std::make_shared<data::Synthetic>(data::SyntheticOptions{.size = 8});
  images->set_transform(data::normalize({0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}));
  Input input = make_input(images, settings, device, false);
  for (auto& [x, y] : input.batches()) return x;
  return {};
}

}  // namespace

TEST_CASE("input: a GPU's batches come in the model's layout and, with --amp, in its half type" *
          lathe::test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  const Tensor wanted = first_batch("off", "nchw", kCPU);
  const struct {
    const char* amp;
    DType dtype;
  } cases[] = {{"off", kF32}, {"fp16", kF16}, {"bf16", kBF16}};
  for (const auto& c : cases) {
    for (const bool nhwc : {false, true}) {
      CAPTURE(c.amp);
      const Tensor x = first_batch(c.amp, nhwc ? "nhwc" : "nchw", gpu);
      CHECK(x.dtype() == c.dtype);
      CHECK(x.is_contiguous(nhwc ? kChannelsLast : kContiguous));
      CHECK(x.cpu().to(kF32).to_vector<float>() == wanted.to(c.dtype).to(kF32).to_vector<float>());
    }
  }
}
