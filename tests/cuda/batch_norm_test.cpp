// The kernels of ops/batch_norm_kernels/batch_norm_cuda.cu and ops/batch_norm_kernels/batch_norm_backward_cuda.cu against the CPU op.
#include "lathe/ops/batch_norm.h"

#include <doctest/doctest.h>

#include "batch_norm_inputs.h"
#include "lathe/autograd/engine.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/join.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// What training computes on the device.
struct Trained {
  Tensor y, mean, var, invstd;
};

Trained train(BatchNormCall call, const Tensor& residual) {
  const int64_t channels = call.x.dim(1), count = call.x.numel() / std::max<int64_t>(channels, 1);
  Trained result;
  BatchNormRunning running{{}, {}, 1.0, {}};  // the running statistics become those of the batch
  if (count > 0) {
    running.mean =
        zeros({channels}, {.dtype = compute_dtype(call.x.dtype()), .device = call.x.device()});
    running.var = zeros_like(running.mean);
  }
  result.y = cuda::batch_norm_train(call, residual, kEps, running);
  result.mean = call.mean;
  result.invstd = call.invstd;
  if (count == 0) return result;
  const double biased = static_cast<double>(count - 1) / static_cast<double>(count);
  result.var = running.var.to(kCPU) * biased;
  CHECK(difference(running.mean.to(kCPU), call.mean.to(kCPU), 0).empty());
  return result;
}

