// upsample: checks, and the two AxisMaps for ops/resample.h. Contract: upsample.h.
#include "lathe/ops/upsample.h"

#include <cmath>

#include "lathe/core/hooks/range.h"
#include "lathe/ops/resample.h"

namespace lathe {

namespace {

AxisMap axis(int64_t in, int64_t out, double scale, const UpsampleOptions& opt) {
  const double step = scale > 0 ? 1.0 / scale : static_cast<double>(in) / static_cast<double>(out);
  switch (opt.mode) {
    case UpsampleMode::kNearest: return nearest_map(in, out, step);
    case UpsampleMode::kNearestExact: return nearest_map(in, out, step, 0.5);
    case UpsampleMode::kBicubic: return cubic_map(in, out, step, opt.align_corners);
    case UpsampleMode::kBilinear: break;
  }
  return linear_map(in, out, step, opt.align_corners);
}

int64_t scaled(const Tensor& x, int64_t in, double scale) {
  const double out = std::floor(static_cast<double>(in) * scale);
  LATHE_CHECK(ShapeError, out >= 1 && out < 1e9, "upsample: scale ", scale, " makes ", in,
              " rows or columns into ", out, " (x: ", x, ")");
  return static_cast<int64_t>(out);
}

}  // namespace

Tensor upsample(const Tensor& x, const UpsampleOptions& opt) {
  const profile::OpRange range("upsample", {x});
  profile::note_arguments(opt);
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) > 0 && x.dim(3) > 0,
              "upsample: x must be [N,C,H,W] with H and W above 0 (x: ", x, ")");
  const Factors scale = opt.scale;
  const bool sized = opt.size > 0, by_scale = scale.rows > 0 && scale.cols > 0;
  const bool no_scale = scale.rows == 0 && scale.cols == 0;
  LATHE_CHECK(ValueError,
              sized != by_scale && (sized || opt.size == Pair(0)) && (by_scale || no_scale),
              "upsample: give either a positive size or a positive scale, got size ", opt.size,
              " and scale ", scale.rows, ", ", scale.cols);
  const bool nearest =
      opt.mode == UpsampleMode::kNearest || opt.mode == UpsampleMode::kNearestExact;
  LATHE_CHECK(ValueError, !opt.align_corners || !nearest,
              "upsample: align_corners goes with bilinear and bicubic only");
  const Pair out =
      sized ? opt.size : Pair(scaled(x, x.dim(2), scale.rows), scaled(x, x.dim(3), scale.cols));
  return resample("upsample", x, out, [&] {
    return PlaneMap{axis(x.dim(2), out.rows, scale.rows, opt),
                    axis(x.dim(3), out.cols, scale.cols, opt)};
  });
}

}  // namespace lathe
