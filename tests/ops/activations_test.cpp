// Activations made of other ops. Values and gradients at special points are PyTorch's (1.13, f64),
// but for hardswish's gradient at -3, which PyTorch gives as -0.5 there and later as 0.
#include "lathe/ops/activations.h"

#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor hardtanh1(const Tensor& x) { return hardtanh(x); }

struct Case {
  std::string op;
  Tensor (*f)(const Tensor&);
  double (*reference)(double);
  Values y, dx;  // at kPoints
};
const Values kPoints = {kNaN, kInf, -kInf, 0, -1, 1, 3, -3, 6, 2};
double sixth(double x) { return std::fmin(std::fmax(x + 3, 0), 6) / 6; }

// clang-format off
const Case kCases[] = {
    {"hardtanh", hardtanh1, [](double x) { return std::fmin(std::fmax(x, -1), 1); },
     {kNaN, 1, -1, 0, -1, 1, 1, -1, 1, 1}, {1, 0, 0, 1, 0, 0, 0, 0, 0, 0}},
    {"relu6", relu6, [](double x) { return std::fmin(std::fmax(x, 0), 6); },
     {kNaN, 6, 0, 0, 0, 1, 3, 0, 6, 2}, {0, 0, 0, 0, 0, 1, 1, 0, 0, 1}},
    {"hardsigmoid", hardsigmoid, sixth,
     {kNaN, 1, 0, 0.5, 1.0 / 3, 2.0 / 3, 1, 0, 1, 5.0 / 6}, {0, 0, 0, 1.0 / 6, 1.0 / 6, 1.0 / 6, 0, 0, 0, 1.0 / 6}},
    {"hardswish", hardswish, [](double x) { return x * sixth(x); },
     {kNaN, kInf, kNaN, 0, -1.0 / 3, 2.0 / 3, 3, 0, 6, 5.0 / 3}, {1, 1, 0, 0.5, 1.0 / 6, 5.0 / 6, 1, 0, 1, 7.0 / 6}},
    {"mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); },
     {kNaN, kInf, kNaN, 0, -0.30340146137410895, 0.8650983882673103, 2.9865350049679575, -0.1456474612756246, 5.999926634065252, 1.9439589595339946},
     {kNaN, kNaN, kNaN, 0.6, 0.059216755877395014, 1.0490362200997922, 1.0211069109294435, -0.09339311453232084, 1.00013414050621, 1.0693179342794896}},
    {"selu", selu, [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); },
     {kNaN, kInf, -1.7580993408473766, 0, -1.1113307378125625, 1.0507009873554805, 3.1521029620664414, -1.6705687287671118, 6.304205924132883, 2.101401974710961},
     {1.0507009873554805, 1.0507009873554805, 0, 1.7580993408473766, 0.646768603034814, 1.0507009873554805, 1.0507009873554805, 0.08753061208026487, 1.0507009873554805, 1.0507009873554805}},
    {"softsign", softsign, [](double x) { return x / (1 + std::fabs(x)); },
     {kNaN, kNaN, kNaN, 0, -0.5, 0.5, 0.75, -0.75, 6.0 / 7, 2.0 / 3}, {kNaN, kNaN, kNaN, 1, 0.25, 0.25, 0.0625, 0.0625, 1.0 / 49, 1.0 / 9}},
    {"logsigmoid", logsigmoid, [](double x) { return -std::log1p(std::exp(-x)); },
     {kNaN, 0, -kInf, -0.6931471805599453, -1.3132616875182228, -0.31326168751822286, -0.04858735157374206, -3.048587351573742, -0.0024756851377304495, -0.1269280110429725},
     {kNaN, 0, 1, 0.5, 0.7310585786300049, 0.2689414213699951, 0.04742587317756679, 0.9525741268224333, 0.0024726231566347748, 0.11920292202211755}},
};
// clang-format on

}  // namespace

