// Norms, similarities and distances. The numbers are PyTorch's (1.13, f64).
#include "lathe/ops/distance.h"

#include <limits>

#include "compare.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using Values = std::vector<double>;
using In = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const Tensor kX = tensor({{1.0, -2.0, 3.0}, {0.0, 4.0, -5.0}}, kF64);
const Tensor kA = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, kF64);
const Tensor kB = tensor({{0.0, -1.0, 2.0}, {2.0, 2.0, -3.0}}, kF64);
}  // namespace

TEST_CASE("vector_norm: values for every p, layout and dtype") {
  const struct {
    double p;
    Values want;
  } cases[] = {
      {0, {3, 2}},
      {0.5, {17.191508225450303, 17.94427190999916}},
      {1, {6, 9}},
      {2, {3.7416573867739413, 6.4031242374328485}},
      {3, {3.3019272488946263, 5.738793548317167}},
      {kInf, {3, 5}},
      {-kInf, {1, 0}},
      {-1, {0.5454545454545455, 0}},
  };
  for (const auto& c : cases) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat("p = ", c.p, " ", dtype, " ", layout.name));
        const Tensor x = layout.apply(kX.to(dtype));
        CHECK(vector_norm(x, c.p, {1}).dtype() == dtype);
        CHECK(difference(vector_norm(x, c.p, {1}), c.want, 4 * tolerance_of(dtype)) == "");
        CHECK(vector_norm(x, c.p, {1}, {.keepdim = true}).shape() == Shape{2, 1});
      }
    }
  }
  CHECK(vector_norm(kX, 1).item<double>() == 15);
  CHECK(vector_norm(tensor(-3.0, kF64), 3).item<double>() == doctest::Approx(3));
  CHECK(vector_norm(zeros({2, 0}), 3, {1}).to_vector<double>() == Values{0, 0});
  CHECK(vector_norm(full({4}, 1000.0, {.dtype = kF16}), 3).item<double>() ==
        doctest::Approx(1587.4).epsilon(1e-3));
}

TEST_CASE("cdist: many rows, batches that broadcast, the same bits with any number of threads") {
  manual_seed(7);
  for (const DType dtype : {kF32, kF64, kF16}) {
    const Tensor a = randn({2, 1, 70, 5}, {.dtype = kF64}).to(dtype);
    const Tensor b = randn({3, 130, 5}, {.dtype = kF64}).to(dtype);
    const Tensor apart = a.to(kF64).unsqueeze(-2) - b.to(kF64).unsqueeze(-3);
    const Tensor want = sqrt(square(apart).sum({-1})), y = cdist(a, b);
    CHECK(y.dtype() == dtype);
    CHECK(y.shape() == Shape{2, 3, 70, 130});
    CHECK(difference(y, want, tolerance_of(dtype)) == "");
    const int before = num_threads();
    set_num_threads(3);
    CHECK(difference(cdist(a, b), y, 0) == "");
    set_num_threads(before);
  }
  CHECK(difference(cdist(zeros({2, 0}), zeros({3, 0})), zeros({2, 3}), 0) == "");
  const Tensor near = tensor({{1e4f, 1e4f}}), nearer = tensor({{1e4f, 1.0001e4f}});
  CHECK(cdist(near, nearer).item<float>() == 1.0f);
}

