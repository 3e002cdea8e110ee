// embedding_bag against a loop over the bags.
#include "lathe/ops/embedding_bag.h"

#include <algorithm>
#include <limits>

#include "compare.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/index.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using In = const Tensors&;
using Numbers = std::vector<int64_t>;
using Values = std::vector<double>;
using Mode = EmbeddingBagMode;
constexpr int64_t kRows = 7, kColumns = 3;

/// Bags of rows of `table` [7,3]. A row's factor is factors[k]; the index `padding` is left out.
Values by_loop(const Values& table, const std::vector<Numbers>& bags, Mode mode,
               const Values& factors, int64_t padding) {
  Values out;
  for (const Numbers& bag : bags) {
    for (int64_t column = 0; column < kColumns; ++column) {
      Values of_bag;
      size_t k = 0;
      for (const Numbers& before : bags) {
        if (&before == &bag) break;
        k += before.size();
      }
      for (const int64_t row : bag) {
        const double factor = factors.empty() ? 1 : factors[k];
        ++k;
        if (row == padding) continue;
        of_bag.push_back(factor * table[static_cast<size_t>(row * kColumns + column)]);
      }
      double y = 0;
      for (const double v : of_bag) y += v;
      const auto count = static_cast<double>(std::max<size_t>(of_bag.size(), 1));
      if (mode == Mode::kMean) y /= count;
      if (mode == Mode::kMax) y = of_bag.empty() ? 0 : *std::ranges::max_element(of_bag);
      out.push_back(y);
    }
  }
  return out;
}

const std::vector<Numbers> kBags = {{1, 4, 4}, {}, {6, 2, 0, 3, 1}, {2}, {5, 5}, {}};
const Numbers kIndex = {1, 4, 4, 6, 2, 0, 3, 1, 2, 5, 5}, kOffsets = {0, 3, 3, 8, 9, 11};
const std::vector<Numbers> kEvenBags = {{1, 4, 4}, {6, 2, 0}, {5, 5, 5}};
const Tensor kEvenIndex = tensor({{1, 4, 4}, {6, 2, 0}, {5, 5, 5}});

}  // namespace

TEST_CASE("embedding_bag: every mode, in every layout and dtype, on every device") {
  manual_seed(31);
  const Tensor weight = f64({kRows, kColumns}), factors = f64({11}), even = f64({3, 3});
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor rounded = weight.to(dtype);
      const Values table = rounded.to_vector<double>();
      for (const Layout& layout : layouts()) {
        const Tensor w = layout.apply(rounded).to(device);
        const Tensor index = layout.apply(tensor(kIndex)).to(device);
        const Tensor offsets = layout.apply(tensor(kOffsets)).to(device);
        const auto agrees = [&](const Tensor& y, const Values& want) {
          CHECK(y.dtype() == dtype);
          CHECK(difference(y.cpu(), want, tolerance_of(dtype)) == "");
        };
        for (const Mode mode : {Mode::kSum, Mode::kMean, Mode::kMax}) {
          CAPTURE(concat(static_cast<int>(mode), " ", w, " ", layout.name));
          EmbeddingBagOptions o{.offsets = offsets, .mode = mode};
          agrees(embedding_bag(w, index, o), by_loop(table, kBags, mode, {}, -1));
          o.offsets = offsets.to(kI32);
          agrees(embedding_bag(w, index.to(kI32), o), by_loop(table, kBags, mode, {}, -1));
          o.padding_index = 4;
          agrees(embedding_bag(w, index, o), by_loop(table, kBags, mode, {}, 4));
          o.padding_index = -2;  // row 5, all of a bag
          agrees(embedding_bag(w, index, o), by_loop(table, kBags, mode, {}, 5));
          const Tensor by_rows = layout.apply(kEvenIndex).to(device);
          agrees(embedding_bag(w, by_rows, {.mode = mode}),
                 by_loop(table, kEvenBags, mode, {}, -1));
          agrees(embedding_bag(w, by_rows, {.mode = mode, .padding_index = 5}),
                 by_loop(table, kEvenBags, mode, {}, 5));
        }
        const Tensor f = layout.apply(factors.to(dtype)).to(device);
        const Tensor e = layout.apply(even.to(dtype)).to(device);
        agrees(embedding_bag(w, index,
                             {.offsets = offsets,
                              .mode = Mode::kSum,
                              .per_sample_weights = f,
                              .padding_index = 1}),
               by_loop(table, kBags, Mode::kSum, f.cpu().to_vector<double>(), 1));
        agrees(
            embedding_bag(w, kEvenIndex.to(device), {.mode = Mode::kSum, .per_sample_weights = e}),
            by_loop(table, kEvenBags, Mode::kSum, e.cpu().to_vector<double>(), -1));
      }
    }
  }
}

