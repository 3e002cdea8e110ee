// AveragedViews: the views and their weights.
#include "lathe/nn/averaged_views.h"

#include <utility>

#include "lathe/ops/binary.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

AveragedViews::AveragedViews(std::unique_ptr<Module> model, Views views) : views_(views) {
  hold("0", std::move(model));
}

Tensor AveragedViews::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() == 4, "AveragedViews: x must be [N,C,H,W] (x: ", x, ")");
  const Tensor scores = both_sides(x);
  if (views_ == Views::kMirror) return scores;
  const Tensor padded = pad(x, {1, 1, 1, 1}, PadMode::kReflect);
  const auto moved = [&](int64_t from) {
    return both_sides(padded.narrow(2, from, x.dim(2)).narrow(3, from, x.dim(3)));
  };
  return scores * 0.5 + (moved(0) + moved(2)) * 0.25;
}

Tensor AveragedViews::both_sides(const Tensor& x) {
  Module& model = (*this)[0];
  return (model(x) + model(flip(x, {3}))) * 0.5;
}

}  // namespace lathe::nn