TEST_CASE("cdist: long rows, also near ones, and rows that are far from 0") {
  manual_seed(8);
  for (const double shift : {0.0, 3.0, 100.0}) {
    Tensor a = randn({2, 50, 37}) + shift;
    const Tensor b = cat({a.narrow(1, 3, 40), randn({2, 700, 37}) + shift}, 1);
    a.narrow(1, 0, 2).mul_(1e19);
    a[0][4][5].fill_(kNaN), a[0][5][6].fill_(kInf);
    const Tensor apart = a.to(kF64).unsqueeze(-2) - b.to(kF64).unsqueeze(-3);
    const Tensor want = sqrt(square(apart).sum({-1})), y = cdist(a, b);
    for (const int64_t n : {0, 1}) {
      for (int64_t i = 2; i < 50; ++i) {
        CAPTURE(concat(shift, " ", n, " ", i));
        CHECK(difference(y[n][i], want[n][i], 3e-6) == "");
        if (i >= 6 && i < 43) CHECK(y[n][i][i - 3].item<float>() == 0);
      }
    }
    const int before = num_threads();
    set_num_threads(3);
    CHECK(difference(cdist(a, b), y, 0) == "");
    set_num_threads(before);
  }
  for (const DType dtype : {kF32, kF64}) {  // more rows than are at hand at a time
    const Tensor few = randn({7, 64}).to(dtype), many = randn({3000, 64}).to(dtype);
    const Tensor apart = few.to(kF64).unsqueeze(-2) - many.to(kF64).unsqueeze(-3);
    CHECK(difference(cdist(few, many), sqrt(square(apart).sum({-1})), 1e-6) == "");
  }
  // The square of one norm is more than the largest number; that of the distance is not.
  const Tensor large = full({6, 16}, 4.7e18), less = full({64, 16}, 4e17);
  CHECK(difference(cdist(large, less), full({6, 64}, 1.72e19), 1e-5) == "");
}

TEST_CASE("distances: values in every layout") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name);
    const Tensor a = layout.apply(kA), b = layout.apply(kB);
    CHECK(difference(cosine_similarity(a, b), {0.4780914437337575, 0}, 1e-12) == "");
    CHECK(difference(cosine_similarity(a, b, {.dim = 0}),
                     {0.9701425001453319, 0.6643638388299199, -0.49613893835683387}, 1e-12) == "");
    CHECK(difference(pairwise_distance(a, b), {3.3166262979122325, 9.695361158822449}, 1e-12) ==
          "");
    CHECK(difference(pairwise_distance(a, b, {.p = 1, .keepdim = true}), {5.000003, 14.000003},
                     1e-12) == "");
    CHECK(difference(normalize(a),
                     {0.2672612419124244, 0.5345224838248488, 0.8017837257372732,
                      0.4558423058385518, 0.5698028822981898, 0.6837634587578276},
                     1e-12) == "");
    CHECK(difference(normalize(a, {.p = 1, .dim = 0}),
                     {0.2, 0.2857142857142857, 1.0 / 3, 0.8, 0.7142857142857143, 2.0 / 3},
                     1e-12) == "");
    CHECK(difference(cdist(a, b),
                     {3.3166247903554, 6.082762530298219, 8.246211251235321, 9.695359714832659},
                     1e-12) == "");
    CHECK(difference(cdist(a, b, 1), {5, 7, 14, 14}, 1e-12) == "");
    CHECK(difference(cdist(a, b, 3),
                     {3.072316825685847, 6.009245006917366, 7.006796120773448, 9.141787449257912},
                     1e-12) == "");
    CHECK(difference(cdist(a, b, kInf), {3, 6, 6, 9}, 0) == "");
    CHECK(difference(cdist(a, b, 0), {3, 2, 3, 3}, 0) == "");
  }
}

TEST_CASE("distances: shapes, zeros and zero-size") {
  CHECK(cdist(zeros({4, 1, 3, 2}), zeros({5, 7, 2})).shape() == Shape{4, 5, 3, 7});
  CHECK(cdist(zeros({0, 2}), zeros({3, 2})).shape() == Shape{0, 3});
  CHECK(difference(cdist(zeros({2, 0}), zeros({1, 0}), kInf), {0, 0}, 0) == "");
  CHECK(difference(normalize(zeros({2, 3}, {.dtype = kF16})), Values(6, 0), 0) == "");
  CHECK(difference(cosine_similarity(zeros({2, 3}, {.dtype = kF16}), ones({3}, {.dtype = kF16})),
                   {0, 0}, 0) == "");
  CHECK(cosine_similarity(ones({3}), ones({3}), {.dim = 0}).ndim() == 0);
  CHECK(pairwise_distance(zeros({3}), zeros({4, 3})).shape() == Shape{4});
}