TEST_CASE("embedding_bag: the last offset may end the last bag, and bags may be empty") {
  const Tensor weight = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}, kF64);
  const Tensor index = tensor({0, 1, 2, 2});
  const auto of = [&](const Numbers& offsets, Mode mode) {
    const Tensor list = offsets.empty() ? zeros({0}, kI64) : tensor(offsets);
    return embedding_bag(weight, index,
                         {.offsets = list, .mode = mode, .include_last_offset = true});
  };
  CHECK(difference(of({0, 2, 4}, Mode::kSum), {4, 6, 10, 12}, 0) == "");
  CHECK(difference(of({0, 2, 3}, Mode::kSum), {4, 6, 5, 6}, 0) == "");  // the last is in no bag
  CHECK(difference(of({0, 2, 3}, Mode::kMean), {2, 3, 5, 6}, 0) == "");
  CHECK(difference(of({0, 0, 1}, Mode::kMax), {0, 0, 1, 2}, 0) == "");
  CHECK(of({0}, Mode::kSum).shape() == Shape{0, 2});
  const Tensor none = zeros({0}, kI64);
  for (const Mode mode : {Mode::kSum, Mode::kMean, Mode::kMax}) {
    CHECK(embedding_bag(weight, none, {.offsets = none, .mode = mode}).shape() == Shape{0, 2});
    CHECK(difference(embedding_bag(weight, none, {.offsets = tensor({0, 0}), .mode = mode}),
                     {0, 0, 0, 0}, 0) == "");
    CHECK(difference(embedding_bag(weight, zeros({2, 0}, kI64), {.mode = mode}), {0, 0, 0, 0}, 0) ==
          "");
  }
}

TEST_CASE("embedding_bag: bags of a table without rows are zeros") {
  for (const Mode mode : {Mode::kSum, Mode::kMean, Mode::kMax}) {
    const Tensor none = zeros({0, 3}).requires_grad_();
    const Tensor y =
        embedding_bag(none, zeros({0}, kI64), {.offsets = tensor({0, 0}), .mode = mode});
    CHECK(difference(y.detach(), {0, 0, 0, 0, 0, 0}, 0) == "");
    y.sum().backward();
    CHECK(none.grad().shape() == Shape{0, 3});
  }
}

TEST_CASE("embedding_bag: the factors' gradient has blocks of columns, too") {
  manual_seed(36);
  constexpr int64_t kWidth = 64 + 16 + 3;
  const Tensor index = randint(0, 9, {6, 5}), weight = f64({9, kWidth}), dy = f64({6, kWidth});
  for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
    const Tensor table = weight.to(dtype), g = dy.to(dtype);
    const Tensor factors = f64({6, 5}).to(dtype).requires_grad_();
    embedding_bag(table, index, {.mode = Mode::kSum, .per_sample_weights = factors}).backward(g);
    const Tensor rows = index_select(table.to(kF64), 0, reshape(index, {30}));
    const Tensor want =
        sum(mul(reshape(rows, {6, 5, kWidth}), reshape(g.to(kF64), {6, 1, kWidth})), {2});
    const double most = dtype == kF64 ? 1e-12 : dtype == kF32 ? 1e-4 : 0.2;
    CHECK(difference(factors.grad().to(kF64), want.to_vector<double>(), most) == "");
  }
}

