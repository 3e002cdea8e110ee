// check_determinism: planted differences. Compiled with line numbers.
#include "lathe/core/debug/determinism.h"

#include <doctest/doctest.h>

#include "lathe/core/hooks/stack.h"
#include "lathe/lathe.h"

namespace program {  // not of the library

constexpr int kLineOfNoise = __LINE__ + 2;
[[gnu::noinline]] lathe::Tensor noisy(const lathe::Tensor& x, double noise) {
  const lathe::Tensor y = lathe::mul(x, noise);
  asm volatile("" : : : "memory");  // no tail call
  return y;
}

}  // namespace program

namespace lathe::debug {
namespace {

TEST_CASE("check_determinism: equal steps are equal") {
  const Tensor w = ones({4, 4}).requires_grad_();
  const DeterminismReport report = check_determinism([&] {
    manual_seed(1);
    sum(relu(matmul(w, randn({4, 4})))).backward();
  });
  CHECK_MESSAGE(report.ok(), report.text());
  CHECK(report.results > 4);
  CHECK(report.text() ==
        concat(report.results, " results of ops and gradients are equal in both runs"));
}

TEST_CASE("check_determinism: names the first op that differs, and its line") {
  double noise = 1;
  const DeterminismReport report = check_determinism([&] {
    const Tensor x = ones({2, 3});
    noise += 1;
    sum(program::noisy(relu(x), noise));
  });
  REQUIRE(report.difference);
  CHECK(report.difference->op == "mul");
  CHECK_FALSE(report.difference->backward);
  CHECK(report.difference->shape == Shape{2, 3});
  CHECK(report.difference->was.empty());
  if (!profile::line_reader().empty())
    CHECK_MESSAGE(
        report.difference->call.starts_with(concat("determinism_test.cpp:", program::kLineOfNoise)),
        report.difference->call);
}

TEST_CASE("check_determinism: a gradient that differs is named by its forward call") {
  int run = 0;
  const DeterminismReport report = check_determinism([&] {
    const Tensor x = ones({3}).requires_grad_();
    const Tensor y = program::noisy(x, 2);
    ++run;
    y.register_hook([run](const Tensor& dy) { return mul(dy, run); });
    sum(y).backward();
  });
  REQUIRE(report.difference);
  CHECK(report.difference->backward);
  CHECK(report.difference->op == "mul");
  if (!profile::line_reader().empty())
    CHECK(report.difference->call.starts_with(
        concat("determinism_test.cpp:", program::kLineOfNoise)));
}

TEST_CASE("check_determinism: another op, or one more, is a difference") {
  int run = 0;
  const DeterminismReport other = check_determinism([&] {
    const Tensor x = ones({3});
    run++ % 2 == 0 ? exp(x) : tanh(x);
  });
  REQUIRE(other.difference);
  CHECK(other.difference->was == "exp f32[3]");
  CHECK(other.difference->op == "tanh");
  const DeterminismReport more = check_determinism([&] {
    const Tensor x = ones({3});
    if (run++ % 2 == 0) exp(x);
  });
  REQUIRE(more.difference);
  CHECK(more.difference->op == "exp");
  CHECK(more.difference->was == "nothing");
}

}  // namespace
}  // namespace lathe::debug
