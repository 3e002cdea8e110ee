// What the stages of transforms share: checks of options, draws, and making a Transform of a stage.
// Internal to data/.
#pragma once

#include <cmath>
#include <memory>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/data/transforms/image_stage.h"
#include "lathe/data/transforms/pixel_plan.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

inline void check_probability(const char* stage, double p) {
  LATHE_CHECK(ValueError, p >= 0 && p <= 1, stage, ": p must be in [0, 1], got ", p);
}

inline void check_range(const char* stage, const char* what, const Range& range) {
  LATHE_CHECK(ValueError, range.min > 0 && range.min <= range.max && std::isfinite(range.max),
              stage, ": ", what, " must have 0 < min <= max, got ", range.min, " to ", range.max);
}

/// A uniform draw from the range.
inline double draw(const Range& range, Random& random) {
  return range.min + (range.max - range.min) * static_cast<double>(random.uniform());
}

template <class S, class... Args>
Transform pixel_stage(Args&&... args) {
  return Transform(
      std::shared_ptr<const PixelStage>(std::make_shared<S>(std::forward<Args>(args)...)));
}

template <class S, class... Args>
Transform image_stage(Args&&... args) {
  return Transform(
      std::shared_ptr<const ImageStage>(std::make_shared<S>(std::forward<Args>(args)...)));
}

}  // namespace lathe::data
