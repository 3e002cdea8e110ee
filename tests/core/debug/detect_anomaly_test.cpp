// DetectAnomaly: planted bad values, and what must not be taken for one. Compiled with line numbers.
#include "lathe/core/debug/detect_anomaly.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include "lathe/core/hooks/stack.h"
#include "lathe/lathe.h"

namespace program {  // not of the library

using lathe::Tensor;

constexpr int kLineOfLog = __LINE__ + 2;
[[gnu::noinline]] Tensor logarithm(const Tensor& x) {
  const Tensor y = lathe::log(x);
  asm volatile("" : : : "memory");  // no tail call
  return y;
}

constexpr int kLineOfSqrt = __LINE__ + 2;
[[gnu::noinline]] Tensor root(const Tensor& x) {
  const Tensor y = lathe::sqrt(x);
  asm volatile("" : : : "memory");
  return y;
}

constexpr int kLineOfFrac = __LINE__ + 2;
[[gnu::noinline]] Tensor fraction(const Tensor& x) {
  const Tensor y = lathe::frac(x);
  asm volatile("" : : : "memory");
  return y;
}

}  // namespace program

namespace lathe::debug {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What f throws; none if it does not.
template <class F>
std::optional<AnomalyError> thrown_by(const F& f) {
  try {
    f();
  } catch (const AnomalyError& e) {
    return e;
  }
  return std::nullopt;
}

void check_line(const Anomaly& anomaly, int line) {
  if (profile::line_reader().empty()) return;
  CHECK(anomaly.line == line);
  CHECK(anomaly.file.ends_with("detect_anomaly_test.cpp"));
  CHECK(anomaly.call.starts_with(concat("detect_anomaly_test.cpp:", line)));
}

TEST_CASE("detect_anomaly: the op, its line, the index and the value of a NaN in forward") {
  const DetectAnomaly scope;
  const Tensor x = tensor({1., 2., -1., 4., -5., 6.}).reshape({2, 3});
  const auto error = thrown_by([&] { program::logarithm(x); });
  REQUIRE(error);
  const Anomaly& found = error->anomaly;
  CHECK(found.op == "log");
  CHECK_FALSE(found.backward);
  CHECK_FALSE(found.came_in);
  CHECK(found.shape == Shape{2, 3});
  CHECK(found.bad.index == Dims{0, 2});
  CHECK(std::isnan(found.bad.value));
  check_line(found, program::kLineOfLog);
  CHECK_MESSAGE(error->message().find("anomaly: log made NaN at [0,2] of its result") == 0,
                error->message());
  CHECK_MESSAGE(error->message().find("input 0 ") != std::string::npos, error->message());
  CHECK_MESSAGE(error->message().find(" is -1 there") != std::string::npos, error->message());
}

TEST_CASE("detect_anomaly: an infinity is reported where it is made, once") {
  const DetectAnomaly scope;
  const Tensor zero = zeros({3}).requires_grad_();
  const auto error = thrown_by([&] { program::logarithm(zero); });
  REQUIRE(error);
  CHECK(error->anomaly.bad.value == -kInfinity);
  CHECK(error->anomaly.bad.index == Dims{0});
  check_line(error->anomaly, program::kLineOfLog);
  CHECK_FALSE(thrown_by([&] { add(ones({3}), 1); }));
}

TEST_CASE("detect_anomaly: infinities that the program asked for are none") {
  const DetectAnomaly scope;
  CHECK_FALSE(thrown_by([&] {
    const Tensor mask = tensor({0., 1., 0.}) > 0.5;
    const Tensor scores = masked_fill(ones({3}), mask, -kInfinity);
    const Tensor weights = softmax(add(scores, 1), 0);  // the infinity came in
    CHECK(weights.to_vector<float>() == std::vector<float>{0.5, 0, 0.5});
    full({2}, kInfinity);
  }));
}

struct Root : nn::Module {
  nn::Linear fc{*this, "fc", 3, 3};
  struct Sqrt : nn::Module {
    using Module::Module;
    Tensor forward(const Tensor& x) override { return program::root(sub(x, x)); }
  };
  Sqrt root{*this, "root"};
  Tensor forward(const Tensor& x) override { return relu(root(fc(x))); }
};

TEST_CASE("detect_anomaly: the layer of the forward call, in forward and in backward") {
  const Tensor bad = full({2, 3}, std::nan(""));
  const DetectAnomaly scope;
  Root net;
  const auto backward = thrown_by([&] { sum(net(ones({2, 3}))).backward(); });
  REQUIRE(backward);
  CHECK(backward->anomaly.backward);
  CHECK(backward->anomaly.layer.ends_with("Root.root"));
  const auto forward = thrown_by([&] { net(bad); });
  REQUIRE(forward);
  CHECK(forward->anomaly.op == "linear");
  CHECK(forward->anomaly.layer.ends_with("Root.fc"));
  CHECK(forward->message().starts_with(forward->anomaly.layer + ": anomaly: linear passed on"));
}

TEST_CASE("detect_anomaly: only NaN, if infinities do not count") {
  const DetectAnomaly scope({.infinity = false});
  CHECK_FALSE(thrown_by([] { program::logarithm(zeros({2})); }));
  CHECK(thrown_by([] { program::logarithm(full({2}, -1)); }));
}

TEST_CASE("detect_anomaly: a NaN of the data is said to have come in") {
  const Tensor x = full({2}, std::nan(""));
  const DetectAnomaly scope;
  const auto error = thrown_by([&] { relu(add(x, 1)); });
  REQUIRE(error);
  CHECK(error->anomaly.op == "add");
  CHECK(error->anomaly.came_in);
  CHECK_MESSAGE(error->message().find("holds NaN at [0] already") != std::string::npos,
                error->message());
}

TEST_CASE("detect_anomaly: a value that an op computes and does not use is none") {
  const DetectAnomaly scope;
  const Tensor p = tensor({0., 1.}).requires_grad_(), y = tensor({0., 1.});
  CHECK_FALSE(thrown_by([&] {
    const Tensor loss = binary_cross_entropy(p, y);  // log(0) inside, clamped at -100
    CHECK(loss.item<float>() == 0);
  }));
}

TEST_CASE("detect_anomaly: an op made of others throws at the next one, with its own line") {
  const DetectAnomaly scope;
  const Tensor x = tensor({1., kInfinity});
  Tensor y;
  CHECK_FALSE(thrown_by([&] { y = program::fraction(x); }));  // inf - inf
  const auto error = thrown_by([&] { add(ones({1}), 1); });
  REQUIRE(error);
  CHECK(error->anomaly.op == "frac");
  CHECK(error->anomaly.inside == "sub");
  CHECK(error->anomaly.bad.index == Dims{1});
  check_line(error->anomaly, program::kLineOfFrac);
}

TEST_CASE("detect_anomaly: in backward the op, the input and the line of the forward call") {
  const DetectAnomaly scope;
  const Tensor x = tensor({4., 0., 1.}).requires_grad_();
  const Tensor w = tensor({1., 0., 1.});
  const Tensor loss = sum(mul(program::root(x), w));  // 0 * 1/(2 sqrt(0)) = 0 * infinity
  const auto error = thrown_by([&] { loss.backward(); });
  REQUIRE(error);
  const Anomaly& found = error->anomaly;
  CHECK(found.op == "sqrt");
  CHECK(found.backward);
  CHECK(found.input == 0);
  CHECK(found.bad.index == Dims{1});
  CHECK(std::isnan(found.bad.value));
  CHECK(found.shape == Shape{3});
  check_line(found, program::kLineOfSqrt);
  CHECK_MESSAGE(error->message().find("the backward of sqrt made NaN at [1]") != std::string::npos,
                error->message());
  CHECK_FALSE(x.grad().defined());  // a pass that fails changes no gradient
}

TEST_CASE("detect_anomaly: in backward an infinity, and gradients can be left out") {
  const Tensor x = zeros({2}).requires_grad_();
  {
    const DetectAnomaly scope;
    const Tensor loss = sum(program::root(x));
    const auto error = thrown_by([&] { loss.backward(); });
    REQUIRE(error);
    CHECK(error->anomaly.bad.value == kInfinity);
  }
  const DetectAnomaly scope({.backward = false});
  CHECK_FALSE(thrown_by([&] { sum(program::root(x)).backward(); }));
}

TEST_CASE("detect_anomaly: a forward call outside of a scope is said to be unknown") {
  const Tensor x = zeros({2}).requires_grad_();
  const Tensor loss = sum(program::root(x));
  const DetectAnomaly scope;
  const auto error = thrown_by([&] { loss.backward(); });
  REQUIRE(error);
  CHECK(error->anomaly.op == "sqrt");
  CHECK(error->anomaly.call.empty());
  CHECK_MESSAGE(error->message().find("outside of a DetectAnomaly scope") != std::string::npos,
                error->message());
}

TEST_CASE("detect_anomaly: in place, through another dtype and in another order of memory") {
  const DetectAnomaly scope;
  Tensor x = tensor({1., -1.});
  const auto in_place = thrown_by([&] { sqrt_(x); });
  REQUIRE(in_place);
  CHECK(in_place->anomaly.op == "sqrt_");
  const auto half = thrown_by([] { mul(full({2, 2}, 60000, {.dtype = kF16}), 2); });
  REQUIRE(half);
  CHECK(half->anomaly.dtype == kF16);
  Tensor turned = tensor({1., 2., -1., 4., 5., 6.}).reshape({2, 3}).transpose(0, 1);
  const auto other = thrown_by([&] { log(turned); });
  REQUIRE(other);
  CHECK(other->anomaly.bad.index == Dims{2, 0});
}

/// What f throws, or what the next op does: f may end in an op made of others.
template <class F>
std::optional<AnomalyError> left_by(const F& f) {
  return thrown_by([&] {
    f();
    add(ones({1}), 1);
  });
}

TEST_CASE("detect_anomaly: an infinity that an op in place overwrites came in") {
  for (const DType dtype : {kF32, kF16}) {
    const Tensor x = full({2}, kInfinity, {.dtype = dtype});
    const DetectAnomaly scope;
    CHECK_FALSE(left_by([&] { x.mul_(0.5); }));
    CHECK_FALSE(left_by([&] { clamp_(x, {.low = 0.}); }));
    const auto made = left_by([&] { x.sub_(x); });  // inf - inf
    REQUIRE(made);
    CHECK(made->anomaly.op == "sub_");
    CHECK_FALSE(made->anomaly.came_in);
    CHECK_MESSAGE(made->message().find("held infinity at [0] before") != std::string::npos,
                  made->message());
    const auto passed = left_by([&] { x.mul_(2); });
    REQUIRE(passed);
    CHECK(passed->anomaly.came_in);
    CHECK_MESSAGE(passed->message().find("held NaN at [0] before") != std::string::npos,
                  passed->message());
  }
}

TEST_CASE("detect_anomaly: an infinity that an op in place makes, by whatever way it takes") {
  const auto check = [](const char* op, const auto& f) {
    const auto error = left_by(f);
    REQUIRE_MESSAGE(error, op);
    CHECK(error->anomaly.op == op);
    CHECK(std::isinf(error->anomaly.bad.value));
    CHECK_FALSE(error->anomaly.came_in);
  };
  const Tensor wide = full({2}, 1e30), half = full({2}, 60000, {.dtype = kF16});
  const Tensor leaf = full({4}, 1e30).requires_grad_();
  const DetectAnomaly scope;
  check("mul_", [&] { wide.mul_(1e30); });
  check("mul_", [&] { half.mul_(1000); });
  check("div_", [&] { div_(full({2}, 1.), zeros({2}), {.rounding_mode = RoundingMode::kFloor}); });
  check("mul_", [&] {
    const Tensor base = mul(leaf, 1);
    narrow(base, 0, 1, 2).mul_(1e30);
  });
}

TEST_CASE("detect_anomaly: an op that ends in a bool is not judged by what it computes before") {
  const Tensor x = full({2}, std::nan(""));
  const DetectAnomaly scope;
  for (const bool equal_nan : {false, true}) {
    CHECK_FALSE(left_by([&] { CHECK(allclose(x, x, {.equal_nan = equal_nan}) == equal_nan); }));
    CHECK_FALSE(left_by([&] { isclose(x, ones({2}), {.equal_nan = equal_nan}); }));
  }
}

TEST_CASE("detect_anomaly: the part of an op is known for each of its gradients") {
  const Tensor a = full({2}, -1.).requires_grad_(), b = full({2}, 2.).requires_grad_();
  const DetectAnomaly scope;
  const auto error = thrown_by([&] { sum(pow(a, b)).backward(); });  // -2, and log(-1)
  REQUIRE(error);
  CHECK(error->anomaly.op == "pow");
  CHECK(error->anomaly.input == 1);
  CHECK(error->anomaly.inside == "log");
}

TEST_CASE("detect_anomaly: what a hook computes for itself is no part of a pass") {
  const Tensor x = ones({2}).requires_grad_();
  const DetectAnomaly scope;
  int calls = 0;
  x.register_hook([&](const Tensor& dx) {
    frac(full({2}, kInfinity));
    ++calls;
    return dx;
  });
  CHECK_FALSE(left_by([&] { sum(x).backward(); }));
  CHECK(calls == 1);
}

TEST_CASE("detect_anomaly: an op outside of any layer is not blamed on the next layer") {
  Root net;
  const Tensor x = ones({2, 3}), infinite = full({2}, kInfinity);
  const DetectAnomaly scope;
  const auto error = thrown_by([&] {
    program::fraction(infinite);
    net(x);
  });
  REQUIRE(error);
  CHECK_MESSAGE(error->message().starts_with("anomaly: frac made NaN"), error->message());
}

struct Raw : CustomFunction<Raw> {
  static Tensor forward(Context&, const Tensor& x, float value) {
    const Tensor y = empty_like(x);
    y.data<float>()[1] = value;
    y.data<float>()[0] = x.data<float>()[0];
    return y;
  }
  static Tensor backward(Context&, const Tensors& dy) { return dy[0]; }
};

TEST_CASE("detect_anomaly: the output of a custom function") {
  const DetectAnomaly scope;
  for (const bool recorded : {false, true}) {
    const Tensor x = ones({2}).requires_grad_(recorded);
    const auto error = thrown_by([&] { Raw::apply(x, std::nanf("")); });
    REQUIRE(error);
    CHECK(error->anomaly.op.ends_with("Raw"));
    CHECK(error->anomaly.bad.index == Dims{1});
    CHECK_FALSE(error->anomaly.came_in);
    CHECK_FALSE(thrown_by([&] { Raw::apply(x, 1.f); }));
  }
  const Tensor masked = full({2}, kInfinity);
  CHECK_FALSE(thrown_by([&] { Raw::apply(masked, 1.f); }));  // it came in
}

TEST_CASE("detect_anomaly: off again after its scope, and on one thread only") {
  { const DetectAnomaly scope; }
  const auto bad = [] { program::logarithm(zeros({2})); };
  CHECK_FALSE(thrown_by(bad));
  CHECK_FALSE(profile::recording());
  const DetectAnomaly scope;
  std::optional<AnomalyError> found;
  std::thread([&] { found = thrown_by(bad); }).join();
  CHECK_FALSE(found);
  CHECK(thrown_by(bad));
}

TEST_CASE("detect_anomaly: a training that is sound has the same bits") {
  const auto losses = [](bool watched) {
    manual_seed(3);
    const Tensor w = randn({8, 8}).requires_grad_();
    std::optional<DetectAnomaly> scope;
    if (watched) scope.emplace();
    const Tensor loss = sum(square(tanh(matmul(w, w))));
    loss.backward();
    return w.grad().to_vector<float>();
  };
  CHECK(losses(true) == losses(false));
}

}  // namespace
}  // namespace lathe::debug
