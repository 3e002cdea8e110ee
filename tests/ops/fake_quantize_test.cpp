// fake_quantize against a loop of its formula, which counts in integers.
#include "lathe/ops/fake_quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using In = const Tensors&;
using Values = std::vector<double>;

/// The values, and of the gradient the elements that pass.
struct Rounded {
  Values y, passes;
};
void append(Rounded& out, double x, double scale, int64_t zero_point, int64_t least, int64_t most) {
  // f32, as PyTorch counts; scales in these tests are powers of two or decide no tie.
  const float steps = static_cast<float>(x) * (1.0f / static_cast<float>(scale));
  const int64_t q = static_cast<int64_t>(std::nearbyint(steps)) + zero_point;
  out.y.push_back(static_cast<double>(std::clamp(q, least, most) - zero_point) * scale);
  out.passes.push_back(q >= least && q <= most ? 1 : 0);
}

}  // namespace

TEST_CASE("fake_quantize: values and gradients, in every layout and dtype, on every device") {
  manual_seed(51);
  const Tensor wanted = f64({3, 4, 5}) * 4;
  const Values scales = {0.25, 0.5, 0.125, 1.0};
  const std::vector<int64_t> zeros_of = {0, 3, -8, 7};
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor host = wanted.to(dtype);
      const Values values = host.to_vector<double>();
      Rounded each, by_channel;
      for (size_t i = 0; i < values.size(); ++i) {
        append(each, values[i], 0.125, 2, -8, 7);
        const size_t channel = i / 5 % 4;
        append(by_channel, values[i], scales[channel], zeros_of[channel], -8, 7);
      }
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(host, " ", layout.name, " on ", device));
        const Tensor x = layout.apply(host).to(device).detach().requires_grad_();
        const auto agrees = [&](const Tensor& y, const Rounded& want) {
          CHECK(y.dtype() == dtype);
          CHECK(difference(y.detach().cpu(), want.y, 0) == "");
          x.set_grad({});
          y.sum().backward();
          CHECK(difference(x.grad().cpu(), want.passes, 0) == "");
        };
        agrees(fake_quantize_per_tensor_affine(x, 0.125, 2, -8, 7), each);
        const Tensor scale = tensor(0.125).to(device), zero = tensor({2}).to(device);
        agrees(fake_quantize_per_tensor_affine(x, scale, zero, -8, 7), each);
        const Tensor s = layout.apply(tensor(scales).to(device)), z = tensor(zeros_of).to(device);
        agrees(fake_quantize_per_channel_affine(x, s, z.to(kI32), 1, -8, 7), by_channel);
        agrees(fake_quantize_per_channel_affine(x, s, z, -2, -8, 7), by_channel);
      }
    }
  }
}

TEST_CASE("fake_quantize: ties, infinities, NaN, no dimension and no element") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({0.5, 1.5, -0.5, 2.5, kInf, -kInf, std::nan("")}, kF64).requires_grad_();
  const Tensor y = fake_quantize_per_tensor_affine(x, 1.0, 0, 0, 255);
  CHECK(difference(y.detach(), {0, 2, 0, 2, 255, 0, std::nan("")}, 0) == "");
  y.sum().backward();
  CHECK(difference(x.grad(), {1, 1, 1, 1, 0, 0, 0}, 0) == "");
  CHECK(fake_quantize_per_tensor_affine(tensor(0.3, kF64), 0.25, 1, 0, 3).item<double>() == 0.25);
  CHECK(fake_quantize_per_channel_affine(zeros({0, 2}), ones({2}), zeros({2}, kI64), 1, 0, 3)
            .shape() == Shape{0, 2});
}

