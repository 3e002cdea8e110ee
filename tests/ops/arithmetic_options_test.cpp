// Options of the elementwise ops: rounded quotients, alpha, intervals made of tensors. Against
// PyTorch 1.13.1's numbers, each with the line that made them.
#include <limits>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DivOptions kTrunc{RoundingMode::kTrunc}, kFloor{RoundingMode::kFloor};

const Values kTop = {7, -7, 7, -7, kNaN, kInf, -kInf, 1, 0, -0.0, 1, -1, 5.25, -5.25};
const Values kBottom = {2, 2, -2, -2, 1, 2, 2, kInf, 2, 2, 0, 0, kInf, kInf};
// torch.div(a, b, rounding_mode='trunc'), 'floor'
const Values kTruncated = {3, -3, -3, 3, kNaN, kInf, -kInf, 0, 0, -0.0, kInf, -kInf, 0, -0.0};
const Values kFloored = {3, -4, -4, 3, kNaN, kNaN, kNaN, 0, 0, -0.0, kInf, -kInf, 0, -1};

}  // namespace

TEST_CASE("div: rounded to zero and down, as PyTorch rounds, in every dtype and layout") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(layout.name, " ", dtype, " on ", device));
        const auto of = [&](const Values& v) {
          return layout.apply(tensor(v).to(dtype).view({2, 7})).to(device);
        };
        const Tensor a = of(kTop), b = of(kBottom);
        CHECK(difference(div(a, b, kTrunc).cpu(), kTruncated, 0) == "");
        CHECK(difference(div(a, b, kFloor).cpu(), kFloored, 0) == "");
        CHECK(div(a, b, kFloor).dtype() == dtype);
        CHECK(difference(div(a, b, {}).cpu(), div(a, b).cpu(), 0) == "");
      }
    }
    // 0.3 / 0.1 is 2.9999999999999996 and Python's 0.3 // 0.1 is 2; 1 / 0.1 is 10, 1 // 0.1 is 9.
    CHECK(difference(div(tensor({0.3, 1.0}, kF64).to(device), tensor(0.1, kF64), kFloor).cpu(),
                     {2, 9}, 0) == "");
    for (const DType dtype : {kI8, kI16, kI32, kI64}) {
      // torch.div(torch.tensor([7, -7, 7, -7, 6, 0]), torch.tensor([2, 2, -2, -2, -3, 3]), …)
      const Tensor a = tensor({7, -7, 7, -7, 6, 0}, kI32).to(dtype).to(device);
      const Tensor b = tensor({2, 2, -2, -2, -3, 3}, kI32).to(dtype).to(device);
      CHECK(difference(div(a, b, kTrunc).cpu(), {3, -3, -3, 3, -2, 0}, 0) == "");
      CHECK(difference(div(a, b, kFloor).cpu(), {3, -4, -4, 3, -2, 0}, 0) == "");
      CHECK(div(a, b, kFloor).dtype() == dtype);
    }
    const Tensor bytes = tensor<uint8_t>({200, 7}).to(device), by = tensor<uint8_t>({7, 200});
    CHECK(difference(div(bytes, by.to(device), kFloor).cpu(), {28, 0}, 0) == "");
  }
}

TEST_CASE("div rounded: numbers on either side, promotion, in place") {
  const Tensor i = tensor({7, -7}, kI32);
  CHECK(div(i, 2, kFloor).dtype() == kI32);
  CHECK(difference(div(i, 2, kFloor), {3, -4}, 0) == "");
  CHECK(div(i, 2.0, kFloor).dtype() == kF32);
  CHECK(difference(div(i, 2.0, kTrunc), {3, -3}, 0) == "");
  CHECK(difference(div(15, i, kFloor), {2, -3}, 0) == "");
  // The number is not rounded to the half type first (PyTorch does that on the CPU, and has 5).
  CHECK(difference(div(tensor({0.5f}).to(kF16), 0.1, kFloor), {4}, 0) == "");
  CHECK(difference(div_(tensor({7, -7}, kI32), tensor(2, kI32), kFloor), {3, -4}, 0) == "");
  CHECK(difference(div_(tensor({7.f, -7.f}), tensor(2, kI32), kTrunc), {3, -3}, 0) == "");
  CHECK(difference(div_(tensor({7.f, -7.f}), tensor(2, kI32), {}), {3.5, -3.5}, 0) == "");
  CHECK_THROWS_AS(div_(tensor({7, -7}, kI32), tensor(2.0, kF64), kFloor), DTypeError);
  CHECK_THROWS_AS(div_(tensor({7, -7}, kI32), tensor(2, kI32), {}), DTypeError);
}

