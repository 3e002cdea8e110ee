// The kernels of data/transforms/color_batch_cuda.cu against the CPU's, which are Pillow's: the same bytes.
#include "lathe/data/transforms/color_batch.h"

#include "lathe/data/transforms/augment.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;
using data::ColorStep;
using data::ColorSteps;

namespace {

void compare(const Tensor& images, const std::vector<ColorSteps>& steps) {
  const Tensor want = empty_like(images), got = on_device(empty_like(images));
  data::cpu::change_colors(want, images, steps);
  data::cuda::change_colors(got, on_device(images), steps);
  const std::string text = difference(on_host(got), want, 0);
  CHECK_MESSAGE(text.empty(), concat(images), ": ", text);
}

/// Each alone, below and above what changes nothing, and several in different orders.
const std::vector<ColorSteps> kSteps = {
    {},
    {{ColorStep::kBrightness}, {0.6}},
    {{ColorStep::kBrightness}, {1.7}},
    {{ColorStep::kContrast}, {0.3}},
    {{ColorStep::kContrast}, {2.2}},
    {{ColorStep::kSaturation}, {0}},
    {{ColorStep::kSaturation}, {1.9}},
    {{ColorStep::kHue}, {0.5}},
    {{ColorStep::kHue}, {-0.1}},
    {{ColorStep::kHue, ColorStep::kContrast, ColorStep::kBrightness, ColorStep::kSaturation},
     {0.2, 1.4, 0.8, 0.5}},
    {{ColorStep::kNone, ColorStep::kSaturation, ColorStep::kBrightness, ColorStep::kContrast},
     {0, 1.3, 1.2, 0.7}},
};

}  // namespace

TEST_CASE("colour kernels: the bytes of the CPU for every step, order and size") {
  manual_seed(75);
  const auto samples = static_cast<int64_t>(kSteps.size());
  for (const int64_t channels : {1, 3})
    for (const auto& [height, width] : {std::pair{1, 1}, {5, 7}, {17, 19}})
      compare(randint(0, 256, {samples, channels, height, width}, {.dtype = kU8}), kSteps);
  // Nearly grey, black and white: where conversions branch.
  compare(randint(0, 2, {samples, 3, 8, 16}, {.dtype = kU8}) * 255, kSteps);
  compare(randint(100, 103, {samples, 3, 8, 16}, {.dtype = kU8}), kSteps);
}

TEST_CASE("colour kernels: more samples than one launch takes") {
  manual_seed(76);
  std::vector<ColorSteps> steps;
  for (size_t n = 0; n < 131; ++n) steps.push_back(kSteps[n < 128 ? n % 3 : n % kSteps.size()]);
  compare(randint(0, 256, {131, 3, 3, 4}, {.dtype = kU8}), steps);
}

TEST_CASE("augment: on a device, colours are jittered as the loader's workers do it") {
  manual_seed(77);
  const Tensor images = randint(0, 256, {9, 3, 10, 8}, {.dtype = kU8});
  const std::vector<int64_t> indices = {4, 0, 7, 11, 2, 3, 5, 6, 1};
  const data::Transform chain = compose(
      data::pad_crop(8, 2), data::hflip(),
      data::color_jitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}),
      data::grayscale(0.3), data::random_erasing({.p = 0.7}),
      data::normalize({0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}));
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    const data::AugmentOptions options{.seed = 5, .epoch = 2, .format = format};
    const Tensor want = data::augment(images, chain, indices, options);
    const Tensor got = data::augment(on_device(images), chain, indices, options);
    const std::string text = difference(on_host(got), want, 0);
    CHECK_MESSAGE(text.empty(), text);
  }
}
