// fmod, remainder, atan2 and lerp. The numbers are PyTorch's (1.13, f64).
#include <bit>
#include <limits>

#include "compare.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// What differs first between x and want, bit by bit; "" if nothing does. One NaN is as another.
std::string other_bits(const Tensor& x, const std::vector<float>& want) {
  const std::vector<float> got = x.to_vector<float>();
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(want[i]))
      return concat("element ", i, ": got ", got[i], ", want ", want[i]);
  }
  return got.size() == want.size() ? "" : concat("got ", got.size(), " values");
}
}  // namespace

TEST_CASE("fmod, remainder: integers of 64 bits, near multiples and near the ends of f64") {
  constexpr int64_t kEnd = int64_t{1} << 51;
  for (const int64_t b : {int64_t{1}, int64_t{-1}, int64_t{3}, int64_t{-7}, int64_t{1000003},
                          kEnd / 3, kEnd - 1, -kEnd, kEnd + 5, INT64_MIN, INT64_MAX}) {
    for (const int64_t most : {int64_t{100}, kEnd - 1, int64_t{1} << 61, INT64_MAX}) {
      std::vector<int64_t> a;
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t x = most / 40 * i;
        const int64_t near = x - x % b;  // and its neighbours
        for (const int64_t v : {x, -x, near, near - 1, 1 - near}) a.push_back(v);
      }
      a.push_back(most), a.push_back(-most);
      std::vector<int64_t> rest, modulus;
      for (const int64_t v : a) {
        const int64_t r = b == -1 ? 0 : v % b;
        rest.push_back(r);
        modulus.push_back(r != 0 && (r < 0) != (b < 0) ? r + b : r);
      }
      CAPTURE(b);
      const Tensor x = tensor(a), same = full(x.shape(), b);
      CHECK(fmod(x, b).to_vector<int64_t>() == rest);
      CHECK(fmod(x, same).to_vector<int64_t>() == rest);
      CHECK(remainder(x, b).to_vector<int64_t>() == modulus);
      CHECK(remainder(x, same).to_vector<int64_t>() == modulus);
    }
  }
}

TEST_CASE("fmod, remainder: values in every dtype and layout") {
  const Values top = {5.5, -5.5, 5.5, -5.5, -1, kInf, 5, kNaN};
  const Values bottom = {2, 2, -2, -2, kInf, 2, 0, 1};
  const Values with_sign_of_a = {1.5, -1.5, 1.5, -1.5, -1, kNaN, kNaN, kNaN};
  const Values with_sign_of_b = {1.5, 0.5, -0.5, -1.5, kInf, kNaN, kNaN, kNaN};
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(layout.name, " ", dtype, " on ", device));
        const auto of = [&](const Values& v) {
          return layout.apply(tensor(v).to(dtype).view({2, 4})).to(device);
        };
        CHECK(difference(fmod(of(top), of(bottom)).cpu(), with_sign_of_a, 0) == "");
        CHECK(difference(remainder(of(top), of(bottom)).cpu(), with_sign_of_b, 0) == "");
      }
    }
    for (const DType dtype : {kI8, kI16, kI32, kI64}) {
      const Tensor a = tensor({7, -7, 7, -7, 6}).to(dtype).to(device);
      const Tensor b = tensor({3, 3, -3, -3, -1}).to(dtype).to(device);
      CHECK(difference(fmod(a, b).cpu(), {1, -1, 1, -1, 0}, 0) == "");
      CHECK(difference(remainder(a, b).cpu(), {1, 2, -2, -1, 0}, 0) == "");
      CHECK(remainder(a, 3).dtype() == dtype);
    }
    const Tensor low = tensor<int64_t>({INT64_MIN}).to(device);
    CHECK(remainder(low, -1).item<int64_t>() == 0);
    CHECK(fmod(low, -1).item<int64_t>() == 0);
    CHECK(remainder(tensor<uint8_t>({250}).to(device), 7).item<int>() == 5);
    CHECK(remainder(7.5, tensor({-2.0}, kF64).to(device)).item<double>() == -0.5);
    CHECK(fmod(tensor({-7.5}, kF64).to(device), 2).item<double>() == -1.5);
  }
  CHECK(remainder(tensor(-1e-20, kF64), 3.0).item<double>() == 3);  // rounded, as in PyTorch
  CHECK(remainder(zeros({0, 3}), zeros({3})).shape() == Shape{0, 3});
}

