// Colours and erased parts. The oracle of colours is Pillow (golden_transforms.py).
#include "lathe/data/transforms/color.h"

#include <doctest/doctest.h>

#include <algorithm>
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

void change(const std::string& what, double factor, const ColorImage& image) {
  if (what == "Brightness") adjust_brightness(image, factor);
  if (what == "Contrast") adjust_contrast(image, factor);
  if (what == "Color") adjust_saturation(image, factor);
  if (what == "Hue") adjust_hue(image, factor);
  if (what == "Grey") make_grey(image);
}

TEST_CASE("colours: brightness, contrast, saturation, hue and grey give Pillow's bytes") {
  const int64_t count = golden::kColorHeight * golden::kColorWidth;
  for (const auto& g : golden::kChanged) {
    CAPTURE(g.what);
    CAPTURE(g.factor);
    auto image = hash_image(100, 3 * count);
    change(g.what, g.factor, {image.data(), 3, count});
    CHECK(fnv(image) == g.hash);
  }
}

TEST_CASE("color_jitter: draws factors from the range, and the same for the same key") {
  const ImageSpec spec{3, 6, 5};
  const auto image = hash_image(3, spec.pixels());
  std::set<std::vector<uint8_t>> results;
  double least = 9, most = 0;
  for (int64_t i = 0; i < 500; ++i) {
    // White to grey: the pixel says the factor.
    const auto dark = applied(color_jitter({.brightness = 0.5}), std::vector<uint8_t>(90, 100),
                              spec, Key{1, 0, i});
    CHECK(std::count(dark.begin(), dark.end(), dark[0]) == 90);
    least = std::min(least, dark[0] / 100.0);
    most = std::max(most, dark[0] / 100.0);
    const Key key{1, 2, i};
    const Transform jitter = color_jitter({0.5, 0.5, 0.5, 0.2});
    const auto once = applied(jitter, image, spec, key);
    CHECK(applied(jitter, image, spec, key) == once);
    results.insert(once);
  }
  CHECK(least < 0.52);
  CHECK(least >= 0.49);  // truncated
  CHECK(most > 1.48);
  CHECK(most <= 1.5);
  CHECK(results.size() == 500);
  CHECK(applied(color_jitter({}), image, spec) == image);
}

TEST_CASE("color_jitter: draws the order first, then the four factors, and applies them so") {
  const ImageSpec spec{3, 9, 7};
  const auto image = hash_image(3, spec.pixels());
  const char* const names[] = {"Brightness", "Contrast", "Color", "Hue"};
  const ColorJitterOptions options{0.4, 1.5, 0.3, 0.1};
  std::set<std::vector<int>> orders;
  for (int64_t i = 0; i < 300; ++i) {
    const Key key{1, 2, i};
    Random random = key.random(kTransformStream);
    std::vector<int> order = {0, 1, 2, 3};
    for (size_t k = 3; k > 0; --k) std::swap(order[k], order[random.below(k + 1)]);
    orders.insert(order);
    const auto between = [&](double a, double b) { return a + (b - a) * random.uniform(); };
    std::vector<double> factors;
    factors.push_back(between(0.6, 1.4));
    factors.push_back(between(0.0, 2.5));  // 1 - 1.5 is cut off at 0
    factors.push_back(between(0.7, 1.3));
    factors.push_back(between(-0.1, 0.1));
    auto want = image;
    for (const int step : order)
      change(names[step], factors[static_cast<size_t>(step)], {want.data(), 3, 63});
    CHECK(applied(color_jitter(options), image, spec, key) == want);
  }
  CHECK(orders.size() == 24);
}

TEST_CASE("colours: images of one channel have brightness and contrast alone") {
  const ImageSpec spec{1, 4, 4};
  const auto image = hash_image(9, 16);
  CHECK(applied(color_jitter({.saturation = 0.9, .hue = 0.4}), image, spec) == image);
  CHECK(applied(grayscale(), image, spec) == image);
  CHECK(applied(color_jitter({.contrast = 0.9}), image, spec) != image);
  CHECK(applied(grayscale(0), hash_image(1, 48), {3, 4, 4}) == hash_image(1, 48));
  CHECK_THROWS_AS(grayscale().output({4, 2, 2}), ShapeError);
  CHECK_THROWS_AS(compose(to_float(), grayscale()).output({3, 2, 2}), DTypeError);
}

/// Where `got` differs from an image of 200s, as a rectangle; all of it must differ.
struct Box {
  int64_t top, left, bottom, right;
};
Box erased(const std::vector<uint8_t>& got, int64_t height, int64_t width) {
  Box box{height, width, 0, 0};
  int64_t count = 0;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      if (got[static_cast<size_t>(y * width + x)] == 200) continue;
      ++count;
      box = {std::min(box.top, y), std::min(box.left, x), std::max(box.bottom, y + 1),
             std::max(box.right, x + 1)};
    }
  if (count == 0) return {};
  CHECK(count == (box.bottom - box.top) * (box.right - box.left));
  return box;
}

