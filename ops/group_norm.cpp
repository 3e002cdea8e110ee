// Group normalisation: checks, then row_norm (row_norm.h). Contract: group_norm.h.
#include "lathe/ops/group_norm.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/row_norm.h"

namespace lathe {

static void check_group_norm(const Tensor& x, int64_t groups, const GroupNormOptions& opt) {
  check_floating("group_norm", x);
  LATHE_CHECK(ShapeError, x.ndim() >= 2, "group_norm: x must be [N,C,...] (x: ", x, ")");
  LATHE_CHECK(ValueError, groups >= 1, "group_norm: groups must be positive, got ", groups);
  const int64_t channels = x.shape()[1];
  LATHE_CHECK(ShapeError, channels % groups == 0, "group_norm: ", channels,
              " channels do not divide into ", groups, " groups (x: ", x, ")");
  for (const Tensor* t : {&opt.weight, &opt.bias}) {
    if (!t->defined()) continue;
    LATHE_CHECK(ShapeError, t->shape() == Shape{channels}, "group_norm: weight and bias must be ",
                Shape{channels}, ", got ", t->shape(), " (x: ", x, ")");
    LATHE_CHECK(DTypeError, is_floating(t->dtype()),
                "group_norm: weight and bias must be floating, got ", *t);
    LATHE_CHECK(DeviceError, t->device() == x.device(),
                "group_norm: weight and bias must be where x is, got ", *t, " (x: ", x, ")");
  }
}

Tensor group_norm(const Tensor& x_in, int64_t groups, const GroupNormOptions& opt) {
  const profile::OpRange range("group_norm", {x_in});
  profile::note_arguments(groups, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_group_norm(x, groups, opt);
  const Lines lines = lines_of(x.shape(), 1);
  const RowNormShape shape{
      .samples = lines.outer, .groups = groups, .channels = lines.n / groups, .inner = lines.inner};
  return row_norm("group_norm", x, shape, opt.weight, opt.bias, opt.eps);
}

}  // namespace lathe