TEST_CASE("div rounded: an integer divided by 0 is an error; the lowest by -1 wraps") {
  CHECK_THROWS_WITH_AS(
      div(tensor({{1, 2, 3}}, kI32), tensor({{4, 5}, {6, 0}}, kI32).view({4, 1}), kFloor),
      Contains("div: integer division by 0 at element 3 of b (b: i32[4,1]@cpu)"), ValueError);
  CHECK_THROWS_AS(div(tensor({1}, kI32), 0, kTrunc), ValueError);
  CHECK_THROWS_AS(div(tensor({1}, kI32), false, kTrunc), ValueError);
  CHECK_THROWS_WITH_AS(div(tensor({true}), tensor({true}), kTrunc),
                       Contains("a rounded quotient is not defined for bool"), DTypeError);
  CHECK_THROWS_AS(div(zeros({2}), zeros({3}), kTrunc), ShapeError);
  CHECK(div(tensor<int64_t>({INT64_MIN}), -1, kTrunc).item<int64_t>() == INT64_MIN);
  CHECK(div(tensor<int64_t>({INT64_MIN}), -1, kFloor).item<int64_t>() == INT64_MIN);
  CHECK(div(tensor<int8_t>({-128}), tensor<int8_t>({-1}), kFloor).item<int>() == -128);
  CHECK(div(zeros({0}, {.dtype = kI32}), zeros({1, 0}, {.dtype = kI32}), kFloor).numel() == 0);
  if (!cuda_is_available()) return;
  const Device gpu(DeviceType::kCUDA);
  CHECK_THROWS_AS(div(tensor({1}, kI32).to(gpu), 0, kTrunc), ValueError);  // a number is at hand
  const Tensor y = div(tensor({6, 6}, kI32).to(gpu), tensor({0, 3}, kI32).to(gpu), kTrunc);
  CHECK_THROWS_WITH_AS(y.cpu(), Contains("div: integer division by 0 at position 0 (noted by"),
                       IndexError);
  CHECK(difference(y.cpu(), {0, 2}, 0) == "");
}

TEST_CASE("clamp, zero_: their errors name them, not the ops that they are made of") {
  CHECK_THROWS_WITH_AS(zero_(ones({2}, {.requires_grad = true})), Contains("zero_: "), StateError);
  const Tensor yes = tensor({true});
  CHECK_THROWS_WITH_AS(clamp(yes, yes, {}), Contains("clamp: not defined for bool"), DTypeError);
  CHECK_THROWS_WITH_AS(clamp(zeros({2}), zeros({3}), {}), Contains("clamp: "), ShapeError);
}

TEST_CASE("add, sub: alpha scales the second operand, rounded once") {
  const Tensor a = tensor({1, 2}, kI32), b = tensor({3, 4}, kI32);
  CHECK(difference(add(a, b, 2), {7, 10}, 0) == "");
  CHECK(difference(sub(a, b, 2), {-5, -6}, 0) == "");
  CHECK(add(a, b, 2).dtype() == kI32);
  CHECK(difference(add(a, b.to(kF32), 0.5), {2.5, 4}, 0) == "");
  CHECK(difference(add(a, b, true), {4, 6}, 0) == "");
  for (const Device device : devices()) {
    // torch.sub(torch.tensor([1., 2.]).half(), torch.tensor([3., 4.]).half(), alpha=.1)
    const Tensor h = tensor({1.f, 2.f}).to(kF16).to(device),
                 k = tensor({3.f, 4.f}).to(kF16).to(device);
    CHECK(difference(sub(h, k, 0.1).cpu(), {0.7001953125, 1.599609375}, 0) == "");
    CHECK(sub(h, k, 0.1).dtype() == kF16);
    // 2049 is no f16: 2048 + 1 is 2048, but 3 * 683 + 2 = 2051 is rounded once, to 2052.
    const Tensor one = tensor({2.f}).to(kF16).to(device),
                 many = tensor({683.f}).to(kF16).to(device);
    CHECK(add(one, many, 3).item<double>() == 2052);
    CHECK(one.clone().add_(many, 3).item<double>() == 2052);
    CHECK(sub_(one.clone(), many, 3).item<double>() == -2047);
  }
  CHECK(difference(sub_(tensor({1, 2}, kI32), b, 2), {-5, -6}, 0) == "");
  // "For integral input tensors, argument alpha must not be a floating point number."
  CHECK_THROWS_WITH_AS(add(a, b, 0.5), Contains("add: alpha 0.5 does not fit i32"), DTypeError);
  CHECK_THROWS_AS(sub_(tensor({1, 2}, kI32), b, 0.5), DTypeError);
  CHECK_THROWS_AS(sub(tensor({true}), tensor({true}), 1), DTypeError);
  CHECK_THROWS_AS(add(zeros({2}), zeros({3}), 2), ShapeError);
}