TEST_CASE("activations: equal the formula for every floating dtype and layout") {
  manual_seed(11);
  for (const Case& c : kCases) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor x = (randn({5, 7}, {.dtype = kF64}) * 3.0).to(dtype);
      Values want = x.to_vector<double>();
      for (double& v : want) v = c.reference(v);
      for (const Layout& layout : layouts()) {
        const std::string text = difference(c.f(layout.apply(x)), want, tolerance_of(dtype));
        CHECK_MESSAGE(text.empty(), c.op, " ", layout.name, ": ", text);
      }
    }
    CHECK(c.f(zeros({0, 3})).shape() == Shape{0, 3});
    CHECK(c.f(tensor(1.0, kF64)).ndim() == 0);
    CHECK(c.f(tensor({1, 2})).dtype() == kF32);
  }
}

TEST_CASE("activations: values and gradients at NaN, infinity and the corners are PyTorch's") {
  for (const Case& c : kCases) {
    CAPTURE(c.op);
    const Tensor x = tensor(kPoints).requires_grad_(), y = c.f(x);
    CHECK(difference(y, c.y, 1e-14) == "");
    y.sum().backward();
    Values want = c.dx;
    // Infinity minus or by infinity on the way: NaN there, in both.
    CHECK(difference(x.grad(), want, 1e-14) == "");
  }
  CHECK(logsigmoid(tensor({-1000.0, 1000.0}, kF64)).to_vector<double>() == Values{-1000, 0});
}

TEST_CASE("glu, prelu: values") {
  const Tensor x = tensor({{1.0, 2.0, -1.0, 3.0}}, kF64);
  CHECK(difference(glu(x), {0.2689414213699951, 1.9051482536448667}, 1e-14) == "");
  CHECK(glu(zeros({4, 3}), 0).shape() == Shape{2, 3});
  CHECK(glu(zeros({0, 4})).shape() == Shape{0, 2});
  const Tensor image = tensor({{{-1.0, 2.0}, {-3.0, 0.0}}, {{kNaN, -1.0}, {5.0, -kInf}}}, kF64);
  CHECK(difference(prelu(image, tensor({0.25}, kF64)), {-0.25, 2, -0.75, 0, kNaN, -0.25, 5, -kInf},
                   0) == "");
  CHECK(difference(prelu(image, tensor({0.5, 2.0}, kF64)), {-0.5, 2, -6, 0, kNaN, -0.5, 5, -kInf},
                   0) == "");
  CHECK(difference(prelu(tensor({-1.0, -1.0}, kF64), tensor({2.0, 3.0}, kF64)), {-2, -3}, 0) == "");
  CHECK(prelu(tensor(-2.0, kF64), tensor({0.5}, kF64)).item<double>() == -1);
  const Tensor at_zero = zeros({1}, {.dtype = kF64, .requires_grad = true});
  prelu(at_zero, tensor({0.25}, kF64)).backward();
  CHECK(at_zero.grad().item<double>() == 0.25);
}