TEST_CASE("embedding_bag: gradients agree with finite differences, twice") {
  manual_seed(32);
  const Tensor weight = reshape(randperm(21).to(kF64) * 0.25 - 2.0, {kRows, kColumns});
  const Tensor index = tensor(kIndex), offsets = tensor(kOffsets), factors = f64({11});
  const auto with = [&](In in, EmbeddingBagOptions o) {
    o.offsets = beside(in, offsets);
    return embedding_bag(in[0], beside(in, index), o);
  };
  // clang-format off
  const GradientCase cases[] = {
      {"embedding_bag sum", [&](In in) { return with(in, {.mode = Mode::kSum, .padding_index = 2}); }, {weight}},
      {"embedding_bag mean", [&](In in) { return with(in, {.padding_index = 4}); }, {weight}},
      {"embedding_bag factors", [&](In in) { return with(in, {.mode = Mode::kSum, .per_sample_weights = in[1]}); }, {weight, factors}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
  const Function largest = [&](In in) { return with(in, {.mode = Mode::kMax}); };
  for (const Layout& layout : layouts()) {  // equal rows of an expanded weight are a kink
    check_differences({"embedding_bag max", largest, {}}, layout.name, largest,
                      {layout.apply(weight)});
  }
  const GradReport twice = gradgradcheck([&](In in) { return square(largest(in)); }, {weight});
  CHECK_MESSAGE(twice.ok, twice.text);
}

TEST_CASE("embedding_bag: the first of equal rows gets the gradient, padding gets none") {
  const Tensor weight = tensor({{1.0}, {3.0}, {3.0}, {9.0}}, kF64).requires_grad_();
  const Tensor index = tensor({{0, 2, 1, 3}});
  embedding_bag(weight, index, {.mode = Mode::kMax, .padding_index = 3}).sum().backward();
  CHECK(difference(weight.grad(), {0, 0, 1, 0}, 0) == "");
  weight.set_grad({});
  embedding_bag(weight, index, {.padding_index = 3}).sum().backward();
  CHECK(difference(weight.grad(), {1.0 / 3, 1.0 / 3, 1.0 / 3, 0}, 1e-12) == "");
}

TEST_CASE("embedding_bag: rows of bags give what their offsets give, gradients of ties too") {
  manual_seed(33);
  const Tensor index = randint(0, 5, {6, 4}), offsets = arange(6) * 4;
  const Tensor dy = f64({6, kColumns});
  for (const Device device : devices()) {
    for (const Mode mode : {Mode::kSum, Mode::kMean, Mode::kMax}) {
      CAPTURE(concat(static_cast<int>(mode), " on ", device));
      // Rows 0 and 1, and 2 and 3, are equal.
      const Tensor rows = randint(0, 3, {3, kColumns});
      const Tensor w = rows.index_select(0, tensor({0, 0, 1, 1, 2})).to(kF64);
      const auto grad = [&](const Tensor& at, const EmbeddingBagOptions& o, Tensor& y) {
        const Tensor leaf = w.to(device).detach().clone().requires_grad_();
        y = embedding_bag(leaf, at.to(device), o);
        y.backward(dy.to(device));
        return leaf.grad().cpu();
      };
      Tensor even, listed;
      const Tensor of_even = grad(index, {.mode = mode}, even);
      const Tensor of_listed =
          grad(index.flatten(), {.offsets = offsets.to(device), .mode = mode}, listed);
      CHECK(difference(even.detach().cpu(), listed.detach().cpu(), 1e-12) == "");
      CHECK(difference(of_even, of_listed, 1e-12) == "");
    }
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensor w = tensor({{1.0}, {kNan}}, kF64);
  CHECK(difference(embedding_bag(w, tensor({{0, 1}, {0, 0}}), {.mode = Mode::kMax}), {kNan, 1},
                   0) == "");
}

TEST_CASE("embedding_bag: a NaN in the padding row reaches no gradient") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const Device device : devices()) {
    CAPTURE(device);
    const Tensor weight = tensor({{1.0, 2.0}, {kNan, kNan}}, kF64).to(device).requires_grad_();
    const Tensor factors = tensor({{2.0, 3.0}}, kF64).to(device).requires_grad_();
    const Tensor y =
        embedding_bag(weight, tensor({{0, 1}}).to(device),
                      {.mode = Mode::kSum, .per_sample_weights = factors, .padding_index = 1});
    CHECK(difference(y.detach().cpu(), {2, 4}, 0) == "");
    y.sum().backward();
    CHECK(difference(factors.grad().cpu(), {3, 0}, 0) == "");
    CHECK(difference(weight.grad().cpu(), {2, 2, 0, 0}, 0) == "");
  }
}

TEST_CASE("embedding_bag: a column's values and gradients do not depend on the columns beside it") {
  manual_seed(34);
  constexpr int64_t kTable = 40, kWidth = 64 + 16 + 2 * 4 + 3, kCount = 60;  // loops have blocks
  const Tensor index = randint(0, kTable, {kCount, 12}), weight = f64({kTable, kWidth});
  const Tensor factors = f64({kCount, 12}), dy = f64({kCount, kWidth});
  for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
    for (const Mode mode : {Mode::kSum, Mode::kMean, Mode::kMax}) {
      CAPTURE(concat(dtype, " ", static_cast<int>(mode)));
      EmbeddingBagOptions o{.mode = mode, .padding_index = 5};
      if (mode == Mode::kSum) o.per_sample_weights = factors.to(dtype);
      const auto of = [&](const Tensor& table, const Tensor& gradient) {
        const Tensor leaf = table.to(dtype).detach().clone().requires_grad_();
        const Tensor y = embedding_bag(leaf, index, o);
        y.backward(gradient.to(dtype));
        return Tensors{y.detach(), leaf.grad()};
      };
      const Tensors all = of(weight, dy);
      for (int64_t c = 0; c < kWidth; ++c) {
        const Tensors alone = of(weight.narrow(1, c, 1), dy.narrow(1, c, 1));
        for (size_t k = 0; k < 2; ++k) {
          REQUIRE(difference(all[k].narrow(1, c, 1), alone[k], 0) == "");
        }
      }
    }
  }
}

