// Each op of tiny/ against Lathe's of the same name: values, and the gradients of the sum of squares.
#include <doctest/doctest.h>

#include <functional>

#include "../../tiny/net.h"
#include "compare.h"
#include "lathe/lathe.h"

namespace lathe::test {
namespace {

using Ours = std::vector<tiny::Tensor>;

/// Runs both functions on the same random inputs and compares results and gradients.
void check_same(const std::vector<tiny::Shape>& shapes,
                const std::function<tiny::Tensor(const Ours&)>& ours,
                const std::function<Tensor(const Tensors&)>& theirs) {
  tiny::Generator random(3);
  Ours in;
  Tensors their_in;
  for (const tiny::Shape& shape : shapes) {
    in.push_back(tiny::parameter(random.uniform(shape, 2)));
    their_in.push_back(to_lathe(in.back()));
    their_in.back().requires_grad_();
  }
  const tiny::Tensor y = ours(in);
  const Tensor their_y = theirs(their_in);
  CHECK(difference(y, their_y) < kSame);
  tiny::backward(tiny::sum(y * y));
  (their_y * their_y).sum().backward();
  for (size_t i = 0; i < in.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(tiny::grad(in[i]), their_in[i].grad()) < kSame);
  }
}

TEST_CASE("tiny: conv2d is Lathe's for strides, borders and sizes that do not divide") {
  struct Case {
    tiny::Shape x, w;
    tiny::Conv2dOptions opt;
  };
  for (const Case& c : {Case{{2, 3, 6, 6}, {4, 3, 3, 3}, {.pad = 1}},
                        Case{{2, 2, 7, 5}, {3, 2, 3, 3}, {.stride = 2, .pad = 1}},
                        Case{{1, 4, 6, 8}, {5, 4, 1, 1}, {.stride = 3}},
                        Case{{1, 1, 4, 4}, {2, 1, 4, 2}, {}}, Case{{0, 2, 4, 4}, {2, 2, 3, 3}, {}}})
    check_same(
        {c.x, c.w}, [&](const Ours& in) { return tiny::conv2d(in[0], in[1], c.opt); },
        [&](const Tensors& in) {
          return conv2d(in[0], in[1], {.stride = c.opt.stride, .pad = c.opt.pad});
        });
}

TEST_CASE(
    "tiny: batch_norm is Lathe's in training and in evaluation, running statistics included") {
  for (const bool training : {true, false})
    for (const tiny::Shape& shape : {tiny::Shape{4, 3, 5, 5}, tiny::Shape{6, 3}}) {
      CAPTURE(training);
      tiny::Tensor mean({3}, {0.5, -1, 2}), var({3}, {1, 0.5, 3});
      const Tensor their_mean = to_lathe(mean), their_var = to_lathe(var);
      check_same(
          {shape, {3}, {3}},
          [&](const Ours& in) {
            return tiny::batch_norm(in[0], in[1], in[2], mean, var, {.training = training});
          },
          [&](const Tensors& in) {
            return batch_norm(in[0], in[1], in[2], their_mean, their_var, {.training = training});
          });
      CHECK(difference(mean, their_mean) < kSame);
      CHECK(difference(var, their_var) < kSame);
    }
}

TEST_CASE("tiny: max_pool2d is Lathe's, also for ties and NaN") {
  for (const int64_t k : {1, 2, 3})
    check_same(
        {{2, 3, 7, 6}}, [&](const Ours& in) { return tiny::max_pool2d(in[0], k); },
        [&](const Tensors& in) { return max_pool2d(in[0], {.kernel = k}); });
  const tiny::Tensor ties = tiny::parameter({{1, 1, 2, 4}, {1, 1, 0, NAN, 1, 1, 5, 0}});
  const Tensor their_ties = to_lathe(ties);
  their_ties.requires_grad_();
  const tiny::Tensor y = tiny::max_pool2d(ties, 2);
  const Tensor their_y = max_pool2d(their_ties, {.kernel = 2});
  CHECK(difference(y, their_y) == 0);
  tiny::backward(tiny::sum(y));
  their_y.backward(ones_like(their_y));
  CHECK(difference(tiny::grad(ties), their_ties.grad()) == 0);
}

TEST_CASE("tiny: linear, matmul and relu are Lathe's") {
  check_same(
      {{3, 4}, {5, 4}, {5}}, [](const Ours& in) { return tiny::linear(in[0], in[1], in[2]); },
      [](const Tensors& in) { return linear(in[0], in[1], in[2]); });
  check_same(
      {{3, 4}, {3, 5}},
      [](const Ours& in) { return tiny::matmul(tiny::transpose(in[0]), tiny::relu(in[1])); },
      [](const Tensors& in) { return matmul(in[0].t(), lathe::relu(in[1])); });
}

TEST_CASE("tiny: relu lets NaN pass and has the gradient 0 at 0") {
  const tiny::Tensor x = tiny::parameter({{4}, {-1, 0, NAN, 2}});
  const tiny::Tensor y = tiny::relu(x);
  CHECK(std::isnan(y.data()[2]));
  tiny::backward(tiny::sum(y));
  CHECK(tiny::grad(x).data()[1] == 0);
  CHECK(tiny::grad(x).data()[3] == 1);
}

TEST_CASE("tiny: the gradient of broadcasting is Lathe's, on either side and on both") {
  for (const auto& [a, b] : {std::pair<tiny::Shape, tiny::Shape>{{2, 3}, {3}},
                             {{4}, {2, 1, 4}},
                             {{3, 1}, {1, 4}},
                             {{}, {2, 2}},
                             {{2, 0}, {2, 1}}}) {
    check_same(
        {a, b}, [](const Ours& in) { return in[0] + in[1]; },
        [](const Tensors& in) { return in[0] + in[1]; });
    check_same(
        {a, b}, [](const Ours& in) { return in[0] * in[1]; },
        [](const Tensors& in) { return in[0] * in[1]; });
  }
}

TEST_CASE("tiny: views have Lathe's values and gradients") {
  check_same(
      {{3, 4, 2}},
      [](const Ours& in) { return tiny::slice(tiny::transpose(in[0], 0, 2), 1, 1, 3); },
      [](const Tensors& in) { return in[0].transpose(0, 2).slice(1, 1, 3); });
  check_same(
      {{3, 4}},
      [](const Ours& in) {
        return tiny::reshape(tiny::transpose(in[0]), {2, 6});
      },
      [](const Tensors& in) {
        return in[0].t().reshape({2, 6});
      });
  check_same(
      {{3, 1}},
      [](const Ours& in) {
        return tiny::expand(in[0], {2, 3, 4});
      },
      [](const Tensors& in) {
        return in[0].expand({2, 3, 4});
      });
}

TEST_CASE("tiny: cross_entropy is Lathe's, also where exp would overflow") {
  const tiny::Labels labels{2, 0, 1, 2};
  for (const double scale : {1.0, 1e4})
    check_same(
        {{4, 3}},
        [&](const Ours& in) {
          return tiny::cross_entropy(in[0] * tiny::Tensor({}, {scale}), labels);
        },
        [&](const Tensors& in) { return cross_entropy(in[0] * scale, tensor(labels)); });
}

TEST_CASE("tiny: a wrong call says what is wrong, with the values") {
  const auto says = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const tiny::Error& error) {
      return error.what();
    }
    return "";
  };
  const tiny::Tensor x({2, 3, 4, 4}), w({5, 2, 3, 3});
  CHECK(says([&] { tiny::conv2d(x, w); }) ==
        "conv2d: x has 3 channels but w expects 2 (x: [2,3,4,4], w: [5,2,3,3])");
  CHECK(says([&] {
          tiny::Tensor({2, 3}) + tiny::Tensor({2, 2});
        }) == "add: shapes [2,3] and [2,2] do not broadcast: 3 and 2");
  CHECK(says([&] {
          tiny::cross_entropy(tiny::Tensor({2, 3}), {0, 3});
        }) == "cross_entropy: label 1 is 3, not in 0 to 2");
  CHECK(says([&] { tiny::reshape(x, {7}); }) == "reshape: [2,3,4,4] has 96 elements, [7] has 7");
  CHECK_THROWS_AS(tiny::Tensor({-1}), tiny::ShapeError);
  CHECK_THROWS_AS(tiny::Tensor({int64_t{1} << 40, int64_t{1} << 40}), tiny::ShapeError);
  CHECK_THROWS_AS(tiny::conv2d(x, tiny::Tensor({5, 3, 3, 3}), {.stride = 0}), tiny::ValueError);
  CHECK_THROWS_AS(tiny::conv2d(x, tiny::Tensor({5, 3, 9, 9})), tiny::ShapeError);
  CHECK_THROWS_AS(tiny::max_pool2d(x, 5), tiny::ShapeError);
  CHECK_THROWS_AS(tiny::matmul(tiny::Tensor({2, 3}), tiny::Tensor({2, 3})), tiny::ShapeError);
  tiny::Tensor mean({3}), var({3});
  for (const int64_t images : {0, 1})
    CHECK_THROWS_AS(
        tiny::batch_norm(tiny::Tensor({images, 3}), mean, mean, mean, var, {.training = true}),
        tiny::ShapeError);
  CHECK_THROWS_AS(tiny::batch_norm(tiny::Tensor({0, 3}), mean, mean, mean, var, {}),
                  tiny::ShapeError);
}

}  // namespace
}  // namespace lathe::test
