// upsample: checks, and the two AxisMaps for ops/resample.h. Contract: upsample.h.
#include "lathe/ops/upsample.h"

#include <cmath>

#include "lathe/ops/resample.h"

namespace lathe {

namespace {

AxisMap axis(int64_t in, int64_t out, const UpsampleOptions& opt) {
  const double step =
      opt.scale > 0 ? 1.0 / opt.scale : static_cast<double>(in) / static_cast<double>(out);
  return opt.mode == UpsampleMode::kNearest ? nearest_map(in, out, step)
                                            : linear_map(in, out, step, opt.align_corners);
}

int64_t scaled(const Tensor& x, int64_t in, double scale) {
  const double out = std::floor(static_cast<double>(in) * scale);
  LATHE_CHECK(ShapeError, out >= 1 && out < 1e9, "upsample: scale ", scale, " makes ", in,
              " rows or columns into ", out, " (x: ", x, ")");
  return static_cast<int64_t>(out);
}

}  // namespace

Tensor upsample(const Tensor& x, const UpsampleOptions& opt) {
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) > 0 && x.dim(3) > 0,
              "upsample: x must be [N,C,H,W] with H and W above 0 (x: ", x, ")");
  const bool sized = opt.size > 0, by_scale = opt.scale > 0;
  LATHE_CHECK(ValueError,
              sized != by_scale && (sized || opt.size == Pair(0)) && (by_scale || opt.scale == 0),
              "upsample: give either a positive size or a positive scale, got size ", opt.size,
              " and scale ", opt.scale);
  LATHE_CHECK(ValueError, !opt.align_corners || opt.mode == UpsampleMode::kBilinear,
              "upsample: align_corners goes with bilinear only");
  const Pair out =
      sized ? opt.size : Pair(scaled(x, x.dim(2), opt.scale), scaled(x, x.dim(3), opt.scale));
  return resample("upsample", x, out, [&] {
    return PlaneMap{axis(x.dim(2), out.rows, opt), axis(x.dim(3), out.cols, opt)};
  });
}

}  // namespace lathe
