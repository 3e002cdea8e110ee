// The kernels of ops/batch_norm_kernels/batch_norm_cuda.cu and ops/batch_norm_kernels/batch_norm_backward_cuda.cu against the CPU op.
#include "lathe/ops/batch_norm.h"

#include <doctest/doctest.h>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape x;
  MemoryFormat format = kContiguous;
};
const Case kCases[] = {
    {{2, 64, 4, 4}, kChannelsLast},   // packets, several rows of pixels per warp
    {{2, 64, 4, 4}},                  // packets along the planes
    {{2, 264, 3, 3}, kChannelsLast},  // two tiles of channels, the second with few
    {{4, 3, 5, 6}, kChannelsLast},    // channels that do not fill a packet
    {{4, 3, 5, 5}},                   // planes that do not
    {{1, 8, 40, 41}, kChannelsLast},  // several chunks
    {{2, 2, 40, 41}},
    {{2, 2, 64, 40}},
    {{33, 10}},
    {{4, 3, 33}},
    {{2, 3, 2, 3, 4}},
    {{1, 1, 3, 1}},
    {{0, 4, 3, 3}},
    {{2, 0, 3, 3}},
};

constexpr double kEps = 1e-5;

struct Inputs {
  BatchNormCall call;
  Tensor residual, dy, y;
};

Inputs inputs_of(BatchNormForm form, const Case& c, DType dtype, bool affine, bool batch_stats) {
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

Tensor moved(const Tensor& t) { return t.defined() ? on_device(t) : t; }

Inputs on_device(const Inputs& in) {
  const BatchNormCall& c = in.call;
  return {{c.form, moved(c.x), moved(c.mean), moved(c.invstd), moved(c.weight), moved(c.bias),
           c.batch_stats},
          moved(in.residual),
          moved(in.dy),
          moved(in.y)};
}

void check(const char* what, const Tensor& got, const Tensor& want, double tol) {
  CHECK(got.defined() == want.defined());
  if (!want.defined()) return;
  CHECK(got.strides() == want.strides());
  const std::string wrong = difference(on_host(got), want, tol);
  CHECK_MESSAGE(wrong.empty(), what, ": ", wrong);
}

void compare(BatchNormForm form, const Case& c, DType dtype, bool affine = true,
             bool batch_stats = true) {
  const Inputs in = inputs_of(form, c, dtype, affine, batch_stats), device = on_device(in);
  CAPTURE(static_cast<int>(form));
  CAPTURE(concat(in.call.x, c.format == kChannelsLast ? " NHWC" : ""));
  const double tol = tolerance_of(dtype), wide_tol = tolerance_of(dtype == kF64 ? kF64 : kF32);

  const BatchNormStats want = cpu::batch_norm_stats(in.call.x, kEps);
  const BatchNormStats got = cuda::batch_norm_stats(device.call.x, kEps);
  check("mean", got.mean, want.mean, wide_tol);
  check("var", got.var, want.var, wide_tol);
  check("invstd", got.invstd, want.invstd, wide_tol);
  check("invstd of var", got.invstd, cuda::batch_norm_invstd(got.var, kEps).to(kCPU), 0);
  check("y", cuda::batch_norm_forward(device.call, device.residual), in.y, tol);

  const bool add = form == BatchNormForm::kAddRelu;
  for (const bool all : {true, false}) {  // all gradients, or that of x alone
    BatchNormGrads a{true, all && add, all, {}, {}, {}, {}}, b = a;
    cpu::batch_norm_backward(a, in.call, in.dy, add ? in.y : Tensor());
    cuda::batch_norm_backward(b, device.call, device.dy, add ? device.y : Tensor());
    check("dx", b.dx, a.dx, tol);
    check("dresidual", b.dresidual, a.dresidual, 0);
    check("dweight", b.dweight, a.dweight, wide_tol);
    check("dbias", b.dbias, a.dbias, wide_tol);
  }
}

}  // namespace

TEST_CASE("batch_norm kernels: every form, layout and size") {
  for (const Case& c : kCases) {
    compare(BatchNormForm::kAddRelu, c, kF32);
    if (numel_of(c.x) > 400) continue;
    compare(BatchNormForm::kPlain, c, kF32);
    compare(BatchNormForm::kRelu, c, kF32);
  }
}

TEST_CASE("batch_norm kernels: every dtype, without parameters, with constant statistics") {
  for (const DType dtype : {kF16, kBF16, kF64}) {
    compare(BatchNormForm::kRelu, kCases[0], dtype);
    compare(BatchNormForm::kAddRelu, kCases[1], dtype, false, false);
    compare(BatchNormForm::kAddRelu, kCases[3], dtype);
  }
  compare(BatchNormForm::kPlain, kCases[0], kF32, false, false);
  compare(BatchNormForm::kRelu, kCases[1], kF32, false, false);
}

TEST_CASE("batch_norm kernels: unaligned memory goes by single elements") {
  const Tensor x = randn({2 * 8 * 16 + 1}).narrow(0, 1, 256).reshape({2, 16, 8});
  const BatchNormStats want = cpu::batch_norm_stats(x, kEps);
  const BatchNormStats got = cuda::batch_norm_stats(moved(x), kEps);
  check("mean", got.mean, want.mean, 1e-5);
  check("var", got.var, want.var, 1e-5);
}

TEST_CASE("batch_norm kernels: a large mean does not cost the variance its digits") {
  const Tensor x = cast(randn({500, 8}, {.dtype = kF64}) + 300, kF32);
  const BatchNormStats want = cpu::batch_norm_stats(cast(x, kF64), kEps);
  const BatchNormStats got = cuda::batch_norm_stats(moved(x), kEps);
  check("var", got.var, cast(want.var, kF32), 1e-5);
}

TEST_CASE("batch_norm kernels: running statistics, also strided, their count, and invstd") {
  const BatchNormStats batch{randn({70}), rand({70}) + 0.5, {}};
  const Tensor mean = randn({70, 2}).select(1, 0), var = rand({70, 2}).select(1, 1);
  const Tensor device_mean = moved(mean.clone()), device_var = moved(var.clone());
  const Tensor seen = moved(tensor(int64_t{41}));
  cuda::batch_norm_update_(device_mean, device_var, {moved(batch.mean), moved(batch.var), {}}, 0.1,
                           8, seen);
  check("invstd", cuda::batch_norm_invstd(moved(var), kEps), cpu::batch_norm_invstd(var, kEps), 0);
  cpu::batch_norm_update_(mean, var, batch, 0.1, 8);
  check("running_mean", device_mean, mean.clone(), 0);
  check("running_var", device_var, var.clone(), 0);
  CHECK(on_host(seen).item<int64_t>() == 42);
}
