// einsum. The numbers are PyTorch's (1.13).
#include "lathe/ops/einsum.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;

struct Case {
  std::string equation;
  std::vector<Shape> operands;  // each holds (7 i) mod 11 - 5
  Shape shape;
  Values y;
};
// clang-format off
const Case kCases[] = {
    {"ij,jk->ik", {Shape{2, 3}, Shape{3, 2}}, {2, 2}, {19, 6, -30, 24}},
    {"ij,jk", {Shape{2, 3}, Shape{3, 2}}, {2, 2}, {19, 6, -30, 24}},
    {"ij->ji", {Shape{2, 3}}, {3, 2}, {-5, 5, 2, 1, -2, -3}},
    {"ij->", {Shape{2, 3}}, {}, {-2}},
    {"ii", {Shape{3, 3}}, {}, {-8}},
    {"ii->i", {Shape{3, 3}}, {3}, {-5, 1, -4}},
    {"i,j->ij", {Shape{2}, Shape{3}}, {2, 3}, {25, -10, 10, -10, 4, -4}},
    {"i,i->", {Shape{3}, Shape{3}}, {}, {33}},
    {"ij,ij->ij", {Shape{2, 3}, Shape{2, 3}}, {2, 3}, {25, 4, 4, 25, 1, 9}},
    {"bij,bjk->bik", {Shape{2, 2, 3}, Shape{2, 3, 2}}, {2, 2, 2}, {19, 6, -30, 24, 20, 20, 21, 22}},
    {"bhqd,bhkd->bhqk", {Shape{1, 2, 2, 3}, Shape{1, 2, 2, 3}}, {1, 2, 2, 2}, {33, -17, -17, 35, 32, 32, 32, 35}},
    {"...ij,...jk->...ik", {Shape{2, 1, 2, 3}, Shape{3, 3, 2}}, {2, 3, 2, 2}, {19, 6, -30, 24, -26, 16, 19, 18, 6, 4, 24, -21, -24, 20, -18, 16, 20, 20, 21, 22, 20, -24, 16, -27}},
    {"i...->...", {Shape{2, 3}}, {3}, {0, 3, -5}},
    {"...i,...i", {Shape{2, 3}, Shape{3}}, {2}, {33, -17}},
    {"ij,jk,kl->il", {Shape{2, 3}, Shape{3, 2}, Shape{2, 2}}, {2, 2}, {-107, 68, 102, 60}},
    {"i,j,k->kji", {Shape{2}, Shape{2}, Shape{2}}, {2, 2, 2}, {-125, 50, 50, -20, 50, -20, -20, 8}},
    {"ba", {Shape{2, 3}}, {3, 2}, {-5, 5, 2, 1, -2, -3}},
    {"iji->ij", {Shape{2, 3, 2}}, {2, 3}, {-5, -2, 1, 0, 3, -5}},
    {"ij,kj->i", {Shape{2, 3}, Shape{2, 3}}, {2}, {16, 18}},
    {"ij,ij->i", {Shape{2, 1}, Shape{2, 3}}, {2}, {25, 6}},
    {"ab,ac->bc", {Shape{1, 2}, Shape{3, 2}}, {2, 2}, {30, -20, -12, 8}},
    {"ij,k->k", {Shape{2, 2}, Shape{3}}, {3}, {0, 0, 0}},
    {"zAy->yzA", {Shape{2, 1, 3}}, {3, 2, 1}, {-5, 5, 2, 1, -2, -3}},
    {"ij,jk->ik", {Shape{2, 0}, Shape{0, 3}}, {2, 3}, {0, 0, 0, 0, 0, 0}},
    {"ij, jk -> ki", {Shape{2, 3}, Shape{3, 2}}, {2, 2}, {19, -30, 6, 24}},
    {"...,...->...", {Shape{2, 3}, Shape{3}}, {2, 3}, {25, 4, 4, -25, 2, 6}},
    {"i,ij,j->", {Shape{2}, Shape{2, 3}, Shape{3}}, {}, {-199}},
    {"ij,ij,ij->j", {Shape{2, 3}, Shape{2, 3}, Shape{2, 3}}, {3}, {0, 9, -35}},
};
// clang-format on

Tensor operand(const Shape& shape) {
  Values values;
  for (int64_t i = 0; i < numel_of(shape); ++i) {
    values.push_back(static_cast<double>(i * 7 % 11 - 5));
  }
  return tensor(values).view(shape);
}

}  // namespace

