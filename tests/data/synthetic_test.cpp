// The synthetic images are what their header says of a class: a shape, and the direction and the
// number of its stripes. Options and statistics: image_datasets_test.cpp.
#include "lathe/data/images/synthetic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace lathe::data {
namespace {

constexpr int64_t kSide = 128;

/// An image of one channel without noise: three levels, of which the corner has the background's.
struct Picture {
  std::vector<uint8_t> pixels;

  uint8_t at(int64_t y, int64_t x) const { return pixels[static_cast<size_t>(y * kSide + x)]; }
  bool inside(int64_t y, int64_t x) const { return at(y, x) != at(0, 0); }
};

/// The first images of a class whose levels differ.
std::vector<Picture> pictures_of(int64_t label, size_t count) {
  const SyntheticOptions options{
      .classes = 200, .channels = 1, .height = kSide, .width = kSide, .seed = 3, .noise = 0};
  std::vector<Picture> found;
  for (int64_t i = 0; found.size() < count; ++i) {
    if (synthetic_label(options, i) != label) continue;
    Picture picture{std::vector<uint8_t>(kSide * kSide)};
    synthetic_image(options, i, picture.pixels.data());
    std::array<int, 256> frequent{};
    for (const uint8_t v : picture.pixels) ++frequent[v];
    int levels = 0;
    for (const int n : frequent) levels += n > 0;
    if (levels == 3) found.push_back(std::move(picture));
  }
  return found;
}

TEST_CASE("synthetic: stripes have the direction and the number of their class") {
  // Along a stripe the level stays the same: down, down to the left, to the right, down to the right.
  constexpr int64_t kAlong[4][2] = {{1, 0}, {1, -1}, {0, 1}, {1, 1}};
  for (const int64_t label : {1, 6, 11, 16, 21, 46, 71, 116}) {  // squares
    CAPTURE(label);
    const int64_t direction = label / 5 % 4;
    const double stripes = 4 * std::pow(1.15, static_cast<double>(label / 20));
    for (const Picture& picture : pictures_of(label, 3)) {
      double changes[4] = {}, pairs = 0;
      for (int64_t y = 1; y + 1 < kSide; ++y) {
        for (int64_t x = 1; x + 1 < kSide; ++x) {
          bool all_inside = picture.inside(y, x);
          for (const auto& [dy, dx] : kAlong)
            all_inside = all_inside && picture.inside(y + dy, x + dx);
          if (!all_inside) continue;
          ++pairs;
          for (int k = 0; k < 4; ++k)
            changes[k] += picture.at(y, x) != picture.at(y + kAlong[k][0], x + kAlong[k][1]);
        }
      }
      for (int k = 0; k < 4; ++k) {
        CAPTURE(k);
        CHECK((changes[k] < 0.02 * pairs) == (k == direction));
      }
      // Two changes a stripe; a step across is 1 pixel, or sqrt(2) for the diagonals.
      const double across = changes[(direction + 2) % 4] / pairs;
      const double step = direction % 2 == 0 ? 1 : std::sqrt(2.0);
      CHECK(std::abs(across / step - 2 * stripes / kSide) < 1.0 / 65);  // one in a square's width
    }
  }
}

TEST_CASE("synthetic: the shape is that of the class") {
  // How much of the square around each that it fills: disc, square, diamond, ring, cross.
  const double pi = std::acos(-1.0);
  const double filled[5] = {pi / 4, 1, 0.5, 0.7 * pi / 4, 0.35 * (2 - 0.35)};
  for (int64_t label = 0; label < 5; ++label) {
    CAPTURE(label);
    for (const Picture& picture : pictures_of(label, 3)) {
      int64_t top = kSide, bottom = 0, left = kSide, right = 0, inside = 0;
      for (int64_t y = 0; y < kSide; ++y) {
        for (int64_t x = 0; x < kSide; ++x) {
          if (!picture.inside(y, x)) continue;
          ++inside;
          top = std::min(top, y), bottom = std::max(bottom, y);
          left = std::min(left, x), right = std::max(right, x);
        }
      }
      const auto area = static_cast<double>((bottom - top + 1) * (right - left + 1));
      CHECK(std::abs(static_cast<double>(inside) / area - filled[label]) < 0.04);
    }
  }
}

}  // namespace
}  // namespace lathe::data