TEST_CASE("fake_quantize: 0-d scales and zero points may stay on the CPU") {
  for (const Device device : devices()) {
    CAPTURE(device);
    const Tensor x = tensor({{0.3}, {0.6}}, kF64).to(device), scale = tensor(0.25, kF64);
    const Tensor zero = tensor(int64_t{1});
    const Tensor by_channel = fake_quantize_per_channel_affine(x, scale, zero, 1, 0, 7);
    CHECK(difference(by_channel.cpu(), {0.25, 0.5}, 0) == "");
    const Tensor whole = fake_quantize_per_tensor_affine(x, scale, zero, 0, 7);
    CHECK(difference(whole.cpu(), {0.25, 0.5}, 0) == "");
  }
}

TEST_CASE("fake_quantize: the gradient is that of the identity inside the range, twice") {
  manual_seed(52);
  // Differences see steps, so the quantised values are taken off and the identity remains.
  const Tensor x = f64({3, 4}) * 3, scale = tensor({0.5, 0.25, 0.125, 1.0}, kF64);
  const Tensor zero = tensor({0, 1, -2, 3});
  const auto identity = [](const Tensor& y, const Tensor& in) {
    return y - y.detach() + in.detach();
  };
  const GradientCase cases[] = {
      {"fake_quantize_per_tensor_affine",
       [&](In in) {
         const Tensor y = fake_quantize_per_tensor_affine(in[0], 0.5, 1, -100, 100);
         return identity(y, in[0]);
       },
       {x}},
      {"fake_quantize_per_channel_affine",
       [&](In in) {
         const Tensor y = fake_quantize_per_channel_affine(in[0], beside(in, scale),
                                                           beside(in, zero), 1, -100, 100);
         return identity(y, in[0]);
       },
       {x}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("fake_quantize: errors name the op and the values") {
  const Tensor x = zeros({2, 3}), scale = ones({3}), zero = zeros({3}, kI64);
  CHECK_THROWS_WITH_AS(fake_quantize_per_tensor_affine(x, 0.0, 0, 0, 255),
                       Contains("fake_quantize_per_tensor_affine: scale must be above 0, and"),
                       ValueError);
  for (const double bad : {1e-45, 1e39, 1e-50, -1.0, std::nan("")}) {  // 1 / 1e-45 is inf in f32
    CHECK_THROWS_WITH_AS(fake_quantize_per_tensor_affine(x, bad, 0, 0, 255),
                         Contains("scale and 1 / scale finite in f32; got "), ValueError);
  }
  fake_quantize_per_tensor_affine(x.to(kF64), 1e-45, 0, 0, 255);
  CHECK_THROWS_AS(fake_quantize_per_tensor_affine(x.to(kF64), 5e-324, 0, 0, 255), ValueError);
  CHECK_THROWS_WITH_AS(fake_quantize_per_tensor_affine(x, 1.0, 0, 5, 4),
                       Contains("quant_min 5 is above quant_max 4"), ValueError);
  CHECK_THROWS_WITH_AS(fake_quantize_per_tensor_affine(x, 1.0, -1, 0, 255),
                       Contains("zero_point -1 is outside [0, 255]"), ValueError);
  CHECK_THROWS_AS(fake_quantize_per_tensor_affine(x.to(kI64), 1.0, 0, 0, 255), DTypeError);
  CHECK_THROWS_AS(fake_quantize_per_tensor_affine(x, scale, zero, 0, 255), ShapeError);
  CHECK_THROWS_WITH_AS(
      fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 255),
      Contains("fake_quantize_per_channel_affine: scale and zero_point must have 2 elements"),
      ShapeError);
  CHECK_THROWS_AS(fake_quantize_per_channel_affine(x, scale, zero, 2, 0, 255), IndexError);
  CHECK_THROWS_AS(fake_quantize_per_channel_affine(x, scale, scale, 1, 0, 255), DTypeError);
  CHECK_THROWS_AS(fake_quantize_per_channel_affine(x, zero, zero, 1, 0, 255), DTypeError);
  CHECK_THROWS_AS(fake_quantize_per_channel_affine(x, scale, zero - 1, 1, 0, 255), ValueError);
}
