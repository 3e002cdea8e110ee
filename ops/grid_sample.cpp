// grid_sample and affine_grid, by gathering pixels and elementwise ops. Contracts: grid_sample.h.
#include "lathe/ops/grid_sample.h"

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

/// Positions in [0, size - 1]; outside, the nearest end, with no gradient.
Tensor clipped(const Tensor& at, int64_t size) {
  const Tensor fixed = at.detach(), last = clamp(fixed, 0, size - 1);
  return where(logical_and(gt(fixed, 0), lt(fixed, size - 1)), at, last);
}

/// Positions mirrored between `low` and `high` until they lie there.
Tensor reflected(const Tensor& at, double low, double high) {
  const double span = high - low;
  if (span == 0) return mul(at, 0);
  const Tensor distance = abs(sub(at, low)), rest = fmod(distance, span);
  const Tensor turns = floor(div(distance.detach(), span));
  return add(where(eq(fmod(turns, 2), 0), rest, sub(span, rest)), low);
}

/// Where the points lie along an axis of `size` pixels, counted in pixels.
Tensor positions(const Tensor& points, int64_t size, const GridSampleOptions& opt) {
  const auto n = static_cast<double>(size);
  const Tensor at = opt.align_corners ? mul(add(points, 1), (n - 1) / 2)
                                      : mul(sub(mul(add(points, 1), n), 1), 0.5);
  switch (opt.padding) {
    case SamplePadding::kZeros: return at;
    case SamplePadding::kBorder: return clipped(where(isnan(at.detach()), 0, at), size);
    case SamplePadding::kReflection: break;
  }
  const double edge = opt.align_corners ? 0 : 0.5;
  const Tensor finite = where(isfinite(at.detach()), at, 0);
  return clipped(reflected(finite, -edge, n - 1 + edge), size);
}

/// x [N,C,H,W] at whole positions [N,P,Q] → [N,C,P*Q]; 0 outside.
Tensor pixels_at(const Tensor& x, const Tensor& row, const Tensor& column) {
  const int64_t height = x.dim(2), width = x.dim(3);
  const auto within = [](const Tensor& t, int64_t size) {
    return logical_and(ge(t, 0), lt(t, size));
  };
  const Tensor inside = logical_and(within(row, height), within(column, width));
  // Counted in i64: f32 has no odd numbers above 2^24.
  const auto counted = [&](const Tensor& t) { return cast(where(inside, t, 0), kI64); };
  const Tensor place = add(mul(counted(row), width), counted(column));
  const Shape flat{x.dim(0), 1, row.dim(1) * row.dim(2)};
  const Shape wide{x.dim(0), x.dim(1), flat[2]};
  const Tensor values = gather(reshape(x, {x.dim(0), x.dim(1), height * width}), 2,
                               expand(reshape(place, flat), wide));
  return where(expand(reshape(inside, flat), wide), values, 0);
}

}  // namespace

Tensor grid_sample(const Tensor& x_in, const Tensor& grid_in, const GridSampleOptions& opt) {
  const profile::OpRange range("grid_sample", {x_in, grid_in});
  const auto [x_cast, grid_cast] = amp::cast(amp::kFloat, x_in, grid_in);
  check_operands("grid_sample", OperandDType::kFloating, "x", x_cast, "grid", grid_cast);
  LATHE_CHECK(ShapeError,
              x_in.ndim() == 4 && grid_in.ndim() == 4 && x_in.dim(0) == grid_in.dim(0) &&
                  grid_in.dim(3) == 2 && x_in.dim(2) > 0 && x_in.dim(3) > 0,
              "grid_sample: x must be [N,C,H,W], with H and W above 0, and grid [N,P,Q,2] (x: ",
              x_in, ", grid: ", grid_in, ")");
  const DType dtype = x_cast.dtype(), wide = compute_dtype(dtype);
  const Tensor x = cast(x_cast, wide), grid = cast(grid_cast, wide);
  const Tensor column = positions(select(grid, -1, 0), x.dim(3), opt);
  const Tensor row = positions(select(grid, -1, 1), x.dim(2), opt);
  const Shape flat{x.dim(0), 1, grid.dim(1) * grid.dim(2)};
  const Shape shape{x.dim(0), x.dim(1), grid.dim(1), grid.dim(2)};
  if (opt.mode == SampleMode::kNearest) {
    const Tensor y = pixels_at(x, round(row.detach()), round(column.detach()));
    // grid gets the gradient 0, not none. Its infinities and NaN must not reach y.
    const Tensor nothing = where(zeros_like(row.detach(), kBool), row, 0);
    return cast(reshape(add(y, reshape(nothing, flat)), shape), dtype);
  }
  const Tensor top = floor(row.detach()), left = floor(column.detach());
  const Tensor down = reshape(sub(row, top), flat), right = reshape(sub(column, left), flat);
  const auto corner = [&](int64_t below, int64_t beside) {
    const Tensor share = mul(below == 1 ? down : sub(1, down), beside == 1 ? right : sub(1, right));
    return mul(pixels_at(x, add(top, below), add(left, beside)), share);
  };
  const Tensor y = add(add(corner(0, 0), corner(0, 1)), add(corner(1, 0), corner(1, 1)));
  return cast(reshape(y, shape), dtype);
}

Tensor affine_grid(const Tensor& theta, int64_t rows, int64_t columns, bool align_corners) {
  const profile::OpRange range("affine_grid", {theta});
  check_floating("affine_grid", theta);
  LATHE_CHECK(ShapeError, theta.ndim() == 3 && theta.dim(1) == 2 && theta.dim(2) == 3,
              "affine_grid: theta must be [N,2,3] (theta: ", theta, ")");
  LATHE_CHECK(ValueError, rows >= 0 && columns >= 0, "affine_grid: ", rows, " rows and ", columns,
              " columns");
  const DType wide = compute_dtype(theta.dtype());
  const TensorOptions options{.dtype = wide, .device = theta.device()};
  const auto middles = [&](int64_t size) {
    if (size <= 1) return zeros({size}, options);
    const double end = align_corners ? 1.0 : 1.0 - 1.0 / static_cast<double>(size);
    return linspace(-end, end, size, options);
  };
  const Shape grid{rows, columns};
  const Tensor points = stack({expand(middles(columns), grid),
                               expand(unsqueeze(middles(rows), 1), grid), ones(grid, options)},
                              2);
  const Tensor y =
      matmul(reshape(points, {1, rows * columns, 3}), transpose(cast(theta, wide), 1, 2));
  return cast(reshape(y, {theta.dim(0), rows, columns, 2}), theta.dtype());
}

}  // namespace lathe