TEST_CASE("distances: gradients agree with finite differences, twice") {
  manual_seed(6);
  // Away from 0 and from ties, where |x| and the extremes have corners.
  const Tensor x = f64_in({3, 4}, 0.3, 0.6) * tensor({1.0, -2.0, 4.0, -8.0}, kF64);
  const Tensor y = x + f64_in({3, 4}, 0.3, 0.6) * tensor({-1.0, 2.0, 4.0, -8.0}, kF64);
  // clang-format off
  const GradientCase cases[] = {
      {"vector_norm", [](In in) { return vector_norm(in[0], 3, {1}); }, {x}},
      {"vector_norm 1", [](In in) { return vector_norm(in[0], 1, {0}); }, {x}},
      {"vector_norm 2", [](In in) { return vector_norm(in[0], 2, {0}, {.keepdim = true}); }, {x}},
      {"vector_norm half", [](In in) { return vector_norm(in[0], 0.5); }, {x}},
      {"vector_norm inf", [](In in) { return vector_norm(in[0], kInf, {1}); }, {x}},
      {"vector_norm -inf", [](In in) { return vector_norm(in[0], -kInf, {1}); }, {x}},
      {"normalize", [](In in) { return normalize(in[0], {.p = 3}); }, {x}},
      {"cosine_similarity", [](In in) { return cosine_similarity(in[0], in[1]); }, {x, f64({3, 4})}},
      {"pairwise_distance", [](In in) { return pairwise_distance(in[0], in[1], {.keepdim = true}); }, {x, y}},
      {"cdist", [](In in) { return cdist(in[0], in[1]); }, {f64({3, 4}), f64({2, 4})}},
      {"cdist 3", [](In in) { return cdist(in[0], in[1], 3); }, {x, f64_in({2, 4}, 1.0, 2.0) * tensor({-2.0, 3.0, -4.0, 5.0}, kF64)}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("distances: gradient 0 at 0") {
  for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0, kInf}) {
    CAPTURE(p);
    const Tensor x = zeros({3}, {.dtype = kF64, .requires_grad = true});
    vector_norm(x, p).backward();
    CHECK(x.grad().to_vector<double>() == Values{0, 0, 0});
    const Tensor a = ones({1, 3}, {.dtype = kF64, .requires_grad = true});
    cdist(a, ones({1, 3}, {.dtype = kF64}), p).sum().backward();
    CHECK(a.grad().to_vector<double>() == Values{0, 0, 0});
  }
  for (const Values& values : {Values{0, 0}, Values{0, 3}}) {
    const Tensor x = tensor(values).requires_grad_();
    vector_norm(x, -1).backward();
    CHECK(x.grad().to_vector<double>() == Values{0, 0});
  }
  for (const double p : {0.5, 2.0, 3.0}) {  // also where NaN comes back, as in PyTorch
    CAPTURE(p);
    const Tensor a = ones({1, 3}, {.dtype = kF64, .requires_grad = true});
    cdist(a, ones({1, 3}, {.dtype = kF64}), p).backward(full({1, 1}, kNaN, kF64));
    CHECK(a.grad().to_vector<double>() == Values{0, 0, 0});
  }
}

TEST_CASE("distances: errors name the op and the values") {
  CHECK_THROWS_AS(vector_norm(zeros({2}), kNaN), ValueError);
  CHECK_THROWS_AS(vector_norm(zeros({0}), kInf), ShapeError);
  CHECK_THROWS_WITH_AS(vector_norm(zeros({2}, {.dtype = kI32}), 3),
                       Contains("vector_norm: expected a floating dtype (x: i32[2]@cpu)"),
                       DTypeError);
  CHECK_THROWS_AS(normalize(zeros({2})), IndexError);
  CHECK_THROWS_AS(cosine_similarity(zeros({2, 3}), zeros({2, 4})), ShapeError);
  CHECK_THROWS_AS(pairwise_distance(zeros({2, 3}), zeros({2, 4})), ShapeError);
  CHECK_THROWS_WITH_AS(
      cdist(zeros({2, 3}), zeros({2, 4})),
      Contains("cdist: x1 and x2 must be […,P,D] and […,R,D] (x1: f32[2,3]@cpu, x2: f32[2,4]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(cdist(zeros({2, 3}), zeros({2, 3}), -1), ValueError);
  CHECK_THROWS_AS(cdist(zeros({2, 3}, {.dtype = kI32}), zeros({2, 3})), DTypeError);
}
