// AveragedViews of a linear model, whose average over views is the model of the average view.
#include "lathe/nn/averaged_views.h"

#include <doctest/doctest.h>

#include <memory>

#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

std::unique_ptr<nn::Module> linear_model(const nn::Linear& like) {
  auto model = std::make_unique<nn::Sequential>();
  model->add<nn::Flatten>();
  model->add<nn::Linear>(24, 5).to(kF64);
  StateDict state;
  state.add("1.weight", like.weight);
  state.add("1.bias", like.bias);
  model->load_state_dict(state);
  return model;
}

/// The mean of the views, pixel by pixel.
Tensor mean_view(const Tensor& x, bool shifted) {
  const int64_t height = x.dim(2), width = x.dim(3);
  const auto mirrored = [](int64_t at, int64_t size) {
    return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
  };
  Tensor out = zeros_like(x);
  const auto add_view = [&](int64_t move, double weight) {
    for (int64_t r = 0; r < height; ++r)
      for (int64_t k = 0; k < width; ++k) {
        const Tensor pixel = x.select(2, mirrored(r + move, height));
        for (const int64_t column : {k, width - 1 - k})
          out.select(2, r).select(2, k).add_(pixel.select(2, mirrored(column + move, width)) *
                                             (weight / 2));
      }
  };
  add_view(0, shifted ? 0.5 : 1);
  if (shifted) {
    add_view(-1, 0.25);
    add_view(1, 0.25);
  }
  return out;
}

}  // namespace

TEST_CASE("AveragedViews: mirror images and shifts with their weights") {
  Generator generator(2);
  const Tensor x = randn({3, 2, 3, 4}, {.dtype = kF64}, &generator);
  nn::Linear linear(24, 5);
  linear.to(kF64);
  for (const bool shifted : {false, true}) {
    nn::AveragedViews averaged(linear_model(linear),
                               shifted ? nn::Views::kMirrorShift : nn::Views::kMirror);
    const Tensor want = linear(mean_view(x, shifted).reshape({3, 24}));
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      CHECK(max(abs(averaged(x.contiguous(format)) - want)).item<double>() < 1e-14);
    CHECK_THROWS_AS(averaged(x[0]), ShapeError);
  }
  CHECK_THROWS_WITH_AS(nn::AveragedViews(nullptr, nn::Views::kMirror),
                       doctest::Contains("AveragedViews: the module \"0\" is null"), ValueError);
}
