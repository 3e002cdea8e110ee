// Reordered and repeated elements. The numbers of the first case are PyTorch's (1.13).
#include "lathe/ops/rearrange.h"

#include "compare.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/sort.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;

struct Case {
  std::string torch;
  Function f;
  Shape x;  // holds 0, 1, 2, …
  Shape shape;
  Values y;
};
// clang-format off
const Case kCases[] = {
    {"flip(x, [0, 2])", [](In in) { return flip(in[0], {0, 2}); }, {2, 3, 4}, {2, 3, 4},
     {15, 14, 13, 12, 19, 18, 17, 16, 23, 22, 21, 20, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}},
    {"flip(x, [-1])", [](In in) { return flip(in[0], {-1}); }, {2, 3}, {2, 3}, {2, 1, 0, 5, 4, 3}},
    {"roll(x, (1, -1), (0, 2))", [](In in) { return roll(in[0], {1, -1}, {0, 2}); }, {2, 3, 4}, {2, 3, 4},
     {13, 14, 15, 12, 17, 18, 19, 16, 21, 22, 23, 20, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8}},
    {"roll(x, 8)", [](In in) { return roll(in[0], 8); }, {2, 3}, {2, 3}, {4, 5, 0, 1, 2, 3}},
    {"roll(x, -4, 1)", [](In in) { return roll(in[0], -4, 1); }, {2, 3}, {2, 3}, {1, 2, 0, 4, 5, 3}},
    {"repeat(2, 1, 2)", [](In in) { return repeat(in[0], {2, 1, 2}); }, {2, 3}, {2, 2, 6},
     {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
    {"repeat(2, 0)", [](In in) { return repeat(in[0], {2, 0}); }, {2, 3}, {4, 0}, {}},
    {"repeat(3)", [](In in) { return repeat(in[0], {3}); }, {}, {3}, {0, 0, 0}},
    {"tile(x, (2,))", [](In in) { return tile(in[0], {2}); }, {2, 3}, {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
    {"repeat_interleave(x, 2)", [](In in) { return repeat_interleave(in[0], 2); }, {2, 2}, {8}, {0, 0, 1, 1, 2, 2, 3, 3}},
    {"repeat_interleave(x, 2, 0)", [](In in) { return repeat_interleave(in[0], 2, 0); }, {2, 2}, {4, 2}, {0, 1, 0, 1, 2, 3, 2, 3}},
    {"repeat_interleave(x, tensor([2, 0, 1]), 1)", [](In in) { return repeat_interleave(in[0], tensor({2, 0, 1}), 1); }, {2, 3}, {2, 3},
     {0, 0, 2, 3, 3, 5}},
    {"movedim(x, (0, 1), (-1, 0))", [](In in) { return movedim(in[0], {0, 1}, {-1, 0}); }, {2, 3, 2}, {3, 2, 2},
     {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}},
    {"movedim(x, 2, 0)", [](In in) { return movedim(in[0], 2, 0); }, {2, 1, 3}, {3, 2, 1}, {0, 3, 1, 4, 2, 5}},
    {"swapaxes(x, 0, -1)", [](In in) { return swapaxes(in[0], 0, -1); }, {2, 1, 3}, {3, 1, 2}, {0, 3, 1, 4, 2, 5}},
    {"unbind(x, 1)[2]", [](In in) { return unbind(in[0], 1)[2]; }, {2, 3}, {2}, {2, 5}},
    {"meshgrid(x, x + 1, indexing='ij')[1]", [](In in) { return meshgrid({in[0], in[0] + 1})[1]; }, {3}, {3, 3}, {1, 2, 3, 1, 2, 3, 1, 2, 3}},
    {"meshgrid(x, x[1:], indexing='xy')[0]", [](In in) { return meshgrid({in[0], in[0].slice(0, 1, 3)}, MeshIndexing::kXY)[0]; }, {3}, {2, 3}, {0, 1, 2, 0, 1, 2}},
    {"meshgrid(x, x[1:], indexing='xy')[1]", [](In in) { return meshgrid({in[0], in[0].slice(0, 1, 3)}, MeshIndexing::kXY)[1]; }, {3}, {2, 3}, {1, 1, 1, 2, 2, 2}},
    {"take_along_dim(x, tensor([[2, 0]]), 1)", [](In in) { return take_along_dim(in[0], tensor({{2, 0}}), 1); }, {2, 3}, {2, 2}, {2, 0, 5, 3}},
    {"take_along_dim(x, tensor([[-1, -3]]), 1)", [](In in) { return take_along_dim(in[0], tensor({{-1, -3}}), 1); }, {2, 3}, {2, 2}, {2, 0, 5, 3}},
};
// clang-format on

}  // namespace

TEST_CASE("rearrange: values and shapes are PyTorch's, in every layout and dtype") {
  for (const Case& c : kCases) {
    CAPTURE(c.torch);
    for (const DType dtype : {kF32, kI64, kU8, kBF16}) {
      for (const Layout& layout : layouts()) {
        const Tensor x = layout.apply(arange(numel_of(c.x), {.dtype = dtype}).view(c.x));
        const Tensor y = c.f({x});
        CHECK(y.shape() == c.shape);
        CHECK(difference(y, c.y, 0) == "");
      }
    }
  }
}

TEST_CASE("rearrange: 0-d and zero-size") {
  const Tensor number = tensor(3.0, kF64), nothing = zeros({0, 3});
  CHECK(flip(number, {0}).item<double>() == 3);
  CHECK(roll(number, 5).ndim() == 0);
  CHECK(flip(nothing, {0, 1}).shape() == Shape{0, 3});
  CHECK(roll(nothing, 1, 0).shape() == Shape{0, 3});
  CHECK(roll(nothing, 1).shape() == Shape{0, 3});
  CHECK(repeat(nothing, {2, 2, 2}).shape() == Shape{2, 0, 6});
  CHECK(repeat_interleave(nothing, 3, 1).shape() == Shape{0, 9});
  CHECK(repeat_interleave(number, 2, 0).shape() == Shape{2});
  CHECK(repeat_interleave(number, tensor({2}), 0).shape() == Shape{2});
  CHECK(unbind(nothing, 0).empty());
  CHECK(unbind(nothing, 1).size() == 3);
  CHECK(movedim(number, 0, -1).ndim() == 0);
  CHECK(meshgrid({tensor(1.0, kF64), zeros({2}, {.dtype = kF64})})[0].shape() == Shape{1, 2});
  CHECK(take_along_dim(nothing, zeros({1, 2}, {.dtype = kI64}), 1).shape() == Shape{0, 2});
}

TEST_CASE("rearrange: views write through, copies do not") {
  const Tensor x = zeros({2, 3});
  unbind(x, 1)[0].fill_(1);
  movedim(x, 0, 1)[1].add_(2);
  view_as(x, zeros({3, 2}))[2].add_(10);
  CHECK(x.to_vector<double>() == Values{1, 2, 0, 1, 12, 10});
  const Tensor same = repeat(x, {1, 1});
  same.fill_(7);
  CHECK(x.to_vector<double>() == Values{1, 2, 0, 1, 12, 10});
  CHECK(reshape_as(x.t(), zeros({6})).to_vector<double>() == Values{1, 1, 2, 12, 0, 10});
  CHECK(expand_as(x, zeros({2, 2, 3})).shape() == Shape{2, 2, 3});
}

TEST_CASE("rearrange: what changes nothing is a copy, and no element of a copy is another's") {
  const Tensor x = ones({1, 3, 1}), square = ones({2, 2});
  const Tensor number = tensor(1.0, kF64), matrix = x.view({3, 1}).t();
  const Tensor all[] = {repeat(x, {1, 1, 1}),
                        repeat(x, {2, 1, 1}),
                        repeat(x, {1, 1, 4}),
                        repeat(x, {2, 1, 1, 3}),
                        repeat(number, {3}),
                        tile(x, {4}),
                        tile(x, {}),
                        repeat_interleave(x, 1, 1),
                        flip(x, {0}),
                        repeat_interleave(x, 2, 0),
                        flip(square, {}),
                        repeat_interleave(number, 2, 0),
                        flip(number, {}),
                        repeat_interleave(x.view({3}), 1),
                        roll(x, 1, 0),
                        roll(square, 2, 1),
                        roll(square, 0),
                        roll(square, {1, 1}, {0, 0}),
                        roll(square, {}, {}),
                        repeat(expand(tensor({1.0}), {2, 3}), {1, 1}),
                        pixel_shuffle(x.view({1, 3, 1, 1}), 1),
                        pixel_unshuffle(square.view({1, 2, 2}), 2),
                        pixel_unshuffle(square.view({1, 1, 2, 2}), 1),
                        pixel_shuffle(ones({4, 1, 1}).slice(0, 0, 4), 2),
                        tile(matrix, {2, 1}),
                        roll(expand(number, {3}), 3)};
  for (size_t i = 0; i < std::size(all); ++i) {
    CAPTURE(i);
    const Tensor& y = all[i];
    CHECK_FALSE(has_overlap(y));
    y.flatten().slice(0, 0, 1).fill_(7);
    CHECK((y == 7).sum().item<int64_t>() == 1);
    CHECK(y.numel() == (y == 1).sum().item<int64_t>() + 1);
  }
  for (const Tensor& t : {x, square, number}) CHECK(t.sum().item<double>() == t.numel());
}

TEST_CASE("take_along_dim: argsort's indices sort") {
  const Tensor x = randn({3, 5, 2});
  CHECK(difference(take_along_dim(x, argsort(x, 1), 1), sort(x, 1).values, 0) == "");
}

TEST_CASE("rearrange: gradients agree with finite differences, twice") {
  manual_seed(3);
  const Tensor x = f64({3, 4}), image = f64({1, 4, 2, 2});
  // clang-format off
  const GradientCase cases[] = {
      {"flip", [](In in) { return flip(in[0], {0, 1}); }, {x}},
      {"roll", [](In in) { return roll(in[0], {1, 2}, {0, 1}); }, {x}},
      {"pixel_shuffle", [](In in) { return pixel_shuffle(in[1], 2); }, {x, image}},
      {"pixel_unshuffle", [](In in) { return pixel_unshuffle(in[1], 2); }, {x, image}},
      {"repeat", [](In in) { return repeat(in[0], {2, 1, 2}); }, {x}},
      {"tile", [](In in) { return tile(in[0], {2}); }, {x}},
      {"repeat_interleave", [](In in) { return repeat_interleave(in[0], 2, 1); }, {x}},
      {"repeat_interleave by a tensor", [](In in) { return repeat_interleave(in[0], tensor({2, 0, 1}), 0); }, {x}},
      {"expand_as", [](In in) { return expand_as(in[0], in[1].detach()); }, {f64({3, 1}), x}},
      {"view_as", [](In in) { return view_as(in[0].contiguous(), zeros({2, 6})); }, {x}},
      {"reshape_as", [](In in) { return reshape_as(in[0], zeros({2, 6})); }, {x}},
      {"unbind", [](In in) { return unbind(in[0], 1)[2]; }, {x}},
      {"movedim", [](In in) { return movedim(in[0], 0, -1); }, {f64({2, 3, 2})}},
      {"swapaxes", [](In in) { return swapaxes(in[0], 0, 1); }, {x}},
      {"meshgrid", [](In in) { return stack(meshgrid({in[0], in[1]}, MeshIndexing::kXY)); }, {f64({3}), f64({2})}},
      {"take_along_dim", [](In in) { return take_along_dim(in[0], tensor({{1, 1, 3}}).to(in[0].device()), 1); }, {x}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("pixel_shuffle: channels become space, by the formula, and back") {
  const Tensor x = arange(2 * 8 * 3 * 2).view({2, 8, 3, 2});
  const Tensor y = pixel_shuffle(x, 2);
  REQUIRE(y.shape() == Shape{2, 2, 6, 4});
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        CHECK(y[1][c][i][j].item<int64_t>() ==
              x[1][4 * c + 2 * (i % 2) + j % 2][i / 2][j / 2].item<int64_t>());
      }
    }
  }
  CHECK(difference(pixel_unshuffle(y, 2), x, 0) == "");
  CHECK(difference(pixel_shuffle(x[0], 2), y[0], 0) == "");
  CHECK(difference(pixel_unshuffle(y[1], 2), x[1], 0) == "");
  CHECK_THROWS_WITH_AS(pixel_shuffle(x, 3), Contains("8 channels are no multiple"), ShapeError);
  CHECK_THROWS_AS(pixel_unshuffle(x, 2), ShapeError);
  CHECK_THROWS_AS(pixel_shuffle(zeros({4, 4}), 2), ShapeError);
  CHECK_THROWS_AS(pixel_shuffle(x, 0), ValueError);
  CHECK_THROWS_AS(pixel_shuffle(x, int64_t{1} << 40), ValueError);
  CHECK_THROWS_AS(pixel_unshuffle(zeros({1, 8, 0, 0}), INT32_MAX), ShapeError);
  CHECK_THROWS_AS(pixel_shuffle(zeros({1, 0, int64_t{1} << 40, 1}), 1 << 30), ShapeError);
}

TEST_CASE("rearrange: errors name the op and the values") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(flip(x, {0, 0}), IndexError);
  CHECK_THROWS_WITH_AS(flip(x, {2}), Contains("flip"), IndexError);
  CHECK_THROWS_WITH_AS(roll(x, Dims{1, 2, 3}, Dims{0, 1}),
                       Contains("roll: there are 3 shifts for 2 dimensions"), ShapeError);
  CHECK_THROWS_WITH_AS(repeat(x, {2}), Contains("repeat: [2] has fewer numbers"), ShapeError);
  CHECK_THROWS_WITH_AS(repeat(x, {2, -1}), Contains("negative number -1"), ShapeError);
  CHECK_THROWS_AS(repeat(x, {INT64_MAX, 1}), ShapeError);
  CHECK_THROWS_AS(repeat(zeros({2, 0}), {INT64_MAX, 1}), ShapeError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, -1), Contains("must not be negative, got -1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, tensor({1, -2}), 0),
                       Contains("repeats[1] must not be negative, got -2"), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, 2, 3}), 0), ShapeError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1.0, 2.0}, kF64), 0), DTypeError);
  CHECK_THROWS_AS(unbind(tensor(1.0, kF64)), IndexError);
  CHECK_THROWS_AS(movedim(x, {0, 0}, {0, 1}), IndexError);
  CHECK_THROWS_AS(movedim(x, Dims{0}, Dims{0, 1}), ShapeError);
  CHECK_THROWS_AS(meshgrid({}), ValueError);
  CHECK_THROWS_AS(meshgrid({x}), ShapeError);
  CHECK_THROWS_AS(meshgrid({zeros({2}), zeros({2}, {.dtype = kF64})}), DTypeError);
  CHECK_THROWS_AS(view_as(x.t(), zeros({6})), ShapeError);
  CHECK_THROWS_AS(take_along_dim(x, zeros({2}, {.dtype = kI64}), 1), ShapeError);
  CHECK_THROWS_AS(take_along_dim(x, full({2, 1}, 3), 1), IndexError);
  CHECK_THROWS_AS(take_along_dim(x, full({2, 1}, -4), 1), IndexError);
}