TEST_CASE("embedding_bag: the bits do not depend on the number of threads") {
  manual_seed(35);
  const Tensor index = randint(0, 300, {4000}), offsets = arange(0, 4000, 10);
  const Tensor weight = f64({300, 70}).to(kF32), factors = f64({4000}).to(kF32);
  const Tensor dy = f64({400, 70}).to(kF32);
  const int before = num_threads();
  for (const Mode mode : {Mode::kSum, Mode::kMean, Mode::kMax}) {
    const auto run = [&](int threads) {
      set_num_threads(threads);
      const Tensor w = weight.clone().requires_grad_(), f = factors.clone().requires_grad_();
      EmbeddingBagOptions o{.offsets = offsets, .mode = mode};
      if (mode == Mode::kSum) o.per_sample_weights = f;
      const Tensor y = embedding_bag(w, index, o);
      y.backward(dy);
      return Tensors{y.detach(), w.grad(), mode == Mode::kSum ? f.grad() : w.grad()};
    };
    const Tensors one = run(1), three = run(3);
    set_num_threads(before);
    for (size_t k = 0; k < 3; ++k) CHECK(difference(three[k], one[k], 0) == "");
  }
}

TEST_CASE("embedding_bag: sums and the gradient of a row are added up in the order of the index") {
  const std::vector<float> parts{1e8f, -1e8f, 1.f};  // from the back 0, from the front 1
  const Tensor values = reshape(tensor(parts), {3, 1});
  CHECK(embedding_bag(values, tensor({{0, 1, 2}}), {.mode = Mode::kSum}).item<float>() == 1);
  const Tensor weight = zeros({2, 1}).requires_grad_();
  embedding_bag(weight, tensor({{1}, {1}, {1}}), {.mode = Mode::kSum}).backward(values);
  CHECK(difference(weight.grad(), {0, 1}, 0) == "");
}