namespace {

struct ClampCase {
  std::string torch;
  Values x, low, high;  // an empty end is open
  Values y, dx, dlow, dhigh;
};
// y = f(x, …); y.backward(torch.full_like(y, 2.))
const ClampCase kClampCases[] = {
    {"torch.clamp(x, low, high)",
     {-1, 2, .5, .5, .5},
     {0, 0, 1, kNaN, 0},
     {1, 1, 0, 1, kNaN},
     {0, 1, 0, kNaN, kNaN},
     {0, 0, 0, 0, 0},
     {2, 0, 0, 0, 0},
     {0, 2, 2, 0, 0}},
    {"torch.clamp(x, low, high) at the ends",
     {0, 1, kNaN},
     {0, 0, 0},
     {1, 1, 1},
     {0, 1, kNaN},
     {2, 2, 0},
     {0, 0, 0},
     {0, 0, 0}},
    {"torch.clamp(x, min=low)",
     {0, 1, kNaN, -1, 2},
     {0, 0, 0, 0, kNaN},
     {},
     {0, 1, kNaN, 0, kNaN},
     {2, 2, 0, 0, 0},
     {0, 0, 0, 2, 0},
     {}},
    {"torch.clamp(x, max=high)",
     {0, 1, kNaN, -1, 2},
     {},
     {0, 0, 0, 0, kNaN},
     {0, 0, kNaN, -1, kNaN},
     {2, 0, 0, 2, 0},
     {},
     {0, 2, 0, 0, 0}},
};

}  // namespace

TEST_CASE("clamp: an interval for each element") {
  for (const Device device : devices()) {
    for (const ClampCase& c : kClampCases) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        CAPTURE(concat(c.torch, " ", dtype, " on ", device));
        const auto leaf = [&](const Values& v) {
          return v.empty() ? Tensor() : tensor(v).to(dtype).to(device).detach().requires_grad_();
        };
        const Tensor x = leaf(c.x), low = leaf(c.low), high = leaf(c.high), y = clamp(x, low, high);
        CHECK(difference(y.cpu(), c.y, 0) == "");
        y.backward(full_like(y, 2));
        CHECK(difference(x.grad().cpu(), c.dx, 0) == "");
        if (low.defined()) CHECK(difference(low.grad().cpu(), c.dlow, 0) == "");
        if (high.defined()) CHECK(difference(high.grad().cpu(), c.dhigh, 0) == "");
      }
    }
  }
}

TEST_CASE("clamp: a bound that is one number on the CPU gets its gradient there") {
  for (const Device device : devices()) {
    const Tensor low = tensor(0.5, kF64).requires_grad_(),
                 x = tensor({0.0, 1.0, 0.25}, kF64).to(device);
    clamp(x, low, {}).sum().backward();
    CHECK(low.grad().device() == kCPU);
    CHECK(low.grad().item<double>() == 2);
  }
}

TEST_CASE("clamp by tensors: broadcasting, promotion, in place, errors") {
  const Tensor x = tensor({{-2, 0, 2}, {5, 6, 7}}, kI32), low = tensor({-1, 1, 1}, kI32),
               high = tensor({{3}, {6}}, kI32);
  CHECK(difference(clamp(x, low, high), {-1, 1, 2, 5, 6, 6}, 0) == "");
  CHECK(clamp(x, low, high).dtype() == kI32);
  CHECK(clamp(x, tensor({0.5, 0.5, 0.5}, kF64), high).dtype() == kF64);
  CHECK(clamp(x, tensor(1.f), {}).dtype() == kF32);
  CHECK(clamp(tensor(7, kI32), low, {}).shape() == Shape{3});
  const Tensor y = x.clone();
  clamp_(y, low, high);
  CHECK(difference(y, {-1, 1, 2, 5, 6, 6}, 0) == "");
  CHECK(y.version() == x.clone().version() + 1);
  CHECK_THROWS_WITH_AS(clamp_(x.clone(), tensor(0.5f), {}),
                       Contains("clamp_: the result does not fit i32"), DTypeError);
  CHECK_THROWS_AS(clamp_(tensor({1, 2, 3}, kI32), low, high), ShapeError);
  CHECK_THROWS_WITH_AS(clamp(x, Tensor(), Tensor()), Contains("neither end is given"), ValueError);
  CHECK_THROWS_AS(clamp(x, zeros({2, 2}), {}), ShapeError);
}
