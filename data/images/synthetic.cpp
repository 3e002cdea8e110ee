// Synthetic images: the drawing of shapes, stripes and noise.
#include "lathe/data/images/synthetic.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/data/random.h"

namespace lathe::data {
namespace {

constexpr int64_t kShapes = 5, kDirections = 4;
constexpr int64_t kMaxChannels = 16;
constexpr int kLabelStream = 0, kSceneStream = 1, kNoiseStream = 2;

/// Everything random about an image except its noise. Lengths are parts of the smaller side.
struct Scene {
  int64_t shape;
  float center_y, center_x, radius;
  float stripe_y, stripe_x, phase;  // the wave is sin(y * stripe_y + x * stripe_x + phase)
  float foreground[kMaxChannels], stripes[kMaxChannels], background[kMaxChannels];
};

Random random_of(const SyntheticOptions& options, int64_t i, int stream) {
  return Key{options.seed, 0, i}.random(stream);
}

Scene scene_of(const SyntheticOptions& options, int64_t i) {
  const int64_t label = synthetic_label(options, i);
  Random random = random_of(options, i, kSceneStream);
  const auto between = [&](float low, float high) { return low + (high - low) * random.uniform(); };
  Scene scene{};
  scene.shape = label % kShapes;
  scene.center_y = between(0.4f, 0.6f);
  scene.center_x = between(0.4f, 0.6f);
  scene.radius = between(0.3f, 0.4f);
  const float angle = 3.14159265f * static_cast<float>(label / kShapes % kDirections) / kDirections;
  const int64_t period = label / (kShapes * kDirections);
  const float periods = 4.0f * std::pow(1.15f, static_cast<float>(period));
  scene.stripe_y = 6.2831853f * periods * std::sin(angle);
  scene.stripe_x = 6.2831853f * periods * std::cos(angle);
  scene.phase = between(0.0f, 6.2831853f);
  const bool bright = random.uniform() < 0.5f;  // the shape on its background, or the two exchanged
  for (int64_t c = 0; c < options.channels; ++c) {
    const float dark = between(0.0f, 0.35f), light = between(0.6f, 1.0f);
    scene.background[c] = bright ? dark : light;
    scene.foreground[c] = bright ? light : dark;
    scene.stripes[c] = between(0.3f, 0.6f);
  }
  return scene;
}

/// Whether a point is inside the shape; (y, x) is relative to its centre, in units of its radius.
bool inside(int64_t shape, float y, float x) {
  const float ay = std::fabs(y), ax = std::fabs(x), r2 = y * y + x * x;
  switch (shape) {
    case 0: return r2 < 1;                                             // disc
    case 1: return std::max(ay, ax) < 0.85f;                           // square
    case 2: return ay + ax < 1.2f;                                     // diamond
    case 3: return r2 < 1 && r2 > 0.3f;                                // ring
    default: return std::max(ay, ax) < 1 && std::min(ay, ax) < 0.35f;  // cross
  }
}

}  // namespace

void check_synthetic(const SyntheticOptions& o) {
  LATHE_CHECK(ValueError, o.size >= 0, "Synthetic: size must not be negative, got ", o.size);
  LATHE_CHECK(ValueError, o.classes >= 1 && o.classes <= 200,
              "Synthetic: classes must be 1 to 200, got ", o.classes);
  LATHE_CHECK(ValueError, o.channels >= 1 && o.channels <= kMaxChannels,
              "Synthetic: channels must be 1 to ", kMaxChannels, ", got ", o.channels);
  LATHE_CHECK(ValueError, o.height >= 1 && o.height <= 4096 && o.width >= 1 && o.width <= 4096,
              "Synthetic: height and width must be 1 to 4096, got ", o.height, " and ", o.width);
  LATHE_CHECK(ValueError, std::isfinite(o.noise) && o.noise >= 0,
              "Synthetic: noise must be finite and not negative, got ", o.noise);
}

int64_t synthetic_label(const SyntheticOptions& options, int64_t i) {
  return static_cast<int64_t>(
      random_of(options, i, kLabelStream).below(static_cast<uint64_t>(options.classes)));
}

void synthetic_image(const SyntheticOptions& options, int64_t i, uint8_t* out) {
  const Scene scene = scene_of(options, i);
  Random noise = random_of(options, i, kNoiseStream);
  // The sum of four uniform bytes has a standard deviation of sqrt(4 (256^2 - 1) / 12) = 147.8.
  const auto noise_scale = static_cast<float>(options.noise * 255.0 / 147.8);
  const float side = static_cast<float>(std::min(options.height, options.width));
  const int64_t plane = options.height * options.width;
  for (int64_t r = 0; r < options.height; ++r) {
    for (int64_t k = 0; k < options.width; ++k) {
      const float y = (static_cast<float>(r) + 0.5f) / side,
                  x = (static_cast<float>(k) + 0.5f) / side;
      const bool in = inside(scene.shape, (y - scene.center_y) / scene.radius,
                             (x - scene.center_x) / scene.radius);
      const bool stripe = in && std::sin(y * scene.stripe_y + x * scene.stripe_x + scene.phase) > 0;
      for (int64_t c = 0; c < options.channels; ++c) {
        const float level = !in      ? scene.background[c]
                            : stripe ? scene.stripes[c]
                                     : scene.foreground[c];
        const uint32_t bits = noise.bits();
        const int sum =
            static_cast<int>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24));
        const float value = 255.0f * level + noise_scale * static_cast<float>(sum - 510);
        out[c * plane + r * options.width + k] =
            static_cast<uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
      }
    }
  }
}

}  // namespace lathe::data