TEST_CASE("fmod, remainder: rows of f32 have the bits of std::fmod") {
  manual_seed(17);
  const auto check = [](const Tensor& a, const Tensor& b) {
    const std::vector<float> top = a.to_vector<float>(), bottom = b.to_vector<float>();
    std::vector<float> rests, mods;
    for (size_t i = 0; i < top.size(); ++i) {
      const float rest = std::fmod(top[i], bottom[i]);
      rests.push_back(rest);
      mods.push_back(rest != 0 && (rest < 0) != (bottom[i] < 0) ? rest + bottom[i] : rest);
    }
    CHECK(other_bits(fmod(a, b), rests) == "");
    CHECK(other_bits(remainder(a, b), mods) == "");
  };
  for (const double spread : {6.0, 60.0}) {  // quotients below 2^27, which have a form, and others
    CAPTURE(spread);
    const Tensor powers = (rand({3000}) - 0.5) * spread;
    const Tensor a = randn({3000}) * exp2(powers), b = randn({3000}) * exp2(powers.flip({0}));
    check(a, b);
    for (const float same :
         {0.37f, -2.5f, 1e-6f, 1e31f, 0.0f, -std::numeric_limits<float>::infinity()}) {
      CAPTURE(same);
      check(a, tensor(same).expand({3000}));
    }
  }
}

TEST_CASE("fmod, remainder: gradients") {
  const Tensor a = tensor({5.5, -5.5, 5.5, -5.5}, kF64).requires_grad_();
  const Tensor b = tensor({2.0, 2.0, -2.0, -2.0}, kF64).requires_grad_();
  fmod(a, b).sum().backward();
  CHECK(a.grad().to_vector<double>() == Values{1, 1, 1, 1});
  CHECK(b.grad().to_vector<double>() == Values{-2, 2, 2, -2});
  b.set_grad({});
  remainder(a, b).sum().backward();
  CHECK(b.grad().to_vector<double>() == Values{-2, 3, 3, -2});
}

TEST_CASE("fmod, remainder: errors name the op and the element") {
  CHECK_THROWS_WITH_AS(remainder(tensor({1, 2}), tensor({3, 0})),
                       Contains("remainder: integer division by 0 at element 1 of b"), ValueError);
  CHECK_THROWS_WITH_AS(fmod(tensor({1, 2}), 0), Contains("fmod: integer division by 0"),
                       ValueError);
  CHECK_THROWS_AS(fmod(tensor({true}), tensor({true})), DTypeError);
  CHECK_THROWS_AS(fmod(zeros({2}), zeros({3})), ShapeError);
}

TEST_CASE("atan2: values in every quadrant and dtype") {
  const Values y = {0, -0.0, 0, 1, -1, 1, -1, kNaN}, x = {0, 0, -1, 0, 1, -1, -1, 1};
  Values want;
  for (size_t i = 0; i < y.size(); ++i) want.push_back(std::atan2(y[i], x[i]));
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor a = tensor(y).to(dtype).to(device), b = tensor(x).to(dtype).to(device);
      CHECK(difference(atan2(a, b).cpu(), want, tolerance_of(dtype)) == "");
    }
  }
  CHECK(std::signbit(atan2(tensor(-0.0, kF64), tensor(1.0, kF64)).item<double>()));
  CHECK(atan2(tensor({1}), tensor({2})).dtype() == kF32);
  CHECK(atan2(zeros({0, 2}), zeros({1, 2})).shape() == Shape{0, 2});
}

TEST_CASE("lerp: both ends are exact, in every dtype and layout") {
  const Tensor from = tensor({{0.1, -3.0}, {1e4, 2.0}}, kF64),
               to = tensor({{0.7, 5.0}, {-1.0, 2.0}}, kF64);
  const Tensor weight = tensor({{0.0, 1.0}, {1.0, 0.3}}, kF64);
  for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " ", dtype));
      const Tensor a = layout.apply(from.to(dtype)), b = layout.apply(to.to(dtype));
      CHECK(difference(lerp(a, b, 0.0), a, 0) == "");
      CHECK(difference(lerp(a, b, 1.0), b, 0) == "");
      const Tensor y = lerp(a, b, layout.apply(weight.to(dtype)));
      CHECK(y.dtype() == dtype);
      CHECK(difference(y.select(0, 0), {a.to_vector<double>()[0], b.to_vector<double>()[1]}, 0) ==
            "");
      CHECK(y.to_vector<double>()[2] == b.to_vector<double>()[2]);
    }
  }
  CHECK(difference(lerp(tensor({0.0, 10.0}, kF64), tensor({4.0, 30.0}, kF64), 0.25), {1, 15},
                   1e-15) == "");
  CHECK(difference(
            lerp(tensor({0.0, 10.0}, kF64), tensor({4.0, 30.0}, kF64), tensor({0.75, 2.0}, kF64)),
            {3, 50}, 1e-15) == "");
  CHECK_THROWS_WITH_AS(lerp(tensor({1}), tensor({2}), 0.5), Contains("lerp: expected floating"),
                       DTypeError);
  CHECK_THROWS_AS(lerp(zeros({2}), zeros({3}), 0.5), ShapeError);
}