TEST_CASE("embedding_bag: under a watcher, which sees other ops, the bits are the same") {
  struct Watcher : profile::Watcher {};
  manual_seed(36);
  const Tensor weight = f64({kRows, kColumns}), dy = f64({6, kColumns});
  for (const Mode mode : {Mode::kSum, Mode::kMean, Mode::kMax}) {
    const auto run = [&] {
      const Tensor w = weight.clone().requires_grad_();
      const EmbeddingBagOptions o{.offsets = tensor(kOffsets), .mode = mode, .padding_index = 4};
      const Tensor y = embedding_bag(w, tensor(kIndex), o);
      y.backward(dy);
      return Tensors{y.detach(), w.grad()};
    };
    const Tensors plain = run();
    const Watcher watcher;
    const Tensors watched = run();
    for (size_t k = 0; k < 2; ++k) CHECK(difference(watched[k], plain[k], 0) == "");
  }
}

TEST_CASE("embedding_bag: an index that is written before the backward pass is an error") {
  for (const Mode mode : {Mode::kSum, Mode::kMean}) {
    const Tensor weight = f64({3, 2}).requires_grad_(), index = tensor({{0, 1}, {2, 2}});
    const Tensor y = embedding_bag(weight, index, {.mode = mode}).sum();
    index.zero_();
    CHECK_THROWS_WITH_AS(y.backward(), Contains("modified by an in-place operation"), StateError);
  }
}

TEST_CASE("embedding_bag: errors name the op and the values") {
  const Tensor w = zeros({3, 2}), index = tensor({0, 1, 2}), offsets = tensor({0, 2});
  const auto with = [&](const Tensor& at) { return embedding_bag(w, index, {.offsets = at}); };
  CHECK_THROWS_WITH_AS(embedding_bag(w, tensor({{0, 3}})),
                       Contains("embedding_bag: index 3 at [1] is outside [0, 3)"), IndexError);
  CHECK_THROWS_WITH_AS(embedding_bag(w, index), Contains("embedding_bag: index must be [B,K]"),
                       ShapeError);
  CHECK_THROWS_AS(embedding_bag(w, tensor({{0, 1}}), {.offsets = offsets}), ShapeError);
  CHECK_THROWS_WITH_AS(with(tensor({0, 2, 1})),
                       Contains("offsets must ascend from 0 to at most 3, got 1 in place 2"),
                       ValueError);
  CHECK_THROWS_AS(with(tensor({1, 2})), ValueError);
  CHECK_THROWS_AS(with(tensor({0, 4})), ValueError);
  CHECK_THROWS_AS(with(zeros({0}, kI64)), ValueError);
  CHECK_THROWS_AS(with(tensor({0.0})), DTypeError);
  CHECK_THROWS_AS(with(tensor({{0}})), ShapeError);
  CHECK_THROWS_WITH_AS(
      embedding_bag(w, index, {.offsets = offsets, .per_sample_weights = ones({3})}),
      Contains("per_sample_weights need the mode kSum"), ValueError);
  const auto weighted = [&](const Tensor& f) {
    return embedding_bag(w, index,
                         {.offsets = offsets, .mode = Mode::kSum, .per_sample_weights = f});
  };
  CHECK_THROWS_AS(weighted(ones({2})), ShapeError);
  CHECK_THROWS_AS(weighted(ones({3}, kF64)), DTypeError);
  CHECK_THROWS_WITH_AS(embedding_bag(w, index, {.offsets = offsets, .padding_index = 3}),
                       Contains("padding_index 3 is outside [-3, 3)"), IndexError);
  CHECK_THROWS_AS(embedding_bag(zeros({3}), index, {.offsets = offsets}), ShapeError);
  CHECK_THROWS_AS(embedding_bag(w, ones({1, 2})), DTypeError);
  CHECK_THROWS_AS(embedding_bag(zeros({3, 2}, kI64), index, {.offsets = offsets}), DTypeError);
  CHECK_THROWS_AS(embedding_bag(w, tensor({{0}}), {.include_last_offset = true}), ValueError);
  if (!cuda_is_available()) return;
  const Device gpu = kCUDA;
  CHECK_THROWS_WITH_AS(
      embedding_bag(w.to(gpu), index.to(gpu), {.offsets = tensor({1, 2}).to(gpu)}).cpu(),
      Contains("embedding_bag: index -1 at position 0 is outside [0, 3)"), IndexError);
}
