// Assignment 3: the tape and the backward pass.
#include "tiny/tape.h"

#include "numbers.h"

using namespace course;
using namespace tiny;

/// Two results of one gradient: an op y = a + b whose backward hands out the same tensor twice.
static Tensor shared_sum(const Tensor& a, const Tensor& b) {
  return record("shared_sum", detach(a) + detach(b), {a, b}, [](const Tensor& dy, const Needs&) {
    return std::vector{dy, dy};
  });
}

/// A tensor with the gradient `made` of any shape, and a count of its backward runs.
static Tensor counted(const Tensor& x, int& runs, double factor = 1) {
  return record("counted", copy_of(x), {x}, [&runs, factor](const Tensor& dy, const Needs&) {
    ++runs;
    return std::vector{map(dy, [&](double v) { return factor * v; })};
  });
}

int main() {
  Report report;
  report.test(1, "the example of tape.h: 135", [] {
    const Tensor w = parameter(Tensor({}, {3}));
    const Tensor a = w * w;
    backward(a * (a + w));
    expect_close("dL/dw", values(grad(w)), {135});
  });
  report.test(1, "gradients of several uses of one tensor add up", [] {
    const Tensor x = parameter(Tensor({2}, {1, 2}));
    backward(sum(x * x + x + x));
    expect_close("the gradient of x² + 2x", values(grad(x)), {4, 6});
  });
  report.test(2, "an op runs once, after all that used its output", [] {
    int runs = 0;
    const Tensor x = parameter(Tensor({1}, {2}));
    const Tensor square = counted(x * x, runs);
    backward(sum(square * square + square));
    expect_equal("runs of the op that was used three times", runs, 1);
    expect_close("the gradient of x⁴ + x²", values(grad(x)), {36});
  });
  report.test(4, "a ladder of 40 diamonds, which has 2⁴⁰ paths", [] {
    const Tensor x = parameter(Tensor({1}, {1})), one({1}, {1});
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = y + y * one;  // y's maker is used by the sum and the product
    backward(sum(y));
    expect_close("dx", values(grad(x)), {std::ldexp(1.0, 40)});
  });
  report.test(1, "gradients of two passes add up", [] {
    const Tensor x = parameter(Tensor({2}, {1, 2}));
    backward(sum(x * x));
    const Tensor first = grad(x);
    expect_close("after pass 1", values(first), {2, 4});
    backward(sum(x * x));
    expect_close("after pass 2", values(grad(x)), {4, 8});
    expect_close("what the program kept of pass 1", values(first), {2, 4});
  });
  report.test(1, "a loss may itself be a leaf", [] {
    const Tensor x = parameter(Tensor({1}, {3}));
    backward(x);
    expect_close("dx/dx", values(grad(x)), {1});
  });
  report.test(2, "a gradient that goes to two places is not added to in place", [] {
    const Tensor a = parameter(Tensor({1}, {1})), b = parameter(Tensor({1}, {1}));
    const Tensor product = a * Tensor({1}, {10});  // made first, so its share of da comes last
    backward(sum(shared_sum(a, b) + product));
    expect_close("da", values(grad(a)), {11});
    expect_close("db", values(grad(b)), {1});
  });
  report.test(2, "a leaf's gradient has memory of its own", [] {
    const Tensor a = parameter(Tensor({2}, {1, 1})), b = parameter(Tensor({2}, {1, 1}));
    backward(sum(shared_sum(a, b)));
    expect(grad(a).is_contiguous(), "the gradient of a is a view");
    expect(&grad(a).storage() != &grad(b).storage(), "the gradients of a and b share memory");
  });
  report.test(1, "an input that needs no gradient gets none", [] {
    const Tensor x = parameter(Tensor({1}, {2})), constant({1}, {5});
    const Tensor y =
        record("half", x * constant, {x, constant}, [](const Tensor& dy, const Needs& need) {
          expect(need[0] && !need[1], "need is not {true, false}");
          return std::vector{dy, Tensor()};
        });
    backward(sum(y));
    expect_close("dx", values(grad(x)), {1});
  });
  report.test(2, "what was saved and then changed is an error, and no leaf has changed", [] {
    Tensor x({1}, {2});
    const Tensor early = parameter(Tensor({1}, {1})), w = parameter(Tensor({1}, {1}));
    const Tensor product = sum(x * w);  // made before sum(early), so the pass reaches early first
    const Tensor loss = product + sum(early);
    copy_(x, Tensor({1}, {9}));
    expect_throws<StateError>("x was saved by mul and written after that", [&] { backward(loss); });
    expect(!grad(early).defined(), "a leaf has a gradient although the pass failed");
  });
  report.test(1, "a tape runs backwards once", [] {
    const Tensor x = parameter(Tensor({1}, {3}));
    const Tensor loss = sum(x * x);
    backward(loss);
    expect_throws<StateError>("a second pass over one tape", [&] { backward(loss); });
    const Tensor shared = x * x;
    backward(sum(shared));
    expect_throws<StateError>("a second loss over an op that ran", [&] { backward(sum(shared)); });
  });
  report.test(1, "what an op saved is released when it has run", [] {
    const auto saved = std::make_shared<int>(0);
    Tensor y = parameter(Tensor({1}, {3})) * Tensor({1}, {2});
    const std::weak_ptr<Meta> input = y.meta();
    y = record("saving", copy_of(y), {y},
               [saved](const Tensor& dy, const Needs&) { return std::vector{dy}; });
    backward(sum(y));  // y is alive, and with it the node that made it
    expect_equal("owners of what was saved", saved.use_count(), 1);
    expect(input.expired(), "the op still has its inputs");
  });
  report.test(1, "a gradient of the wrong shape is an error that names the op", [] {
    for (const Shape& shape : {Shape{3}, Shape{2, 1}}) {
      const Tensor x = parameter(Tensor({2}, {1, 2}));
      const Tensor y = record("broken", x * x, {x}, [shape](const Tensor&, const Needs&) {
        return std::vector{Tensor(shape)};
      });
      std::string said = "no error";
      try {
        backward(sum(y));
      } catch (const ShapeError& error) {
        said = error.what();
      }
      expect(said.find("broken") != std::string::npos, "no name in: " + said);
    }
  });
  return report.done();
}