void compare(BatchNormForm form, const Case& c, DType dtype, bool affine = true,
             bool batch_stats = true) {
  const Inputs in = inputs_of(form, c, dtype, affine, batch_stats), device = on_device(in);
  CAPTURE(static_cast<int>(form));
  CAPTURE(concat(in.call.x, c.format == kChannelsLast ? " NHWC" : ""));
  const double tol = tolerance_of(dtype), wide_tol = tolerance_of(dtype == kF64 ? kF64 : kF32);

  const BatchNormStats want = cpu::batch_norm_stats(in.call.x, kEps);
  const Trained got = train(device.call, device.residual);
  check("mean", got.mean, want.mean, wide_tol);
  if (got.var.defined()) check("var", got.var, want.var, wide_tol);
  check("invstd", got.invstd, want.invstd, wide_tol);
  check("y of training", got.y, in.y, tol);
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

TEST_CASE("batch_norm kernels: the gradient may come in two parts") {
  for (const BatchNormForm form :
       {BatchNormForm::kPlain, BatchNormForm::kRelu, BatchNormForm::kAddRelu}) {
    for (const DType dtype : {kF32, kF16}) {
      for (const bool batch_stats : {true, false}) {
        const Inputs in = inputs_of(form, kCases[0], dtype, true, batch_stats);
        const Inputs device = on_device(in);
        const Tensor part = cast(randn(in.dy.shape()), dtype).contiguous(kChannelsLast);
        const Tensor whole = cast(in.dy, kF32) + cast(part, kF32);
        const bool add = form == BatchNormForm::kAddRelu;
        // The CPU's sum in f32, so that only the results are rounded.
        BatchNormCall wide = in.call;
        wide.x = cast(in.call.x, kF32);
        BatchNormGrads a{true, add, true, {}, {}, {}, {}}, b = a;
        cpu::batch_norm_backward(a, wide, whole, add ? cast(in.y, kF32) : Tensor());
        b.second_dy = moved(part);
        cuda::batch_norm_backward(b, device.call, device.dy, add ? device.y : Tensor());
        CAPTURE(static_cast<int>(form));
        CAPTURE(batch_stats);
        const double tol = tolerance_of(dtype);
        check("dx", b.dx, cast(a.dx, dtype), tol);
        if (add) check("dresidual", b.dresidual, cast(a.dresidual, dtype), 0);
        check("dweight", b.dweight, a.dweight, tol);
        check("dbias", b.dbias, a.dbias, tolerance_of(kF32));
        // In the memory of gradients that nobody reads any more the results are the same.
        BatchNormGrads c{true, add, true, {}, {}, {}, {}};
        const Tensor first = moved(in.dy);
        c.second_dy = moved(part);
        c.dy_is_free = c.second_is_free = true;
        cuda::batch_norm_backward(c, device.call, first, add ? device.y : Tensor());
        CHECK(c.dx.shares_storage(c.second_dy) == add);
        if (add) CHECK(c.dresidual.shares_storage(first));
        check("dx", c.dx, on_host(b.dx), 0);
        if (add) check("dresidual", c.dresidual, on_host(b.dresidual), 0);
        check("dweight", c.dweight, on_host(b.dweight), 0);
      }
    }
  }
}

TEST_CASE("batch_norm kernels: the gradient of a mean over the pixels is read as it is") {
  const Case cases[] = {{{3, 64, 4, 4}, kChannelsLast},  // packets
                        {{2, 7, 3, 5}, kChannelsLast},   // no packets
                        {{2, 8, 4, 4}, kContiguous},     // row-major: written out before
                        {{2, 8, 1, 1}, kChannelsLast}};
  for (const BatchNormForm form : {BatchNormForm::kPlain, BatchNormForm::kAddRelu}) {
    for (const Case& c : cases) {
      for (const DType dtype : {kF32, kF16}) {
        Inputs in = inputs_of(form, c, dtype, true, true);
        const Tensor pooled = cast(randn({c.x[0], c.x[1]}), dtype);
        in.dy = expand(reshape(pooled, {c.x[0], c.x[1], 1, 1}), c.x).contiguous(c.format);
        const Inputs device = on_device(in);
        const Tensor dy = expand(reshape(moved(pooled), {c.x[0], c.x[1], 1, 1}), c.x);
        const bool add = form == BatchNormForm::kAddRelu;
        for (const bool residual : {false, add}) {
          BatchNormGrads a{true, residual, true, {}, {}, {}, {}}, b = a, d = a;
          cuda::batch_norm_backward(a, device.call, device.dy, add ? device.y : Tensor());
          cpu::batch_norm_backward(d, in.call, in.dy, add ? in.y : Tensor());
          const uint64_t launches = cuda::counters().launches;
          cuda::batch_norm_backward(b, device.call, dy, add ? device.y : Tensor());
          const bool reads = residual && c.format == kChannelsLast && c.x[2] > 1;
          if (launches > 0)  // a build without the CUDA backend counts none
            CHECK(cuda::counters().launches - launches == (reads || c.x[2] == 1 ? 2 : 3));
          check("dx", b.dx, on_host(a.dx), 0);
          check("dresidual", b.dresidual, residual ? on_host(a.dresidual) : Tensor(), 0);
          check("dweight", b.dweight, on_host(a.dweight), 0);
          check("dx", b.dx, d.dx, tolerance_of(dtype));
        }
      }
    }
  }
}

TEST_CASE("batch_norm: an output that two ops use has its gradients added by its own kernel" *
          cuda_case()) {
  const Tensor x = randn({2, 8, 3, 3}), weight = rand({8}) + 0.5, bias = randn({8});
  enum class Seen { kNo, kHook, kRetained, kAsked, kTwice };
  const auto run = [&](Device device, Seen seen, int uses) {
    const auto on = [&](const Tensor& t) { return t.to(device).detach().requires_grad_(); };
    const Tensor a = on(x.contiguous(kChannelsLast)), w = on(weight), b = on(bias);
    const Tensor y = batch_norm_relu(a, w, b, {}, {}, {.training = true});
    Tensors found;
    if (seen == Seen::kHook) {
      y.register_hook([&](const Tensor& g) {
        found.push_back(g);
        return g * 2.0;
      });
    }
    if (seen == Seen::kRetained) y.retain_grad();
    Tensor out = y * 3.0;
    for (int i = 1; i < uses; ++i) out = out + square(y + double(i));
    const Tensor dy = a.detach();  // NHWC, so that nothing is brought into another order
    const uint64_t before = cuda::counters().launches;
    if (seen == Seen::kAsked || seen == Seen::kTwice) {
      found =
          grad({out}, {a, w, b, y}, {.grad_outputs = {dy}, .create_graph = seen == Seen::kTwice});
    } else {
      out.backward(dy);
      found.insert(found.end(), {a.grad(), w.grad(), b.grad()});
      if (seen == Seen::kRetained) found.push_back(y.grad());
    }
    return std::pair(found, cuda::counters().launches - before);
  };
  const Device gpu(DeviceType::kCUDA);
  for (const Seen seen : {Seen::kNo, Seen::kHook, Seen::kRetained, Seen::kAsked, Seen::kTwice}) {
    for (const int uses : {1, 2, 3}) {
      CAPTURE(static_cast<int>(seen));
      CAPTURE(uses);
      const auto [want, none] = run(kCPU, seen, uses);
      const auto [got, launches] = run(gpu, seen, uses);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(difference(got[i].to(kCPU).contiguous(), want[i].contiguous(), 1e-5).empty());
      }
    }
  }
  const auto two = run(gpu, Seen::kNo, 2).second, seen_two = run(gpu, Seen::kRetained, 2).second;
  CHECK(seen_two - two == 1);  // the addition
}

