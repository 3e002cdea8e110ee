// Sizes and random crops. Two oracles: Pillow's bytes (golden_transforms.py), and the definition of
// the triangle filter in doubles, which says where the pixels are wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "files.h"
#include "golden_transforms.h"
#include "hash_image.h"
#include "lathe/core/error.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {
namespace {

using testing::applied;
using testing::fnv;
using testing::hash_image;
using testing::message_of;

/// Weighted mean of the source around each centre, the weights falling linearly to 0 over max(1,
/// in / out) pixels.
std::vector<double> resized_line(const std::vector<double>& in, int64_t out) {
  const double scale = static_cast<double>(in.size()) / static_cast<double>(out);
  const double radius = std::max(1.0, scale);
  std::vector<double> result;
  for (int64_t x = 0; x < out; ++x) {
    double sum = 0, total = 0;
    for (size_t k = 0; k < in.size(); ++k) {
      const double distance =
          std::abs(static_cast<double>(k) + 0.5 - (static_cast<double>(x) + 0.5) * scale);
      const double weight = std::max(0.0, 1 - distance / radius);
      sum += weight * in[k];
      total += weight;
    }
    result.push_back(sum / total);
  }
  return result;
}

std::vector<double> resized(const std::vector<uint8_t>& image, const ImageSpec& in, int64_t height,
                            int64_t width) {
  std::vector<double> out(static_cast<size_t>(in.channels * height * width));
  for (int64_t c = 0; c < in.channels; ++c) {
    std::vector<std::vector<double>> rows;
    for (int64_t y = 0; y < in.height; ++y) {
      const auto* row = image.data() + (c * in.height + y) * in.width;
      rows.push_back(resized_line({row, row + in.width}, width));
    }
    for (int64_t x = 0; x < width; ++x) {
      std::vector<double> column;
      for (const auto& row : rows) column.push_back(row[static_cast<size_t>(x)]);
      column = resized_line(column, height);
      for (int64_t y = 0; y < height; ++y)
        out[static_cast<size_t>((c * height + y) * width + x)] = column[static_cast<size_t>(y)];
    }
  }
  return out;
}

TEST_CASE("resize: gives Pillow's bytes, and those of the triangle filter") {
  uint32_t stream = 0;
  for (const auto& g : golden::kResized) {
    CAPTURE(g.in_height);
    CAPTURE(g.in_width);
    CAPTURE(g.width);
    const ImageSpec in{3, g.in_height, g.in_width};
    const auto image = hash_image(stream++, in.pixels());
    const auto got = applied(resize(g.height, g.width), image, in);
    CHECK(fnv(got) == g.bilinear);
    CHECK(fnv(applied(resize(g.height, g.width, Interpolation::kNearest), image, in)) == g.nearest);

    std::vector<uint8_t> mirrored = got;
    for (auto row = mirrored.begin(); row != mirrored.end(); row += g.width)
      std::reverse(row, row + g.width);
    const Transform again = compose(resize(g.height, g.width), hflip(1));  // one pass
    CHECK(applied(again, image, in) == mirrored);

    if (in.pixels() > 100'000) continue;
    const auto want = resized(image, in, g.height, g.width);
    double worst = 0;
    for (size_t k = 0; k < got.size(); ++k) worst = std::max(worst, std::abs(got[k] - want[k]));
    CHECK(worst <= 1.0 + 1e-3);  // half after each of two passes; weights of 22 bits
  }
}

TEST_CASE("resize: one number is the shorter side, and the longer one follows, rounded down") {
  CHECK(resize(256).output({3, 375, 500}) == ImageSpec{3, 256, 341});
  CHECK(resize(256).output({3, 500, 375}) == ImageSpec{3, 341, 256});
  CHECK(resize(7).output({1, 5, 5}) == ImageSpec{1, 7, 7});
  const ImageSpec in{3, 20, 31};
  const auto image = hash_image(1, in.pixels());
  CHECK(applied(resize(10), image, in) == applied(resize(10, 15), image, in));
}

/// Pixel values name their place: channel 0 the row, channel 1 the column.
std::vector<uint8_t> map_image(int64_t height, int64_t width) {
  std::vector<uint8_t> image(static_cast<size_t>(2 * height * width));
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      image[static_cast<size_t>(y * width + x)] = static_cast<uint8_t>(y);
      image[static_cast<size_t>((height + y) * width + x)] = static_cast<uint8_t>(x);
    }
  return image;
}

struct Seen {
  int64_t top, left, height, width;
};

/// The crop that a draw took, read from a nearest result so large that every row and column shows:
/// no image here has a side above 96.
Seen crop_of(const RandomResizedCropOptions& options, int64_t height, int64_t width, Key key) {
  constexpr int64_t kSide = 96, kPlane = kSide * kSide;
  REQUIRE(std::max(height, width) <= kSide);
  RandomResizedCropOptions nearest = options;
  nearest.interpolation = Interpolation::kNearest;
  const auto got = applied(random_resized_crop(kSide, nearest), map_image(height, width),
                           {2, height, width}, key);
  const auto rows = std::minmax_element(got.begin(), got.begin() + kPlane);
  const auto columns = std::minmax_element(got.begin() + kPlane, got.end());
  return {*rows.first, *columns.first, *rows.second - *rows.first + 1,
          *columns.second - *columns.first + 1};
}

TEST_CASE("random_resized_crop: areas, ratios and places are as asked, and drawn evenly") {
  const int64_t height = 60, width = 80;
  std::map<int64_t, int> area_tenths, tops;
  int low_ratio = 0, taken = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const Seen box = crop_of({.scale = {0.1, 0.4}, .ratio = {0.5, 2.0}}, height, width, {1, 2, i});
    const auto area = static_cast<double>(box.height * box.width);
    const double part = area / static_cast<double>(height * width);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    CHECK(part > 0.1 * 0.93);  // both sides rounded: half a pixel of 22 each at the worst
    CHECK(part < 0.4 * 1.07);
    CHECK(ratio > 0.5 * 0.93);
    CHECK(ratio < 2.0 * 1.07);
    CHECK(box.top + box.height <= height);
    CHECK(box.left + box.width <= width);
    ++taken;
    low_ratio += ratio < 1;
    ++area_tenths[static_cast<int64_t>((part - 0.1) * 10)];
    tops[box.top * 4 / (height - box.height + 1)]++;
  }
  // Ratio 1 is the middle of the logarithms. 2000 draws: 22 is one standard deviation.
  CHECK(std::abs(low_ratio - taken / 2) < 150);
  for (int64_t tenth = 0; tenth < 3; ++tenth) CHECK(std::abs(area_tenths[tenth] - 667) < 120);
  for (int64_t quarter = 0; quarter < 4; ++quarter) CHECK(std::abs(tops[quarter] - 500) < 120);
}

