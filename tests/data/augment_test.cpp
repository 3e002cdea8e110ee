// augment() on the CPU: what it makes of a batch is what the transform makes of each image.
#include "lathe/data/transforms/augment.h"

#include <doctest/doctest.h>

#include "files.h"
#include "lathe/core/half.h"
#include "lathe/data/transforms/augment_rows.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"

namespace lathe::data {
namespace {

using testing::message_of;

const Transform kTransform = compose(pad_crop(7, 2), hflip(), normalize({0.4, 0.5}, {0.2, 0.3}));
const std::vector<int64_t> kIndices = {5, 0, 99, 1};

/// One image after another, as the loader's workers do it.
std::vector<double> one_by_one(const Tensor& images, const Transform& transform, uint64_t seed,
                               int64_t epoch) {
  const ImageSpec spec{images.dim(1), images.dim(2), images.dim(3), kU8};
  const ImageSpec result = transform.output(spec);
  std::vector<double> all;
  for (int64_t n = 0; n < images.dim(0); ++n) {
    const Tensor image = images.select(0, n).contiguous();
    Tensor out = empty({result.pixels()}, {.dtype = result.dtype});
    transform.apply(image.data<uint8_t>(), spec, {seed, epoch, kIndices[static_cast<size_t>(n)]},
                    out.raw_data());
    for (const double v : out.to_vector<double>()) all.push_back(v);
  }
  return all;
}

}  // namespace

TEST_CASE("augment: a batch equals its images one after another, in every order") {
  const Tensor images = randint(0, 256, {4, 2, 6, 5}, {.dtype = kU8});
  for (const MemoryFormat from : {kContiguous, kChannelsLast}) {
    for (const MemoryFormat to : {kContiguous, kChannelsLast}) {
      for (const int64_t epoch : {0, 1}) {
        const Tensor y = augment(images.contiguous(from), kTransform, kIndices,
                                 {.seed = 3, .epoch = epoch, .format = to});
        CHECK(y.is_contiguous(to));
        CHECK(y.to_vector<double>() == one_by_one(images, kTransform, 3, epoch));
      }
    }
  }
  const Transform erase = compose(random_erasing({.p = 0.6, .value = {3, 4}}), vflip(), cutout(3));
  CHECK(augment(images, erase, kIndices, {.seed = 4}).to_vector<double>() ==
        one_by_one(images, erase, 4, 0));
  const Transform pixels =
      compose(pad_crop(5, 1), random_resized_crop(9, 8), hflip(), random_resized_crop(7, 6),
              color_jitter({.contrast = 0.5}), normalize({0.4, 0.5}, {0.2, 0.3}));
  CHECK_THROWS_AS(augment(images, pixels, kIndices), ShapeError);  // colours of 2 channels
  const Transform sizes = compose(pad_crop(5, 1), random_resized_crop(9, 8), cutout(3), hflip(),
                                  resize(7, 6), normalize({0.4, 0.5}, {0.2, 0.3}), cutout(2));
  for (const MemoryFormat to : {kContiguous, kChannelsLast})
    CHECK(augment(images.contiguous(to), sizes, kIndices, {.seed = 5, .format = to})
              .to_vector<double>() == one_by_one(images, sizes, 5, 0));
  const Transform mirrored = compose(alternating_hflip(), reflect_pad(4), pad_crop(6, 1));
  for (const MemoryFormat to : {kContiguous, kChannelsLast})
    for (const int64_t epoch : {0, 1})
      CHECK(augment(images.contiguous(to), mirrored, kIndices, {.seed = 5, .epoch = epoch})
                .to_vector<double>() == one_by_one(images, mirrored, 5, epoch));
  const Transform last = random_resized_crop(9, 8);
  for (const MemoryFormat to : {kContiguous, kChannelsLast})
    CHECK(augment(images, last, kIndices, {.seed = 5, .format = to}).to_vector<double>() ==
          one_by_one(images, last, 5, 0));

  const Transform crop = pad_crop(4, 1);
  const Tensor bytes = augment(images, crop, kIndices, {.seed = 9});
  CHECK(bytes.dtype() == kU8);
  CHECK(bytes.to_vector<double>() == one_by_one(images, crop, 9, 0));
  CHECK(augment(images, {}, kIndices).to_vector<double>() == images.to_vector<double>());
}

TEST_CASE("augment: half results are the f32 results rounded") {
  const Tensor images = randint(0, 256, {4, 2, 6, 5}, {.dtype = kU8});
  const Tensor wide = augment(images, kTransform, kIndices);
  for (const DType dtype : {kF16, kBF16}) {
    const Tensor half = augment(images, kTransform, kIndices, {.dtype = dtype});
    CHECK(half.dtype() == dtype);
    CHECK(half.to_vector<double>() == cast(wide, dtype).to_vector<double>());
  }
}

TEST_CASE("augment: an empty batch, and what does not fit") {
  const Tensor images = randint(0, 256, {4, 2, 6, 5}, {.dtype = kU8});
  const Tensor none = augment(empty({0, 2, 6, 5}, {.dtype = kU8}), kTransform, {});
  CHECK(none.shape() == Shape{0, 2, 7, 7});
  CHECK_THROWS_AS(augment(cast(images, kF32), kTransform, kIndices), DTypeError);
  CHECK_THROWS_AS(augment(images.select(0, 0), kTransform, kIndices), ShapeError);
  CHECK_THROWS_AS(augment(images, kTransform, kIndices, {.dtype = kF64}), DTypeError);
  CHECK_THROWS_AS(augment(images, normalize({0.5}, {0.5}), kIndices), ShapeError);
  CHECK(message_of<ShapeError>([&] {
          augment(images.narrow(0, 0, 3), kTransform, kIndices);
        }).find("augment: 4 indices for another number of images") == 0);
}

TEST_CASE(
    "augment rows: the bits of augment() for rows of images, and errors for what does not fit") {
  const Tensor images = randint(0, 256, {5, 2, 6, 5}, {.dtype = kU8});
  const Tensor rows = tensor(std::vector<int64_t>{4, 0, 0, 2});
  const ImageSpec stored{2, 6, 5, kU8};
  const Transform transform = compose(pad_crop(4, 2), hflip(), normalize({0.4, 0.5}, {0.2, 0.3}));
  for (const MemoryFormat to : {kContiguous, kChannelsLast}) {
    for (const Tensor& from : {images, images.contiguous(kChannelsLast)}) {
      const AugmentOptions options{.seed = 3, .epoch = 1, .dtype = kF16, .format = to};
      const Tensor windows = draw_windows(transform, stored, kIndices, options);
      const Tensor got = augment_rows(from, rows, windows, transform, options);
      const Tensor want = augment(index_select(images, 0, rows), transform, kIndices, options);
      CHECK(got.is_contiguous(to));
      CHECK(got.to(kF32).contiguous().to_vector<float>() ==
            want.to(kF32).contiguous().to_vector<float>());
    }
  }
  const Tensor windows = draw_windows(transform, stored, kIndices, {});
  CHECK_THROWS_AS(draw_windows(resize(3, 3), stored, kIndices, {}), ValueError);
  CHECK_THROWS_AS(augment_rows(images, rows, windows, resize(3, 3)), ValueError);
  CHECK_THROWS_AS(augment_rows(images, rows, windows.narrow(0, 0, 3), transform), ShapeError);
  CHECK_THROWS_AS(augment_rows(images, rows.to(kI32), windows, transform), DTypeError);
  CHECK_THROWS_AS(augment_rows(images, rows, windows, transform, {.dtype = kF64}), DTypeError);
  CHECK_THROWS_WITH_AS(augment_rows(images, add(rows, 1), windows, transform),
                       doctest::Contains("row 5 at position 0 is not below 5"), IndexError);
  CHECK(has_only_pixel_stages(transform));
  CHECK_FALSE(has_only_pixel_stages(transform.then(color_jitter({.brightness = 0.5}))));
}

}  // namespace lathe::data