TEST_CASE("batch_norm kernels: every form, layout and size") {
  for (const Case& c : kCases) {
    compare(BatchNormForm::kAddRelu, c, kF32);
    if (numel_of(c.x) > 400) continue;
    compare(BatchNormForm::kPlain, c, kF32);
    compare(BatchNormForm::kRelu, c, kF32);
  }
}

TEST_CASE("batch_norm kernels: scale and shift, and a gradient from sums that are known") {
  for (const Case& c : kCases) {
    if (numel_of(c.x) == 0) continue;
    for (const DType dtype : {kF32, kF16, kF64}) {
      // How much a thread takes is the same for all dtypes.
      if (dtype != kF32 && numel_of(c.x) > 20000) continue;
      INFO(c.x, " ", dtype);
      const Inputs in = inputs_of(BatchNormForm::kRelu, c, dtype, true, true);
      BatchNormCall call = on_device(in).call;
      const auto [scale, shift] = cuda::batch_norm_coefficients(call, kEps, {{}, {}, 0, {}});
      const double tol = dtype == kF16 ? tolerance_of(kF16) : kDeviceTolerance;
      const Tensor want = in.call.weight * in.call.invstd;
      check("scale", scale, cast(want, dtype), tol);
      check("shift", shift, cast(in.call.bias - in.call.mean * want, dtype), tol);
      check("mean", call.mean, in.call.mean, tolerance_of(want.dtype()));
      check("invstd", call.invstd, in.call.invstd, tolerance_of(want.dtype()));

      BatchNormCall summed = on_device(in).call;
      Dims others;
      for (int d = 0; d < in.call.x.ndim(); ++d) {
        if (d != 1) others.push_back(d);
      }
      const Tensor exact = cast(in.call.x, kF64);
      const Tensor sums = stack({sum(exact, others), sum(square(exact), others)}, 0);
      summed.sums = on_device(cast(sums, kF32));
      const auto from_sums = cuda::batch_norm_coefficients(summed, kEps, {{}, {}, 0, {}});
      check("mean of sums", summed.mean, in.call.mean, tolerance_of(kF32));
      check("invstd of sums", summed.invstd, in.call.invstd, 1e-3);
      check("scale of sums", from_sums.scale, cast(want, dtype), 2e-3);
      check("y of sums", cuda::batch_norm_train(summed, {}, kEps, {{}, {}, 0, {}}), in.y, 1e-2);

      Shape per_channel = Dims::filled(static_cast<int>(c.x.size()), 1);
      per_channel[1] = c.x[1];
      const auto wide = [&](const Tensor& t) { return cast(t, kF64); };
      const auto spread = [&](const Tensor& t) { return wide(reshape(t, per_channel)); };
      const Tensor a = in.call.weight, b = in.call.bias, k = in.call.mean;
      const Tensor linear = spread(a) * wide(in.dy) + spread(b) * wide(in.call.x) + spread(k);
      const Tensor dx = cuda::batch_norm_combine(
          {on_device(in.dy), on_device(in.call.x), on_device(a), on_device(b), on_device(k)});
      check("dx", dx, cast(linear, dtype).contiguous(c.x.size() == 4 ? c.format : kContiguous),
            tol);
    }
  }
}