TEST_CASE("einsum: values and shapes are PyTorch's, in every layout and dtype") {
  for (const Case& c : kCases) {
    for (const DType dtype : {kF64, kF32, kI32}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(c.equation, " ", layout.name, " ", dtype));
        Tensors operands;
        for (const Shape& shape : c.operands) {
          operands.push_back(layout.apply(operand(shape).to(dtype)));
        }
        const Tensor y = einsum(c.equation, operands);
        CHECK(y.shape() == c.shape);
        CHECK(difference(y, c.y, 0) == "");  // integers, and few of them
      }
    }
  }
  CHECK(einsum("", {tensor(3.0, kF64)}).item<double>() == 3);
  CHECK(einsum(",->", {tensor(3.0, kF64), tensor(4.0, kF64)}).item<double>() == 12);
  CHECK(einsum("...->...", {ones({2, 3})}).shape() == Shape{2, 3});
  CHECK(einsum("ij->i...", {ones({2, 3})}).shape() == Shape{2});
  CHECK(einsum("i...->i", {ones({2, 3})}).to_vector<double>() == Values{3, 3});
  CHECK(einsum("ij,jk", {zeros({2, 0}), zeros({0, 0})}).shape() == Shape{2, 0});
  const Autocast half(kCPU, kBF16);
  CHECK(einsum("ij,jk->ik", {ones({2, 3}), ones({3, 2})}).dtype() == kBF16);
}

TEST_CASE("einsum: gradients agree with finite differences, twice") {
  manual_seed(20);
  // clang-format off
  const GradientCase cases[] = {
      {"einsum", [](In in) { return einsum("bij,bkj->bik", in); }, {f64({2, 3, 2}), f64({2, 2, 2})}},
      {"einsum of three", [](In in) { return einsum("i,ij,j", in); }, {f64({3}), f64({3, 2}), f64({2})}},
      {"einsum of a diagonal", [](In in) { return einsum("iji->j", in); }, {f64({2, 3, 2})}},
      {"einsum that broadcasts", [](In in) { return einsum("...i,...i->...", in); }, {f64({2, 1, 3}), f64({2, 3})}},
      {"einsum of an outer product", [](In in) { return einsum("i,j->ji", in); }, {f64({3}), f64({2})}},
      {"einsum that stretches", [](In in) { return einsum("ij,ij->j", in); }, {f64({1, 3}), f64({2, 3})}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("einsum: errors show the equation") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(einsum("i1->i", {x}), Contains("'1' is not a letter, in \"i1->i\""),
                       ValueError);
  CHECK_THROWS_WITH_AS(einsum("i..->i", {x}), Contains("a dot must be part of one \"...\""),
                       ValueError);
  CHECK_THROWS_AS(einsum("...i...->i", {x}), ValueError);
  CHECK_THROWS_AS(einsum("ij->i->j", {x}), ValueError);
  CHECK_THROWS_WITH_AS(einsum("ij,jk->ik", {x}), Contains("is for 2 operands, not 1"), ValueError);
  CHECK_THROWS_WITH_AS(einsum("ij->ik", {x}), Contains("'k' stands in no operand"), ValueError);
  CHECK_THROWS_WITH_AS(einsum("ij->ii", {x}), Contains("'i' stands twice in the result"),
                       ValueError);
  CHECK_THROWS_WITH_AS(einsum("ijk->i", {x}),
                       Contains("operand 0 has 2 dimensions, for which there are 3 letters"),
                       ShapeError);
  CHECK_THROWS_AS(einsum("i...jk->i", {x}), ShapeError);
  CHECK_THROWS_AS(einsum("i->i", {x}), ShapeError);
  CHECK_THROWS_WITH_AS(einsum("ij,ij->i", {x, zeros({2, 4})}),
                       Contains("'j' has the sizes 3 and 4"), ShapeError);
  CHECK_THROWS_WITH_AS(einsum("...,...", {x, zeros({2})}), Contains("a dimension of \"...\" has"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(einsum("ii->i", {x}), Contains("'i' stands for the sizes 2 and 3"),
                       ShapeError);
  CHECK_THROWS_AS(einsum("ij,ij->i", {x, zeros({2, 3}, {.dtype = kF64})}), DTypeError);
  CHECK_THROWS_AS(einsum("ij->i", {}), ValueError);
}
