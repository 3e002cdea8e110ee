// The kernel of data/transforms/augment_cuda.cu against the CPU's: equal to the last bit.
#include "lathe/data/transforms/augment.h"

#include <numeric>

#include "fault.h"
#include "lathe/data/transforms/augment_rows.h"
#include "lathe/data/transforms/pixel_plan.h"
#include "lathe/ops/index.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const data::Transform kNone;
const data::Transform kCrop =
    compose(data::pad_crop(6, 2), data::hflip(), data::vflip(), data::center_crop(5, 7));
const data::Transform kErase = compose(data::random_erasing({.p = 1, .value = {1, 2, 3}}),
                                       data::hflip(), data::cutout(3, {9}));
const data::Transform kEraseFloats =
    compose(data::cutout(4, {7}), data::normalize({0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}), data::vflip(),
            data::random_erasing({.p = 0.5, .value = {0.5, 1, 2}}));
const data::Transform kAll = compose(data::pad_crop(7, 1), data::hflip(),
                                     data::normalize({0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}));

void compare(const Tensor& images, const data::Transform& transform, DType dtype,
             MemoryFormat format) {
  std::vector<data::PixelPlan> plans;
  const data::ImageSpec spec{images.dim(1), images.dim(2), images.dim(3), kU8};
  for (int64_t n = 0; n < images.dim(0); ++n) {
    data::PixelPlan& plan = plans.emplace_back(data::identity_plan(nullptr, spec));
    int stream = 0;
    for (const auto& stage : transform.stages())
      stage.pixel->plan(plan, data::Random(7, 3, n, stream++));
  }
  const data::ImageSpec out = transform.output(spec);
  const Shape shape{images.dim(0), out.channels, out.height, out.width};
  const DType result = out.dtype == kU8 ? kU8 : dtype;
  const Tensor want = empty(shape, {.dtype = result}).contiguous(format);
  const Tensor got = on_device(want.clone());
  data::cpu::augment(want, images, plans);
  data::cuda::augment(got, on_device(images), plans);
  const std::string text = difference(on_host(got), want, 0);
  CHECK_MESSAGE(text.empty(), concat(images, format == kContiguous ? "" : " NHWC"), ": ", text);
}

}  // namespace

TEST_CASE("augment kernel: equals the CPU for every transform, dtype, order and layout") {
  manual_seed(71);
  for (const Layout& layout : layouts()) {
    const Tensor images = layout.apply(randint(0, 256, {5, 3, 8, 9}, {.dtype = kU8}));
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      compare(images, kNone, kF32, format);
      compare(images, kCrop, kF32, format);
      compare(images, kErase, kF32, format);
      compare(images, kEraseFloats, kF16, format);
      for (const DType dtype : {kF32, kF16, kBF16}) compare(images, kAll, dtype, format);
    }
  }
  compare(randint(0, 256, {131, 3, 5, 5}, {.dtype = kU8}), kAll, kF32, kContiguous);
}

TEST_CASE("augment: on a device, the numbers of the loader's workers, crops and all") {
  manual_seed(74);
  const Tensor images = randint(0, 256, {6, 3, 9, 12}, {.dtype = kU8});
  const std::vector<int64_t> indices = {4, 0, 7, 11, 2, 3};
  const data::Transform chain =
      compose(data::pad_crop(9, 2), data::random_resized_crop(14, 10), data::hflip(),
              data::random_erasing({.p = 0.7}), data::normalize({0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}));
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    const data::AugmentOptions options{.seed = 5, .epoch = 2, .format = format};
    const Tensor want = data::augment(images, chain, indices, options);
    const Tensor got = data::augment(on_device(images), chain, indices, options);
    const std::string text = difference(on_host(got), want, 0);
    CHECK_MESSAGE(text.empty(), text);
  }
}

// Rows of the images in any order, some of them twice.
TEST_CASE("augment rows: windows from the device's memory give the bits of those from the host") {
  manual_seed(72);
  const Tensor images = randint(0, 256, {6, 3, 8, 9}, {.dtype = kU8});
  const std::vector<int64_t> order = {4, 0, 5, 5, 1, 3, 0};
  const Tensor rows = tensor(order);
  for (const data::Transform* transform : {&kNone, &kCrop, &kErase, &kEraseFloats, &kAll}) {
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      for (const DType dtype : {kF32, kF16, kBF16}) {
        const data::AugmentOptions options{.seed = 7, .epoch = 3, .dtype = dtype, .format = format};
        const data::ImageSpec stored{3, 8, 9, kU8};
        const Tensor want =
            data::augment(index_select(images, 0, rows), *transform, order, options);
        const Tensor windows = data::draw_windows(*transform, stored, order, options);
        const Tensor got = data::augment_rows(on_device(images), on_device(rows),
                                              on_device(windows), *transform, options);
        CHECK(got.is_contiguous(format));
        const std::string text = difference(on_host(got), want, 0);
        CHECK_MESSAGE(text.empty(), text);
        const Tensor kernels = on_device(empty_like(want));
        const Tensor there[] = {on_device(images), on_device(rows), on_device(windows)};
        const data::PixelPlan same = data::plan_of(transform->stages(), 0, stored, {});
        data::cuda::augment_rows(kernels, {there[0], there[1], there[2], same});
        CHECK(difference(on_host(kernels), want, 0) == "");
      }
    }
  }
}

TEST_CASE("augment rows: a row out of range is a fault, and zeros; the others are right") {
  const Tensor images = full({3, 1, 2, 2}, 7, {.dtype = kU8});
  const std::vector<int64_t> order = {1, 3, 2};
  const data::ImageSpec stored{1, 2, 2, kU8};
  const Tensor windows = on_device(data::draw_windows(kNone, stored, order, {}));
  const Tensor there = on_device(images), rows = on_device(tensor(order));
  const Tensor out = on_device(zeros({3, 1, 2, 2}, {.dtype = kU8}));
  data::cuda::augment_rows(out, {there, rows, windows, data::identity_plan(nullptr, stored)});
  const FaultReport fault = take_fault();
  REQUIRE(fault.raised == 1);
  CHECK(std::string(fault.op) == "augment_rows");
  CHECK(fault.position == 1);
  CHECK(fault.value == 3);
  CHECK(fault.limit == 3);
  CHECK(on_host(out).to(kF32).to_vector<float>() ==
        std::vector<float>{7, 7, 7, 7, 0, 0, 0, 0, 7, 7, 7, 7});
}
