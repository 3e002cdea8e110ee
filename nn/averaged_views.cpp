// The views and their weights.
#include "lathe/nn/averaged_views.h"

#include <utility>

#include "lathe/ops/binary.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

Tensor average_views(FunctionRef<Tensor(const Tensor& x)> scores, const Tensor& x, Views views) {
  LATHE_CHECK(ShapeError, x.ndim() == 4, "average_views: x must be [N,C,H,W] (x: ", x, ")");
  const auto both_sides = [&](const Tensor& image) {
    return (scores(image) + scores(flip(image, {3}))) * 0.5;
  };
  const Tensor unmoved = both_sides(x);
  if (views == Views::kMirror) return unmoved;
  const Tensor padded = pad(x, {1, 1, 1, 1}, PadMode::kReflect);
  const auto moved = [&](int64_t from) {
    return both_sides(padded.narrow(2, from, x.dim(2)).narrow(3, from, x.dim(3)));
  };
  return unmoved * 0.5 + (moved(0) + moved(2)) * 0.25;
}

AveragedViews::AveragedViews(std::unique_ptr<Module> model, Views views) : views_(views) {
  hold("0", std::move(model));
}

Tensor AveragedViews::forward(const Tensor& x) {
  Module& model = (*this)[0];
  return average_views([&](const Tensor& view) { return model(view); }, x, views_);
}

}  // namespace lathe::nn
