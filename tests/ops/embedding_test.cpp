// embedding and one_hot.
#include "lathe/ops/embedding.h"

#include "compare.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("embedding: rows of the table, for an index of any shape") {
  const Tensor weight = tensor({{0.f, 1.f}, {10.f, 11.f}, {20.f, 21.f}});
  const Tensor index = tensor({{int64_t{2}, int64_t{0}}, {int64_t{1}, int64_t{2}}});
  const Tensor y = embedding(weight, index);
  CHECK(y.shape() == Shape{2, 2, 2});
  CHECK(difference(y, {20, 21, 0, 1, 10, 11, 20, 21}, 0) == "");
  CHECK(difference(embedding(weight, cast(index.t(), kI32)), {20, 21, 10, 11, 0, 1, 20, 21}, 0) ==
        "");
  CHECK(embedding(weight, tensor(int64_t{1})).shape() == Shape{2});
  CHECK(embedding(weight, zeros({0, 3}, {.dtype = kI64})).shape() == Shape{0, 3, 2});
}

TEST_CASE("embedding: gradients add up over repeated rows and leave out the padding row") {
  const Tensor index = tensor({int64_t{2}, int64_t{0}, int64_t{2}});
  const Tensor weight = ones({3, 2}).requires_grad_();
  embedding(weight, index, {.padding_index = 0})
      .backward(tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}));
  CHECK(difference(weight.grad(), {0, 0, 0, 0, 6, 8}, 0) == "");
  weight.set_grad({});
  embedding(weight, index, {.padding_index = -1})  // the last row
      .backward(tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}));
  CHECK(difference(weight.grad(), {3, 4, 0, 0, 0, 0}, 0) == "");
  check_gradients({"embedding",
                   [index](const Tensors& in) { return embedding(in[0], beside(in, index)); },
                   {f64({3, 4})}});
}

TEST_CASE("embedding: errors name the values") {
  const Tensor weight = zeros({3, 2});
  CHECK_THROWS_WITH_AS(embedding(weight, full({2, 1}, 3)),
                       doctest::Contains("embedding: index 3 at [0,0] is outside [0, 3)"),
                       IndexError);
  CHECK_THROWS_WITH_AS(embedding(weight, full({1}, 0), {.padding_index = 3}),
                       doctest::Contains("padding_index 3 is outside [-3, 3)"), IndexError);
  CHECK_THROWS_AS(embedding(weight, full({1}, 0), {.padding_index = -4}), IndexError);
  CHECK_THROWS_AS(embedding(zeros({3}), full({1}, 0)), ShapeError);
  CHECK_THROWS_AS(embedding(weight, zeros({1})), DTypeError);
}

TEST_CASE("one_hot: a 1 in the index's place") {
  const Tensor y = one_hot(tensor({int64_t{1}, int64_t{0}, int64_t{3}}));
  CHECK(y.dtype() == kI64);
  CHECK(y.shape() == Shape{3, 4});
  CHECK(difference(y, {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1}, 0) == "");
  CHECK(one_hot(full({2, 3}, 0), 5).shape() == Shape{2, 3, 5});
  CHECK(difference(one_hot(tensor(int32_t{1}), 2), {0, 1}, 0) == "");
  CHECK(one_hot(zeros({0}, {.dtype = kI64}), 2).shape() == Shape{0, 2});
}

TEST_CASE("one_hot: errors name the values") {
  CHECK_THROWS_WITH_AS(one_hot(tensor({int64_t{4}}), 4),
                       doctest::Contains("one_hot: index 4 at [0] is outside [0, 4)"), IndexError);
  CHECK_THROWS_AS(one_hot(tensor({int64_t{-1}})), IndexError);
  CHECK_THROWS_AS(one_hot(zeros({0}, {.dtype = kI64})), ValueError);
  CHECK_THROWS_AS(one_hot(full({1}, 0), 0), ValueError);
  CHECK_THROWS_AS(one_hot(zeros({1}), 2), DTypeError);
}
