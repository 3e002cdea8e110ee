// What relu passed at the end of a block, kept as bits: BatchNormCall::passed. In whole blocks:
// tests/cudnn/relu_bits_test.cpp.
#include <limits>

#include "batch_norm_inputs.h"
#include "lathe/core/copy.h"
#include "lathe/core/unmeasured.h"
#include "lathe/lathe.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("batch_norm kernels: bits of what relu passed stand for y, with equal results") {
  for (const Case& c : kCases) {
    if (numel_of(c.x) == 0 || numel_of(c.x) > 20000 || c.x == Shape{1, 1, 3, 1}) continue;
    for (const DType dtype : {kF16, kBF16, kF32}) {
      for (const bool summed : {false, true}) {  // what the convolution before left, or not
        INFO(c.x, " ", dtype, " ", summed);
        Inputs in = on_device(inputs_of(BatchNormForm::kAddRelu, c, dtype, true, true));
        // y is NaN, 0, or so small that f16 rounds it to 0.
        in.residual = relu(in.residual);
        if (c.x.size() == 4) in.residual = in.residual.contiguous(c.format);
        in.call.weight.narrow(0, 0, c.x[1] / 2).zero_();
        in.call.bias.narrow(0, 0, c.x[1] / 2).fill_(1e-9);
        in.residual.narrow(0, 0, 1).narrow(1, 0, 1).fill_(std::numeric_limits<float>::quiet_NaN());
        if (summed) {
          const Tensor sums = stack({in.call.mean, square(in.call.mean) + 1.0}, 0);
          in.call.sums = cast(sums * static_cast<double>(numel_of(c.x) / c.x[1]), kF32);
        }
        in.call.wants_passed = true;
        const Tensor y = cuda::batch_norm_train(in.call, in.residual, kEps, {{}, {}, 0, {}});
        const int64_t plane = numel_of(c.x) / (c.x[0] * c.x[1]);
        const bool by_pixel = c.format == kChannelsLast || plane == 1;
        const bool wide = (by_pixel ? c.x[1] : plane) % 8 == 0;
        REQUIRE(in.call.passed.defined() == (wide && dtype != kF32));
        if (!in.call.passed.defined()) continue;
        const Tensor odd = empty({numel_of(c.x) + 1}, {.dtype = dtype, .device = y.device()});
        const Tensor shifted = as_strided(odd, y.shape(), y.strides(), 1);  // no packets
        copy_values(shifted, in.dy);
        for (const Tensor& dy : {in.dy, shifted}) {
          BatchNormGrads a{true, true, true, {}, {}, {}, {}}, b = a;
          BatchNormCall from_y = in.call;
          from_y.passed = {};
          cuda::batch_norm_backward(a, from_y, dy, y);
          cuda::batch_norm_backward(b, in.call, dy, {});
          check("dx", b.dx, on_host(a.dx), 0);
          check("dresidual", b.dresidual, on_host(a.dresidual), 0);
          check("dweight", b.dweight, on_host(a.dweight), 0);
          check("dbias", b.dbias, on_host(a.dbias), 0);
        }
      }
    }
  }
}