TEST_CASE("batch_norm kernels: sums serve near their mean, and far from it x is read again") {
  struct Far {
    Case c;
    double mean, tol;  // the deviation is 1; tol: of invstd, relative
  };
  // Sums in f32 lose 2^-22 * mean^2 of the variance. At 1000 that would be a quarter of it.
  const Far kFar[] = {{kCases[0], 50, 1e-3},    {kCases[5], 50, 1e-3},   {kCases[0], 1000, 1e-6},
                      {kCases[5], 1000, 1e-6},  {kCases[1], 1000, 1e-6}, {kCases[10], 1000, 1e-6},
                      {kCases[0], 30000, 1e-6}, {kCases[9], 30000, 1e-6}};
  for (const Far& far : kFar) {
    INFO(far.c.x, " mean ", far.mean);
    Inputs in = inputs_of(BatchNormForm::kPlain, far.c, kF32, true, true);
    // Channel 1 stays near 0: within one tensor each channel has the statistics that suit it.
    Tensor about = full({far.c.x[1]}, far.mean);
    about.select(0, 1).fill_(0);
    Shape per_channel = Dims::filled(static_cast<int>(far.c.x.size()), 1);
    per_channel[1] = far.c.x[1];
    in.call.x = (in.call.x + reshape(about, per_channel)).contiguous(far.c.format);
    Dims others;
    for (int d = 0; d < in.call.x.ndim(); ++d) {
      if (d != 1) others.push_back(d);
    }
    const Tensor exact = cast(in.call.x, kF64), mean_of_all = mean(exact, others, true);
    const Tensor var = mean(square(exact - mean_of_all), others);
    BatchNormCall summed = on_device(in).call;
    summed.sums = on_device(cast(stack({sum(exact, others), sum(square(exact), others)}, 0), kF32));
    const Trained got = train(summed, {});
    check("mean", got.mean, cast(reshape(mean_of_all, {far.c.x[1]}), kF32), 1e-6);
    check("invstd", got.invstd, cast(rsqrt(var + kEps), kF32), far.tol);
    check("running var", got.var, cast(var, kF32), 2 * far.tol);
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
  const Trained got = train({BatchNormForm::kPlain, moved(x), {}, {}, {}, {}, true}, {});
  check("mean", got.mean, want.mean, 1e-5);
  check("var", got.var, want.var, 1e-5);
}

TEST_CASE("batch_norm kernels: a large mean or first value does not cost the variance its digits") {
  const Tensor large = randn({500, 8}, {.dtype = kF64}) + 300;
  Tensor first = randn({500, 8}, {.dtype = kF64});
  first.select(0, 0).fill_(6e4);
  for (const Tensor& wide : {large, first}) {
    const Tensor x = cast(wide, kF32);
    const BatchNormStats want = cpu::batch_norm_stats(cast(x, kF64), kEps);
    const Trained got = train({BatchNormForm::kPlain, moved(x), {}, {}, {}, {}, true}, {});
    check("var", got.var, cast(want.var, kF32), 1e-5);
    check("mean", got.mean, cast(want.mean, kF32), 1e-5);
  }
}

TEST_CASE("batch_norm kernels: the same bits every time") {
  const Inputs in =
      inputs_of(BatchNormForm::kAddRelu, {{8, 64, 16, 16}, kChannelsLast}, kF16, true, true);
  const Inputs device = on_device(in);
  const Trained a = train(device.call, device.residual), b = train(device.call, device.residual);
  check("y", b.y, on_host(a.y), 0);
  check("invstd", b.invstd, on_host(a.invstd), 0);
  BatchNormGrads c{true, true, true, {}, {}, {}, {}}, d = c;
  cuda::batch_norm_backward(c, device.call, device.dy, device.y);
  cuda::batch_norm_backward(d, device.call, device.dy, device.y);
  check("dx", d.dx, on_host(c.dx), 0);
  check("dweight", d.dweight, on_host(c.dweight), 0);
}

TEST_CASE("batch_norm kernels: gradients of the parameters without that of x") {
  const Inputs in = inputs_of(BatchNormForm::kRelu, kCases[2], kF32, true, true);
  const Inputs device = on_device(in);
  BatchNormGrads a{false, false, true, {}, {}, {}, {}}, b = a;
  cpu::batch_norm_backward(a, in.call, in.dy, Tensor());
  cuda::batch_norm_backward(b, device.call, device.dy, Tensor());
  CHECK(!b.dx.defined());
  check("dweight", b.dweight, a.dweight, 1e-5);
  check("dbias", b.dbias, a.dbias, 1e-5);
}

TEST_CASE("batch_norm kernels: running statistics, also strided, their count, and invstd") {
  const Tensor x = randn({8, 70});
  const Tensor mean = randn({70, 2}).select(1, 0), var = rand({70, 2}).select(1, 1);
  const Tensor device_mean = moved(mean.clone()), device_var = moved(var.clone());
  const Tensor seen = moved(tensor(int64_t{41}));
  BatchNormCall call{BatchNormForm::kPlain, moved(x), {}, {}, {}, {}, true};
  cuda::batch_norm_train(call, {}, kEps, {device_mean, device_var, 0.1, seen});
  check("invstd", cuda::batch_norm_invstd(moved(var), kEps), cpu::batch_norm_invstd(var, kEps), 0);
  cpu::batch_norm_update_({mean, var, 0.1, {}}, cpu::batch_norm_stats(x, kEps), 8);
  check("running_mean", device_mean, mean.clone(), 1e-6);
  check("running_var", device_var, var.clone(), 1e-6);
  CHECK(on_host(seen).item<int64_t>() == 42);
}