TEST_CASE("random_resized_crop: where no crop fits, the middle with the nearest ratio") {
  // The whole area, but no ratio near the image's.
  const Seen wide = crop_of({.scale = {1, 1}}, 30, 90, {1, 0, 0});
  CHECK(wide.height == 30);
  CHECK(wide.width == 40);
  CHECK(wide.left == 25);
  const Seen high = crop_of({.scale = {1, 1}}, 90, 30, {1, 0, 0});
  CHECK(high.width == 30);
  CHECK(high.height == 40);
  CHECK(high.top == 25);
  const Seen whole = crop_of({.scale = {4, 4}}, 50, 50, {1, 0, 0});
  CHECK(whole.height * whole.width == 2500);
}

TEST_CASE("random_resized_crop: equals the crop it took, resized, and knows how much it looks at") {
  const ImageSpec in{2, 60, 80};
  const auto image = map_image(in.height, in.width);
  for (int64_t i = 0; i < 20; ++i) {
    const Key key{3, 1, i};
    const Seen box = crop_of({}, in.height, in.width, key);
    std::vector<uint8_t> crop;
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t y = box.top; y < box.top + box.height; ++y)
        for (int64_t x = box.left; x < box.left + box.width; ++x)
          crop.push_back(image[static_cast<size_t>((c * in.height + y) * in.width + x)]);
    const Transform t = random_resized_crop(24, 16);
    CHECK(applied(t, image, in, key) == applied(resize(24, 16), crop, {2, box.height, box.width}));
    CHECK(t.detail(in, key) == std::min(1.0, std::max(24.0 / static_cast<double>(box.height),
                                                      16.0 / static_cast<double>(box.width))));
  }
  CHECK(resize(15, 40).detail(in, {}) == 0.5);
  CHECK(compose(hflip(), resize(15, 40)).detail(in, {}) == 1);
}

TEST_CASE("transforms: stages that make pixels stand anywhere among those that move them") {
  const ImageSpec in{3, 21, 34};
  const auto image = hash_image(7, in.pixels());
  const Transform parts[] = {hflip(1),   center_crop(19, 23), resize(40, 37), vflip(1),
                             resize(18), center_crop(25, 12), hflip(1),       resize(11, 50),
                             resize(30), center_crop(7, 9)};
  Transform chain;
  ImageSpec spec = in;
  std::vector<uint8_t> want = image;
  for (const Transform& part : parts) {
    chain = chain.then(part);
    want = applied(part, want, spec);
    spec = part.output(spec);
    CHECK(chain.output(in) == spec);
    CHECK(applied(chain, image, in) == want);
  }
  const Transform tail = compose(resize(9, 13), hflip(1), normalize({0, 0, 0}, {1, 1, 1}));
  const auto bytes = applied(compose(resize(9, 13), hflip(1)), image, in);
  std::vector<float> floats(bytes.size());
  tail.apply(image.data(), in, {}, floats.data());
  for (size_t k = 0; k < bytes.size(); ++k)
    CHECK(floats[k] == doctest::Approx(bytes[k] / 255.0).epsilon(1e-6));
}

TEST_CASE("resize: what does not fit is refused with the values") {
  CHECK(message_of<ValueError>([] { resize(0); }) == "resize: sides must be 1 to 65536, got 0x0");
  CHECK(message_of<ValueError>([] { random_resized_crop(5, 70000); }) ==
        "random_resized_crop: sides must be 1 to 65536, got 5x70000");
  CHECK(message_of<ValueError>([] {
          random_resized_crop(5, {.scale = {0, 1}});
        }) == "random_resized_crop: scale must have 0 < min <= max, got 0 to 1");
  CHECK_THROWS_AS(random_resized_crop(5, {.ratio = {2, 1}}), ValueError);
  CHECK(message_of<DTypeError>([] {
          compose(to_float(), resize(4)).output({3, 8, 8});
        }) == "resize: the image is f32 already; resize comes before to_float and normalize");
  CHECK(message_of<ShapeError>([] {
          resize(4, 4).output({3, 0, 8});
        }) == "resize: an image of 0x8; sides must be 1 to 65536");
  CHECK(message_of<ShapeError>([] {
          resize(1000).output({3, 1, 100});
        }) ==
        "resize: an image of 1x100 would become one of 1000x100000; sides must be 1 to 65536");
  CHECK(message_of<ShapeError>([] {
          resize(10'000).output({3, 100, 101});
        }) ==
        "resize: an image of 100x101 would become one of 10000x10100, of more than 100000000 "
        "pixels");
  CHECK(resize(10'000).output({3, 100, 100}).width == 10'000);
  CHECK_THROWS_AS(center_crop(0), ValueError);
}

}  // namespace
}  // namespace lathe::data
