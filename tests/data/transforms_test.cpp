// The oracle does one stage after another on a plain array, as the definitions say; the code under
// test does all of them in one pass.
#include "lathe/data/transforms/transforms.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "files.h"
#include "lathe/core/error.h"

namespace lathe::data {
namespace {

using testing::message_of;

struct Picture {
  int64_t channels, height, width;
  std::vector<double> v;
  double at(int64_t c, int64_t y, int64_t x) const {
    return v[static_cast<size_t>((c * height + y) * width + x)];
  }
};

/// A size x size window of the zero-padded picture; (y, x) is its corner in the unpadded one.
Picture cropped(const Picture& in, int64_t y0, int64_t x0, int64_t size) {
  Picture out{in.channels, size, size, {}};
  for (int64_t c = 0; c < in.channels; ++c)
    for (int64_t y = y0; y < y0 + size; ++y)
      for (int64_t x = x0; x < x0 + size; ++x)
        out.v.push_back(y >= 0 && y < in.height && x >= 0 && x < in.width ? in.at(c, y, x) : 0);
  return out;
}

Picture flipped(const Picture& in) {
  Picture out = in;
  for (int64_t c = 0; c < in.channels; ++c)
    for (int64_t y = 0; y < in.height; ++y)
      for (int64_t x = 0; x < in.width; ++x)
        out.v[static_cast<size_t>((c * in.height + y) * in.width + x)] =
            in.at(c, y, in.width - 1 - x);
  return out;
}

std::vector<uint8_t> noise(int64_t bytes) {
  std::vector<uint8_t> out(static_cast<size_t>(bytes));
  Random random(5, 0, 0, 0);
  for (auto& byte : out) byte = static_cast<uint8_t>(1 + random.below(255));  // never black
  return out;
}

Picture picture(const std::vector<uint8_t>& bytes, const ImageSpec& spec) {
  return {spec.channels, spec.height, spec.width, std::vector<double>(bytes.begin(), bytes.end())};
}

std::vector<double> applied(const Transform& t, const std::vector<uint8_t>& image,
                            const ImageSpec& spec, Key key) {
  const ImageSpec out = t.output(spec);
  const auto n = static_cast<size_t>(out.pixels());
  if (out.dtype == kF32) {
    std::vector<float> values(n, -1e9f);
    t.apply(image.data(), spec, key, values.data());
    return {values.begin(), values.end()};
  }
  std::vector<uint8_t> values(n);
  t.apply(image.data(), spec, key, values.data());
  return {values.begin(), values.end()};
}

struct Size {
  int64_t channels, height, width, crop, pad;
};
const Size kSizes[] = {
    {3, 32, 32, 32, 4},  // CIFAR
    {1, 28, 28, 28, 3},  // no multiple of 16
    {2, 5, 7, 6, 2},     // narrower than a vector
    {1, 1, 1, 3, 1},     // smaller than the border
    {3, 40, 24, 17, 0},  // a window without padding, not square
    {2, 16, 48, 33, 9},
};

TEST_CASE("transforms: pad_crop shows a window of the zero-padded image, and each equally likely") {
  for (const auto& s : kSizes) {
    const ImageSpec spec{s.channels, s.height, s.width};
    const auto image = noise(spec.pixels());
    const Picture source = picture(image, spec);
    const int64_t rows = s.height + 2 * s.pad - s.crop + 1,
                  columns = s.width + 2 * s.pad - s.crop + 1;
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t i = 0; i < 40; ++i) {
      CAPTURE(i);
      const auto got = applied(pad_crop(s.crop, s.pad), image, spec, Key{1, 2, i});
      bool found = false;
      for (int64_t y = -s.pad; y < rows - s.pad; ++y)
        for (int64_t x = -s.pad; x < columns - s.pad; ++x)
          if (cropped(source, y, x, s.crop).v == got) {
            found = true;
            seen.insert({y, x});
          }
      CHECK(found);
    }
    if (rows * columns == 81)
      CHECK(seen.size() > 25);  // 40 draws from 81: 31.7 different ones expected
  }
}

TEST_CASE("transforms: hflip reverses rows, with probability p") {
  for (const auto& s : kSizes) {
    const ImageSpec spec{s.channels, s.height, s.width};
    const auto image = noise(spec.pixels());
    const Picture source = picture(image, spec);
    CHECK(applied(hflip(0), image, spec, Key{1, 2, 3}) == source.v);
    CHECK(applied(hflip(1), image, spec, Key{1, 2, 3}) == flipped(source).v);
    CHECK(applied(compose(hflip(1), hflip(1)), image, spec, Key{1, 2, 3}) == source.v);
  }
  const ImageSpec spec{1, 1, 2};
  int flips = 0;
  for (int64_t i = 0; i < 10'000; ++i)
    flips += applied(hflip(), {1, 2}, spec, Key{9, 0, i})[0] == 2;
  CHECK(std::abs(flips - 5000) < 250);  // 5 standard deviations
}

TEST_CASE("transforms: alternating_hflip shows the other side in every other epoch") {
  const ImageSpec spec{1, 1, 2};
  const auto is_flipped = [&](int64_t epoch, int64_t index) {
    return applied(compose(hflip(0), alternating_hflip()), {1, 2}, spec, Key{9, epoch, index})[0] ==
           2;
  };
  int flips = 0;
  for (int64_t i = 0; i < 10'000; ++i) {
    const bool first = is_flipped(0, i);
    flips += first;
    for (int64_t epoch = 1; epoch < 6; ++epoch)
      REQUIRE(is_flipped(epoch, i) == (first != (epoch % 2 == 1)));
  }
  CHECK(std::abs(flips - 5000) < 250);  // 5 standard deviations
}

TEST_CASE("transforms: reflect_pad gives NumPy's border") {
  const std::vector<uint8_t> image = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  // numpy.pad(numpy.arange(1, 13).reshape(3, 4), 2, "reflect")
  const std::vector<double> padded = {11, 10, 9, 10, 11, 12, 11, 10, 7,  6,  5,  6,  7, 8,
                                      7,  6,  3, 2,  1,  2,  3,  4,  3,  2,  7,  6,  5, 6,
                                      7,  8,  7, 6,  11, 10, 9,  10, 11, 12, 11, 10, 7, 6,
                                      5,  6,  7, 8,  7,  6,  3,  2,  1,  2,  3,  4,  3, 2};
  CHECK(applied(reflect_pad(2), image, {1, 3, 4}, {}) == padded);
  CHECK(applied(reflect_pad(0), image, {3, 2, 2}, {}) ==
        std::vector<double>(image.begin(), image.end()));

  // As part of a chain: a window of the bordered picture, from any part of the image.
  const ImageSpec spec{3, 9, 12};
  const auto bytes = noise(spec.pixels());
  for (int64_t i = 0; i < 20; ++i) {
    const Key key{3, 1, i};
    const Picture middle = cropped(flipped(picture(bytes, spec)), 0, 2, 8);
    Picture bordered{3, 12, 12, {}};
    const auto mirrored = [](int64_t at) { return at < 0 ? -at : at > 7 ? 14 - at : at; };
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = -2; y < 10; ++y)
        for (int64_t x = -2; x < 10; ++x)
          bordered.v.push_back(middle.at(c, mirrored(y), mirrored(x)));
    Random random = key.random(kTransformStream + 3);
    const auto y = static_cast<int64_t>(random.below(5)), x = static_cast<int64_t>(random.below(5));
    CHECK(applied(compose(hflip(1), center_crop(8), reflect_pad(2), pad_crop(8, 0)), bytes, spec,
                  key) == cropped(bordered, y, x, 8).v);
  }
}

TEST_CASE("transforms: vflip reverses columns, and follows and precedes crops as it stands") {
  for (const auto& s : kSizes) {
    const ImageSpec spec{s.channels, s.height, s.width};
    const auto image = noise(spec.pixels());
    const auto got = applied(vflip(1), image, spec, Key{1, 2, 3});
    for (int64_t row = 0; row < s.channels * s.height; ++row) {
      const int64_t c = row / s.height, y = row % s.height;
      for (int64_t x = 0; x < s.width; ++x)
        CHECK(got[static_cast<size_t>(row * s.width + x)] ==
              picture(image, spec).at(c, s.height - 1 - y, x));
    }
    const Transform crop = center_crop(s.crop, s.crop + 1);
    CHECK(applied(compose(vflip(1), crop, vflip(1), vflip(1)), image, spec, {}) ==
          applied(crop, std::vector<uint8_t>(got.begin(), got.end()), spec, {}));
  }
}

TEST_CASE("transforms: center_crop takes torchvision's window, and pads what is smaller") {
  struct Line {
    int64_t side, crop, first;  // first: Python's int(round((side - crop) / 2.0)), or -padding
  };
  const Line lines[] = {{8, 8, 0},  {9, 8, 0},  {10, 8, 1}, {11, 8, 2}, {13, 8, 2},
                        {15, 8, 4}, {17, 8, 4}, {5, 8, -1}, {6, 8, -1}, {7, 8, 0}};
  for (const Line& row : lines) {
    for (const Line& column : lines) {
      const ImageSpec spec{1, row.side, column.side};
      const auto image = noise(spec.pixels());
      const auto got = applied(center_crop(8), image, spec, {});
      for (int64_t y = 0; y < 8; ++y)
        for (int64_t x = 0; x < 8; ++x) {
          const int64_t r = row.first + y, k = column.first + x;
          const bool inside = r >= 0 && r < row.side && k >= 0 && k < column.side;
          CHECK(got[static_cast<size_t>(y * 8 + x)] ==
                (inside ? picture(image, spec).at(0, r, k) : 0));
        }
    }
  }
}

TEST_CASE("transforms: normalize is (x / 255 - mean) / std") {
  const std::vector<double> mean = {0.4914, 0.4822, 0.4465}, std = {0.2470, 0.2435, 0.2616};
  const ImageSpec spec{3, 16, 16};
  std::vector<uint8_t> image(768);
  for (size_t k = 0; k < image.size(); ++k) image[k] = static_cast<uint8_t>(k);
  for (const Transform& t : {normalize(mean, std), compose(to_float(), normalize(mean, std))}) {
    const auto got = applied(t, image, spec, Key{});
    for (size_t k = 0; k < image.size(); ++k) {
      const size_t c = k / 256;
      const double expected = (image[k] / 255.0 - mean[c]) / std[c];
      CHECK(std::abs(got[k] - expected) <= 0x1p-22 * (1 + mean[c]) / std[c]);
    }
  }
}

TEST_CASE("transforms: a chain in one pass equals its stages one after another") {
  const std::vector<double> mean = {0.3, 0.5, 0.1}, std = {0.2, 0.25, 0.3};
  for (const auto& s : kSizes) {
    const ImageSpec spec{s.channels, s.height, s.width};
    const auto image = noise(spec.pixels());
    const std::vector<double> m(mean.begin(), mean.begin() + s.channels),
        d(std.begin(), std.begin() + s.channels);
    const Transform chain =
        compose(hflip(1), pad_crop(s.crop, s.pad), pad_crop(s.crop, 2), hflip(1), normalize(m, d));
    for (int64_t i = 0; i < 20; ++i) {
      const Key key{3, 1, i};
      // The same draws by the definition of pad_crop: first the row, then the column.
      const auto crop = [&](const Picture& in, int stage, int64_t pad) {
        Random random = key.random(kTransformStream + stage);
        const auto y = random.below(static_cast<uint64_t>(in.height + 2 * pad - s.crop + 1));
        const auto x = random.below(static_cast<uint64_t>(in.width + 2 * pad - s.crop + 1));
        return cropped(in, static_cast<int64_t>(y) - pad, static_cast<int64_t>(x) - pad, s.crop);
      };
      Picture expected = crop(crop(flipped(picture(image, spec)), 1, s.pad), 2, 2);
      expected = flipped(expected);
      const auto got = applied(chain, image, spec, key);
      REQUIRE(got.size() == expected.v.size());
      const int64_t plane = s.crop * s.crop;
      for (size_t k = 0; k < got.size(); ++k) {
        const size_t c = k / static_cast<size_t>(plane);
        CHECK(std::abs(got[k] - (expected.v[k] / 255.0 - m[c]) / d[c]) < 1e-5);
      }
    }
  }
}

TEST_CASE("transforms: the result depends on seed, epoch and index, and on nothing else") {
  const ImageSpec spec{3, 32, 32};
  const auto image = noise(spec.pixels());
  const Transform t = compose(pad_crop(32, 4), hflip());
  const auto of = [&](Key key) { return applied(t, image, spec, key); };
  CHECK(of({1, 2, 3}) == of({1, 2, 3}));
  std::set<std::vector<double>> results;
  for (int64_t k = 0; k < 10; ++k) {
    results.insert(of({static_cast<uint64_t>(k), 2, 3}));
    results.insert(of({1, 100 + k, 3}));
    results.insert(of({1, 2, 1000 + k}));
  }
  CHECK(results.size() > 20);  // 30 draws from 162 outcomes; 27.4 different ones expected
}

TEST_CASE("transforms: what does not fit is refused with the values") {
  const ImageSpec spec{3, 8, 8};
  CHECK(message_of<ShapeError>([&] { pad_crop(13, 2).output(spec); }) ==
        "pad_crop: an image of 8x8 padded by 2 is smaller than the window of 13x13");
  CHECK(message_of<DTypeError>([&] { compose(to_float(), pad_crop(8, 2)).output(spec); }) ==
        "pad_crop: the image is f32 already; pad_crop comes before to_float and normalize");
  const Transform of_bytes[] = {pad_crop(8, 2), center_crop(4),
                                resize(4),      random_resized_crop(4),
                                grayscale(),    color_jitter({.brightness = 0.1}),
                                reflect_pad(7)};
  for (const Transform& stage : of_bytes) {
    CHECK(stage.output(spec).dtype == kU8);
    const std::string message =
        message_of<DTypeError>([&] { compose(to_float(), stage).output(spec); });
    CHECK(message.find(": the image is f32 already; ") != std::string::npos);
  }
  CHECK(message_of<ShapeError>([&] { normalize({0.5}, {0.5}).output(spec); }) ==
        "normalize: an image of 3 channels, but 1 means");
  CHECK(message_of<ValueError>([] { pad_crop(0, 1); }) == "pad_crop: size must be positive, got 0");
  CHECK(message_of<ValueError>([] { pad_crop(1, -1); }) ==
        "pad_crop: pad must not be negative, got -1");
  CHECK(message_of<ValueError>([] { reflect_pad(-1); }) ==
        "reflect_pad: pad must not be negative, got -1");
  CHECK(message_of<ShapeError>([&] { reflect_pad(8).output(spec); }) ==
        "reflect_pad: an image of 8x8 is too small for a border of 8");
  CHECK(message_of<ValueError>([] { hflip(1.5); }) == "hflip: p must be in [0, 1], got 1.5");
  CHECK(message_of<ValueError>([] {
          normalize({0.5}, {0.5, 0.5});
        }) == "normalize: 1 means and 2 standard deviations");
  CHECK(message_of<ValueError>([] { normalize({0.5}, {0.0}); }) ==
        "normalize: std 0 must be positive and finite, got 0");
  CHECK_THROWS_AS(normalize({std::numeric_limits<double>::quiet_NaN()}, {1.0}), ValueError);
  CHECK_THROWS_AS(to_float().output({17, 1, 1}), ShapeError);
  CHECK(message_of<ValueError>([] { Transform{std::shared_ptr<const PixelStage>()}; }) ==
        "Transform: the stage is null");
  CHECK(message_of<ValueError>([] { Transform{std::shared_ptr<const ImageStage>()}; }) ==
        "Transform: the stage is null");
}

}  // namespace
}  // namespace lathe::data
