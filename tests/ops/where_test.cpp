// where and masked_fill against the definition.
#include "lathe/ops/where.h"

#include "compare.h"

using namespace lathe;
using namespace lathe::test;

namespace {
struct Case {
  Shape cond, a, b;
};
const Case kCases[] = {
    {{3, 4}, {3, 4}, {3, 4}}, {{3, 1}, {4}, {3, 4}}, {{2, 3, 1}, {1, 4}, {}},
    {{}, {2, 3}, {3}},        {{0, 3}, {3}, {1, 3}}, {{}, {}, {}},
};
Tensor random_mask(const Shape& shape) { return gt(rand(shape), 0.5); }
}  // namespace

TEST_CASE("where: takes each element from the chosen side, broadcast, in every layout") {
  for (const Case& c : kCases) {
    for (const Layout& layout : layouts()) {
      CAPTURE(layout.name);
      const Tensor cond = layout.apply(random_mask(c.cond));
      const Tensor a = layout.apply(randn(c.a)), b = layout.apply(randn(c.b));
      const Tensor y = where(cond, a, b);
      const auto full = [&](const Tensor& t) { return t.expand(y.shape()).to_vector<double>(); };
      std::vector<double> want = full(a);
      const std::vector<double> chosen = full(cast(cond, kI64)), other = full(b);
      for (size_t i = 0; i < want.size(); ++i) want[i] = chosen[i] != 0 ? want[i] : other[i];
      CHECK(difference(y, want, 0) == "");
    }
  }
}

TEST_CASE("where: dtypes are promoted; a Scalar raises the category only") {
  const Tensor cond = gt(tensor({1, 0}, kI32), 0);
  CHECK(where(cond, tensor({1, 2}, kI32), tensor({0.5f, 1.5f})).dtype() == kF32);
  CHECK(where(cond, cast(ones({2}), kF16), 2.5).dtype() == kF16);
  CHECK(where(cond, tensor({1, 2}, kI32), 2.5).dtype() == kF32);
  CHECK(difference(where(cond, 7, tensor({1, 2}, kI32)), {7, 2}, 0) == "");
  for (const DType dtype : {kBool, kU8, kI16, kI64, kBF16, kF64}) {
    CHECK(difference(
              where(cond, cast(tensor({1, 1}, kI32), dtype), cast(tensor({0, 0}, kI32), dtype)),
              {1, 0}, 0) == "");
  }
}

TEST_CASE("where: the gradient reaches the chosen side only, twice") {
  const Tensor cond = gt(tensor({1, 0, 1, 0}, kI32), 0);
  const Function f = [cond](const Tensors& in) { return where(beside(in, cond), in[0], in[1]); };
  check_gradients({"where", f, {f64({3, 4}), f64({3, 4})}});
  check_gradients({"where broadcast", f, {f64({4}), f64({3, 1})}});
  check_gradients({"where scalar",
                   [cond](const Tensors& in) { return where(beside(in, cond), in[0], 2.0); },
                   {f64({3, 4})}});
  check_gradients({"masked_fill",
                   [cond](const Tensors& in) { return masked_fill(in[0], beside(in, cond), 3); },
                   {f64({2, 4})}});
}

TEST_CASE("masked_fill: by a tensor of one number, which gets the gradient of what it fills") {
  const Tensor mask = gt(tensor({1, 0, 1}, kI32), 0);
  // y = torch.zeros(2, 3).masked_fill(mask, v); y.sum().backward(): v.grad == 4
  std::vector<Device> devices{kCPU};
  if (cuda_is_available()) devices.emplace_back(DeviceType::kCUDA);
  for (const Device device : devices) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor x = zeros({2, 3}, {.dtype = dtype, .device = device, .requires_grad = true});
      const Tensor value = tensor(2.0, kF64).requires_grad_();  // on the CPU, of another dtype
      const Tensor y = masked_fill(x, mask.to(device), value);
      CHECK(y.dtype() == dtype);
      CHECK(difference(y.cpu(), {2, 0, 2, 2, 0, 2}, 0) == "");
      y.backward(ones_like(y));
      CHECK(difference(x.grad().cpu(), {0, 1, 0, 0, 1, 0}, 0) == "");
      CHECK(value.grad().item<double>() == 4);
    }
  }
  CHECK(difference(masked_fill(tensor({1, 2, 3}, kI32), mask, tensor(9, kI32)), {9, 2, 9}, 0) ==
        "");
  check_gradients(
      {"masked_fill by a tensor",
       [mask](const Tensors& in) { return masked_fill(in[0], beside(in, mask), in[1] * in[1]); },
       {f64({2, 3}), f64({})}});
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(
      masked_fill(x, mask, ones({1})),
      doctest::Contains("value must be one number, a 0-d tensor (value: f32[1]@cpu)"), ShapeError);
  CHECK_THROWS_WITH_AS(masked_fill_(tensor({1, 2, 3}, kI32), mask, tensor(1.5, kF64)),
                       doctest::Contains("value does not fit i32"), DTypeError);
}

TEST_CASE("where: NaN on the side that is not chosen stays out of the gradient") {
  const Tensor x = tensor({0.f, 4.f}).requires_grad_();
  where(gt(x, 0.0), 1.0 / x, x).backward(ones({2}));
  CHECK(std::isnan(
      x.grad().to_vector<float>()[0]));  // 1/x is differentiated at 0 all the same: 0 * inf
  const Tensor y = tensor({std::nanf(""), 1.f}).requires_grad_();
  where(gt(tensor({0, 1}, kI32), 0), y, 0.0).backward(ones({2}));
  CHECK(difference(y.grad(), {0, 1}, 0) == "");
}

TEST_CASE("masked_fill: keeps the dtype, broadcasts the mask, also in place") {
  const Tensor x = tensor({{1, 2}, {3, 4}}, kI32), mask = gt(tensor({0, 1}, kI32), 0);
  CHECK(difference(masked_fill(x, mask, 9), {1, 9, 3, 9}, 0) == "");
  CHECK(masked_fill(cast(x, kF16), mask, 0.5).dtype() == kF16);
  const Tensor leaf = randn({2, 2}).requires_grad_();
  const Tensor y = leaf * 1.0;
  masked_fill_(y, mask, 5.0);
  y.backward(ones({2, 2}));
  CHECK(difference(leaf.grad(), {1, 0, 1, 0}, 0) == "");
  CHECK(y.to_vector<float>()[1] == 5.f);
}

TEST_CASE("where, masked_fill: errors name the tensors, and nothing changes") {
  const Tensor x = zeros({2, 3}), mask = gt(x, 1.0);
  CHECK_THROWS_WITH_AS(where(x, x, x),
                       doctest::Contains("where: cond must be bool (cond: f32[2,3]@cpu)"),
                       DTypeError);
  CHECK_THROWS_AS(where(mask, zeros({4}), x), ShapeError);
  CHECK_THROWS_WITH_AS(masked_fill(tensor({1, 2, 3}, kI32), mask, 0.5),
                       doctest::Contains("0.5 does not fit i32"), DTypeError);
  CHECK_THROWS_WITH_AS(masked_fill_(zeros({3}), mask, 1),
                       doctest::Contains("mask does not broadcast to x"), ShapeError);
  CHECK_THROWS_AS(masked_fill_(zeros({1, 3}).expand({2, 3}), mask, 1), ValueError);
}
