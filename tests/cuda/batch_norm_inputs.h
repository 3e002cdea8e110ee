// What the tests of batch norm's kernels run on: layouts and sizes, inputs, comparison.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/random.h"
#include "on_device.h"

namespace lathe::test {

struct Case {
  Shape x;
  MemoryFormat format = kContiguous;
};
inline const Case kCases[] = {
    {{2, 64, 4, 4}, kChannelsLast},     // packets, several rows of pixels per warp
    {{2, 64, 4, 4}},                    // packets along the planes
    {{2, 264, 3, 3}, kChannelsLast},    // two tiles of channels, the second with few
    {{4, 3, 5, 6}, kChannelsLast},      // channels that do not fill a packet
    {{4, 3, 5, 5}},                     // planes that do not
    {{1, 8, 40, 41}, kChannelsLast},    // several chunks
    {{1, 3, 300, 470}, kChannelsLast},  // so many pixels that a thread takes whole turns
    {{1, 132, 67, 67}},
    {{2, 2, 40, 41}},
    {{2, 2, 64, 40}},
    {{33, 10}},
    {{4, 3, 33}},
    {{2, 3, 2, 3, 4}},
    {{1, 1, 3, 1}},
    {{0, 4, 3, 3}},
    {{2, 0, 3, 3}},
};

inline constexpr double kEps = 1e-5;

struct Inputs {
  BatchNormCall call;
  Tensor residual, dy, y;
};

inline Inputs inputs_of(BatchNormForm form, const Case& c, DType dtype, bool affine,
                        bool batch_stats) {
  const DType wide = dtype == kF64 ? kF64 : kF32;
  const auto make = [&] {
    const Tensor t = cast(randn(c.x), dtype);
    return c.x.size() == 4 ? t.contiguous(c.format) : t;
  };
  const Shape channels{c.x[1]};
  Inputs in;
  in.call = {form, make(), {}, {}, {}, {}, batch_stats};
  if (affine) {
    in.call.weight = cast(rand(channels) + 0.5, wide);
    in.call.bias = cast(randn(channels), wide);
  }
  const BatchNormStats stats = cpu::batch_norm_stats(in.call.x, kEps);
  in.call.mean = stats.mean;
  in.call.invstd = stats.invstd;
  if (form == BatchNormForm::kAddRelu) in.residual = make();
  in.y = cpu::batch_norm_forward(in.call, in.residual);
  in.dy = make();
  return in;
}

inline Tensor moved(const Tensor& t) { return t.defined() ? on_device(t) : t; }

inline Inputs on_device(const Inputs& in) {
  const BatchNormCall& c = in.call;
  return {{c.form, moved(c.x), moved(c.mean), moved(c.invstd), moved(c.weight), moved(c.bias),
           c.batch_stats},
          moved(in.residual),
          moved(in.dy),
          moved(in.y)};
}

inline void check(const char* what, const Tensor& got, const Tensor& want, double tol) {
  CHECK(got.defined() == want.defined());
  if (!want.defined()) return;
  CHECK(got.strides() == want.strides());
  const std::string wrong = difference(on_host(got), want, tol);
  CHECK_MESSAGE(wrong.empty(), what, ": ", wrong);
}

}  // namespace lathe::test
