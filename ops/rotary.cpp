// Rotary positions, by other ops. Contract: rotary.h.
#include "lathe/ops/rotary.h"

#include <cmath>
#include <vector>

#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/join.h"
#include "lathe/ops/views.h"

namespace lathe {

Tensor rotary_embedding(const Tensor& x, const RotaryOptions& opt) {
  check_floating("rotary_embedding", x);
  LATHE_CHECK(ShapeError, x.ndim() >= 2 && x.dim(-1) > 0 && x.dim(-1) % 2 == 0,
              "rotary_embedding: expected […,T,D] with an even D (x: ", x, ")");
  LATHE_CHECK(ValueError, opt.base > 0, "rotary_embedding: base must be positive, got ", opt.base);
  const int64_t T = x.dim(-2), D = x.dim(-1), pairs = D / 2;
  std::vector<double> speeds, cosines, sines;
  for (int64_t i = 0; i < pairs; ++i) {
    speeds.push_back(std::pow(opt.base, -2.0 * static_cast<double>(i) / static_cast<double>(D)));
  }
  for (int64_t t = 0; t < T; ++t) {
    for (const double speed : speeds) {
      const double angle = static_cast<double>(opt.offset + t) * speed;
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  const bool half = is_half(x.dtype());
  const DType dtype = half ? kF32 : x.dtype();
  const auto table = [&](const std::vector<double>& values) {
    return tensor(values, {.dtype = dtype, .device = x.device()}).view({T, pairs});
  };
  // Before the range: inside an op that reads traced tensors, a trace takes no constants.
  const Tensor c = table(cosines), s = table(sines);
  const profile::OpRange range("rotary_embedding", {x});
  // The pairs' two numbers are apart by one dimension: […,T,D/2,2] or […,T,2,D/2].
  Shape split = x.shape();
  split[split.size() - 1] = opt.interleaved ? pairs : 2;
  split.push_back(opt.interleaved ? 2 : pairs);
  const int64_t dim = opt.interleaved ? -1 : -2;
  const Tensor wide = reshape(half ? cast(x, dtype) : x, split);
  const Tensor a = select(wide, dim, 0), b = select(wide, dim, 1);
  const Tensor turned = stack({sub(mul(a, c), mul(b, s)), add(mul(b, c), mul(a, s))}, dim);
  return cast(reshape(turned, x.shape()), x.dtype());
}

}  // namespace lathe
