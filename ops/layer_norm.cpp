// Layer normalisation: checks, then row_norm (row_norm.h). Contract: layer_norm.h.
#include "lathe/ops/layer_norm.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/row_norm.h"

namespace lathe {

static void check_layer_norm(const Tensor& x, const Shape& normalized,
                             const LayerNormOptions& opt) {
  check_floating("layer_norm", x);
  LATHE_CHECK(ShapeError, !normalized.empty(),
              "layer_norm: at least one dimension must be normalised (x: ", x, ")");
  bool fits = x.ndim() >= normalized.size();
  for (int d = 1; fits && d <= normalized.size(); ++d) {
    fits = x.shape()[x.ndim() - d] == normalized[normalized.size() - d];
  }
  LATHE_CHECK(ShapeError, fits, "layer_norm: the last dimensions of x must be ", normalized,
              " (x: ", x, ")");
  for (const Tensor* t : {&opt.weight, &opt.bias}) {
    if (!t->defined()) continue;
    LATHE_CHECK(ShapeError, t->shape() == normalized, "layer_norm: weight and bias must be ",
                normalized, ", got ", t->shape(), " (x: ", x, ")");
    LATHE_CHECK(DTypeError, is_floating(t->dtype()),
                "layer_norm: weight and bias must be floating, got ", *t);
    LATHE_CHECK(DeviceError, t->device() == x.device(),
                "layer_norm: weight and bias must be where x is, got ", *t, " (x: ", x, ")");
  }
}

Tensor layer_norm(const Tensor& x_in, const Shape& normalized, const LayerNormOptions& opt) {
  const profile::OpRange range("layer_norm", {x_in});
  profile::note_arguments(normalized, opt);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_layer_norm(x, normalized, opt);
  const int64_t n = numel_of(normalized);
  int64_t rows = 1;
  for (int d = 0; d < x.ndim() - normalized.size(); ++d) rows *= x.shape()[d];
  return row_norm("layer_norm", x, {.samples = rows, .groups = 1, .channels = n, .inner = 1},
                  opt.weight, opt.bias, opt.eps);
}

}  // namespace lathe