TEST_CASE("celu, shrinking: values of PyTorch 2.15") {
  const Tensor s = tensor({-3.0, -1.0, -0.5, -0.2, 0.0, 0.3, 0.5, 2.0, kNaN, kInf, -kInf}, kF64);
  const struct {
    const char* name;
    Tensor got;
    Values want;
  } cases[] = {
      {"F.celu(s, 2.)",
       celu(s, 2),
       {-1.5537396797031404, -0.7869386805747332, -0.44239843385719024, -0.19032516392808085, 0,
        0.3, 0.5, 2, kNaN, kInf, -2}},
      {"F.celu(s)",
       celu(s),
       {-0.950212931632136, -0.6321205588285577, -0.3934693402873666, -0.18126924692201815, 0, 0.3,
        0.5, 2, kNaN, kInf, -1}},
      {"F.hardshrink(s)", hardshrink(s), {-3, -1, 0, 0, 0, 0, 0, 2, kNaN, kInf, -kInf}},
      {"F.softshrink(s)", softshrink(s), {-2.5, -0.5, 0, 0, 0, 0, 0, 1.5, kNaN, kInf, -kInf}},
      {"F.tanhshrink(s)",
       tanhshrink(s),
       {-2.0049452463132695, -0.23840584404423515, -0.03788284273999026, -0.002624679775096006, 0,
        0.008687387548409087, 0.03788284273999026, 1.035972419924183, kNaN, kInf, -kInf}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    CHECK(difference(c.got, c.want, 1e-15) == "");
  }
  const Tensor a = tensor({{1.0, -2.0, 3.0}, {0.5, 4.0, -5.0}}, kF64);
  CHECK(difference(softmin(a, 1),
                   {0.047123416524664154, 0.9464991225528937, 0.006377460922442298,
                    0.004069637526884397, 0.00012289240478918418, 0.9958074700683264},
                   1e-15) == "");
  CHECK(celu(tensor({1, -1})).dtype() == kF32);
  CHECK_THROWS_WITH_AS(celu(a, 0), Contains("celu: alpha must not be 0"), ValueError);
  CHECK_THROWS_WITH_AS(softshrink(a, -1),
                       Contains("softshrink: lambda must not be negative, got -1"), ValueError);
}

TEST_CASE("activations: gradients agree with finite differences, twice") {
  manual_seed(12);
  // Between the corners at -3, -1, 0, 1, 3 and 6.
  const Tensor x = f64_in({2, 4}, 0.2, 0.8) * tensor({1.0, -1.0, 1.0, -1.0}, kF64);
  const Tensor beyond = x + tensor({6.1, -3.9, 0.0, 1.2}, kF64);
  // clang-format off
  const GradientCase cases[] = {
      {"hardtanh", [](In in) { return hardtanh(in[0]); }, {beyond}},
      {"relu6", [](In in) { return relu6(in[0]); }, {beyond}},
      {"hardsigmoid", [](In in) { return hardsigmoid(in[0]); }, {beyond}},
      {"hardswish", [](In in) { return hardswish(in[0]); }, {beyond}},
      {"mish", [](In in) { return mish(in[0]); }, {x}},
      {"selu", [](In in) { return selu(in[0]); }, {x}},
      {"softsign", [](In in) { return softsign(in[0]); }, {x}},
      {"logsigmoid", [](In in) { return logsigmoid(in[0]); }, {x}},
      {"glu", [](In in) { return glu(in[0], 1); }, {f64({2, 4})}},
      {"celu", [](In in) { return celu(in[0], 0.7); }, {x}},
      {"hardshrink", [](In in) { return hardshrink(in[0], 0.1); }, {x}},
      {"softshrink", [](In in) { return softshrink(in[0], 0.1); }, {x}},
      {"tanhshrink", [](In in) { return tanhshrink(in[0]); }, {x}},
      {"softmin", [](In in) { return softmin(in[0], 1); }, {x}},
      {"prelu", [](In in) { return prelu(in[0], in[1]); }, {x, f64({4})}},
      {"prelu of one", [](In in) { return prelu(in[0], in[1]); }, {x, f64({1})}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("activations: errors name the op and the values") {
  CHECK_THROWS_WITH_AS(hardtanh(zeros({2}), 1, -1), Contains("hardtanh: low 1 is above high -1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(glu(zeros({2, 3})), Contains("glu: dimension 1 has the odd size 3"),
                       ShapeError);
  CHECK_THROWS_AS(glu(tensor(1.0, kF64)), IndexError);
  CHECK_THROWS_WITH_AS(prelu(zeros({2, 3}), zeros({2})),
                       Contains("prelu: weight must be [1] or [3], the channels of x"), ShapeError);
  CHECK_THROWS_WITH_AS(prelu(zeros({2, 1}), zeros({2})), Contains("prelu: weight must be [1] (x: "),
                       ShapeError);
  CHECK_THROWS_AS(prelu(zeros({2, 3}, {.dtype = kI32}), zeros({1})), DTypeError);
}