TEST_CASE("random_erasing: a rectangle of the size asked for, with probability p") {
  const int64_t height = 50, width = 70;
  const ImageSpec spec{1, height, width};
  const std::vector<uint8_t> image(3500, 200);
  const Transform t = random_erasing({.p = 0.25, .scale = {0.1, 0.2}, .ratio = {0.5, 2}});
  int hits = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const Box box = erased(applied(t, image, spec, {1, 0, i}), height, width);
    const auto h = static_cast<double>(box.bottom - box.top);
    const auto w = static_cast<double>(box.right - box.left);
    if (h == 0) continue;
    ++hits;
    CHECK(h * w > 0.1 * 3500 * 0.93);
    CHECK(h * w < 0.2 * 3500 * 1.07);
    CHECK(h / w > 0.5 * 0.9);
    CHECK(h / w < 2 * 1.1);
  }
  CHECK(std::abs(hits - 500) < 100);  // 5 standard deviations
}

TEST_CASE("random_erasing: a rectangle as high or as wide as the image is none") {
  const ImageSpec spec{1, 8, 8};
  const std::vector<uint8_t> image(64, 200);
  const Transform t = random_erasing({.p = 1, .scale = {1, 1}, .ratio = {1, 1}});
  for (int64_t i = 0; i < 20; ++i) CHECK(applied(t, image, spec, {1, 0, i}) == image);
}

TEST_CASE("cutout: a square around any pixel, cut off at the border") {
  const ImageSpec spec{1, 12, 9};
  const std::vector<uint8_t> image(108, 200);
  std::set<std::pair<int64_t, int64_t>> corners;
  for (int64_t i = 0; i < 1000; ++i) {
    const Box box = erased(applied(cutout(4, {7}), image, spec, {1, 0, i}), 12, 9);
    CHECK(box.bottom - box.top <= 4);
    CHECK(box.bottom - box.top >= 2);
    corners.insert({box.bottom, box.right});
  }
  CHECK(corners.size() > 80);  // 11 x 8 different ones
}

TEST_CASE("erasing: values are of the image's kind, and follow what comes after") {
  const ImageSpec spec{3, 8, 10};
  const auto image = hash_image(5, spec.pixels());
  const std::vector<double> mean = {0.4, 0.5, 0.6}, std = {0.2, 0.25, 0.5};
  const Transform erase = cutout(3, {10, 20, 30});
  const Key key{4, 0, 1};
  const auto bytes = applied(erase, image, spec, key);
  CHECK(bytes != image);

  // Flips and crops after it see the erased image; so does normalize.
  const auto flipped =
      applied(compose(erase, hflip(1), vflip(1), center_crop(5, 12)), image, spec, key);
  CHECK(flipped == applied(compose(hflip(1), vflip(1), center_crop(5, 12)), bytes, spec));
  const Transform scale = normalize(mean, std);
  std::vector<float> got(240), want(240);
  compose(erase, scale, hflip(1)).apply(image.data(), spec, key, got.data());
  compose(scale, hflip(1)).apply(bytes.data(), spec, key, want.data());
  for (size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-6));

  // After normalize: zeros in the normalised image. The stage's number gives its draws.
  compose(hflip(0), cutout(3)).apply(image.data(), spec, key, want.data());
  std::vector<float> zeros(240), plain(240);
  compose(scale, cutout(3)).apply(image.data(), spec, key, zeros.data());
  scale.apply(image.data(), spec, key, plain.data());
  const auto marks =
      applied(compose(hflip(0), cutout(3, {1})), std::vector<uint8_t>(240, 0), spec, key);
  for (size_t k = 0; k < zeros.size(); ++k) CHECK(zeros[k] == (marks[k] == 1 ? 0 : plain[k]));

  // Before one that makes pixels it is in what that one sees.
  CHECK(applied(compose(erase, resize(4, 5)), image, spec, key) ==
        applied(resize(4, 5), bytes, spec));
}

TEST_CASE("erasing and colours: what cannot be is refused with the values") {
  const ImageSpec spec{3, 8, 8};
  CHECK(message_of<ValueError>([] { random_erasing({.p = 2}); }) ==
        "random_erasing: p must be in [0, 1], got 2");
  CHECK(message_of<ValueError>([] {
          random_erasing({.scale = {0.5, 0.1}});
        }) == "random_erasing: scale must have 0 < min <= max, got 0.5 to 0.1");
  CHECK(message_of<ShapeError>([&] {
          cutout(3, {1, 2}).output(spec);
        }) == "cutout: an image of 3 channels, but 2 values");
  CHECK(message_of<ValueError>([&] { cutout(3, {0.5}).output(spec); }) ==
        "cutout: values for a u8 image must be integers from 0 to 255, got 0.5");
  CHECK_NOTHROW(compose(to_float(), cutout(3, {0.5})).output(spec));
  CHECK_THROWS_AS(cutout(0), ValueError);
  std::vector<uint8_t> image(192), out(192);
  CHECK(message_of<ValueError>([&] {
          compose(cutout(1), cutout(1), cutout(1)).apply(image.data(), spec, {}, out.data());
        }) == "cutout: more than 2 erasing stages one after another");
  CHECK(message_of<ValueError>([] { color_jitter({.hue = 0.6}); }) ==
        "color_jitter: hue must be at most 0.5, got 0.6");
  CHECK_THROWS_AS(color_jitter({.contrast = -1}), ValueError);
}

}  // namespace
}  // namespace lathe::data
