// What people type who come from LibTorch or PyTorch: it compiles, and means what it means there.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <vector>

#include "lathe/lathe.h"
#include "lathe/tests/data/files.h"

using namespace lathe;

namespace {

using Numbers = std::vector<double>;

Numbers values(const Tensor& t) { return t.to_vector<double>(); }

/// [[0, 1, 2], [3, 4, 5]] in f32.
Tensor counted() { return arange(0, 6).to(kF32).view({2, 3}); }

}  // namespace

TEST_CASE("familiar calls: new tensors") {
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(randn({3, 4}, kF64).dtype() == kF64);
  CHECK(ones({2, 2}, requires_grad()).requires_grad());
  CHECK(full({2}, 1.0).dtype() == kFloat32);
  CHECK(tensor({1.0, 2.0}).dtype() == kF32);  // the default dtype …
  CHECK(tensor({1, 2, 3}).dtype() == kLong);  // … and i64, for numbers in braces
  CHECK(tensor(2.5).dtype() == kF32);
  CHECK(tensor({{1.0}, {2.0}}).dtype() == kF32);
  CHECK(tensor({1, 2, 3}, kF32).dtype() == kF32);
  CHECK(tensor({1.0, 2.0}, {.requires_grad = true}).requires_grad());
  CHECK(tensor(std::vector<double>{1.0}).dtype() == kF64);  // a vector keeps its type
  CHECK(randint(0, 10, {15, 1}, {.dtype = kF32}).dtype() == kF32);
  const Tensor x = counted();
  CHECK(x.new_zeros({2}).dtype() == x.dtype());
  CHECK(values(x.new_full({2}, 3)) == Numbers{3, 3});
}

TEST_CASE("familiar calls: what a tensor is") {
  const Tensor x = counted();
  CHECK(x.size(0) == 2);
  CHECK(x.size(-1) == 3);
  CHECK(x.sizes() == Shape{2, 3});
  CHECK(x.dim() == 2);
  CHECK(x.element_size() == 4);
  CHECK(x.is_floating_point());
  CHECK_FALSE(x.is_cuda());
  CHECK(x.data_ptr<float>()[4] == 4);
  CHECK(x.sum().item().to<double>() == 15);
  CHECK(x[0][1].item<float>() == 1);
  std::ostringstream text;
  text << x.shape() << ' ' << x.dtype() << ' ' << x.device();
  CHECK(text.str() == "[2,3] f32 cpu");
  CHECK(x.to("cpu", kF64).dtype() == kF64);
  CHECK(arange(2).type_as(x).dtype() == kF32);
}

TEST_CASE("familiar calls: shapes") {
  const Tensor x = counted();
  CHECK(x.view(-1).shape() == Shape{6});
  CHECK(x.view_as(zeros({3, 2})).shape() == Shape{3, 2});
  CHECK(x.unsqueeze(0).expand({4, -1, -1}).shape() == Shape{4, 2, 3});
  CHECK(x.repeat({2, 2}).shape() == Shape{4, 6});
  CHECK(x.split(1, 1).size() == 3);
  CHECK(x.chunk(2).size() == 2);
  CHECK(x.unbind(0).size() == 2);
  CHECK(x.transpose(-1, -2).softmax(-1).shape() == Shape{3, 2});
  CHECK(values(x.flip({1})) == Numbers{2, 1, 0, 5, 4, 3});
  CHECK(values(x.roll(1, 1)) == Numbers{2, 0, 1, 5, 3, 4});
}

TEST_CASE("familiar calls: operators") {
  Tensor x = counted();
  CHECK(values(x > 3) == Numbers{0, 0, 0, 0, 1, 1});
  CHECK(values(x <= tensor({1, 1, 1})) == Numbers{1, 1, 0, 0, 0, 0});
  CHECK(values(3 > x) == values(x < 3));
  CHECK(values(x == 2) == Numbers{0, 0, 1, 0, 0, 0});
  CHECK(values(x != x) == Numbers(6, 0));
  CHECK(values((x > 1) & (x < 4)) == Numbers{0, 0, 1, 1, 0, 0});
  CHECK(values((!(x > 1)) | (x == 5)) == Numbers{1, 1, 0, 0, 0, 1});
  CHECK_THROWS_AS(x & x, DTypeError);
  const Tensor same = x;
  x += 1;
  x *= 2;
  x -= tensor({1, 1, 1});
  x /= 1;
  CHECK(values(same) == Numbers{1, 3, 5, 7, 9, 11});  // in place: both handles see it
  CHECK(values(2 * x + 1.0f) == Numbers{3, 7, 11, 15, 19, 23});
  CHECK(values(x.mul(x).add(1).sub(x).div(2)) == values((x * x + 1 - x) / 2));
  CHECK(values(max(x, 2 * x)) == values(2 * x));
}

TEST_CASE("familiar calls: reductions take a number for a list, and a bool for keepdim") {
  const Tensor x = counted();
  CHECK(values(x.sum(0)) == Numbers{3, 5, 7});
  CHECK(x.sum({0}, true).shape() == Shape{1, 3});
  CHECK(x.mean(-1, true).shape() == Shape{2, 1});
  CHECK(sum(x, 1, true).shape() == Shape{2, 1});
  CHECK(values(x.var(1)) == Numbers{1, 1});
  CHECK(values(x.max(1).values) == Numbers{2, 5});
  CHECK(x.max(1, true).values.shape() == Shape{2, 1});
  CHECK(values(x.argmax(1)) == Numbers{2, 2});
  CHECK(values(x.topk(2).values) == Numbers{2, 1, 5, 4});
  CHECK(values(x.cumsum(0)) == Numbers{0, 1, 2, 3, 5, 7});
  CHECK(x.abs().max().item<float>() == 5);
  CHECK(values(x.norm()) == Numbers{std::sqrt(55.0f)});
  CHECK(values(x.clamp(1, 4)) == Numbers{1, 1, 2, 3, 4, 4});
}

TEST_CASE("familiar calls: choosing elements") {
  const Tensor x = counted(), chosen = x > 2;
  CHECK(values(x.index({0, 1})) == Numbers{1});
  CHECK(values(x.index({Slice(), 1})) == Numbers{1, 4});
  CHECK(values(x.masked_select(chosen)) == Numbers{3, 4, 5});
  CHECK(values(x.masked_fill(chosen, -1)) == Numbers{0, 1, 2, -1, -1, -1});
  CHECK(values(x.gather(1, tensor({{2, 0}}))) == Numbers{2, 0});
  CHECK(values(x.index_select(0, tensor({1}))) == Numbers{3, 4, 5});
  CHECK(values(x.where(chosen, 0.0)) == Numbers{0, 0, 0, 3, 4, 5});
  CHECK(values(where(chosen, x, 0.0)) == Numbers{0, 0, 0, 3, 4, 5});
}

TEST_CASE("familiar calls: layers and optimisers") {
  nn::Linear fc(3, 4), plain(3, 4, false);
  CHECK(fc(counted()).shape() == Shape{2, 4});
  CHECK_FALSE(plain.bias.defined());
  CHECK(nn::Linear(3, 4)(counted()).shape() == Shape{2, 4});
  nn::Conv2d conv(1, 2, 3);
  CHECK(conv(zeros({1, 1, 5, 5})).shape() == Shape{1, 2, 3, 3});
  CHECK(nn::MaxPool2d(2)(zeros({1, 1, 4, 4})).shape() == Shape{1, 1, 2, 2});
  nn::LayerNorm norm({3});
  CHECK(norm(counted()).shape() == Shape{2, 3});
  CHECK(nn::SmoothL1Loss()(counted(), counted() + 2).item<float>() == 1.5f);
  CHECK(dropout(counted(), 0.5, false).shape() == Shape{2, 3});
  optim::SGD sgd(fc.parameters(), 0.1);
  CHECK(sgd.lr() == 0.1);
  optim::Adam adam(fc.parameters(), optim::AdamOptions{.lr = 1e-3});
  fc(counted()).sum().backward();
  CHECK(nn::utils::clip_grad_norm_(fc.parameters(), 1).item<float>() > 1);
  nn::utils::clip_grad_value_(fc.parameters(), 0.5);
  CHECK(fc.to("cpu", kF64).parameters()[0].dtype() == kF64);
  fc.to(kF32);
  nn::LSTM lstm(3, 4);
  CHECK(lstm(counted()).first.shape() == Shape{2, 4});
  NoGradGuard no_grad;
  CHECK_FALSE(fc(counted()).requires_grad());
}

TEST_CASE("familiar calls: names and arguments that LibTorch has") {
  namespace F = lathe::nn::functional;
  const Tensor x = counted();
  CHECK(values(F::relu(x - 2)) == Numbers{0, 0, 0, 1, 2, 3});
  CHECK(F::softmax(x, 1).shape() == Shape{2, 3});
  CHECK(x.to(kCPU).is_same(x));
  CHECK(kCUDA == Device("cuda:0"));
  CHECK(zeros({2}, x.to(kF64).options()).dtype() == kF64);
  CHECK(values(x % 2) == Numbers{0, 1, 0, 1, 0, 1});
  CHECK(values(-7 % (x + 1)) == Numbers{0, 1, 2, 1, 3, 5});
  CHECK(values((x - 3) % tensor({2, 2, 2})) == Numbers{1, 0, 1, 0, 1, 0});
  CHECK(values((x - 3).remainder(2)) == values((x - 3) % 2));
  CHECK(values((x - 3).fmod(2)) == Numbers{-1, 0, -1, 0, 1, 0});
  CHECK(values(x.lerp(x + 2, 0.5)) == values(x + 1));
  CHECK(x.allclose(x + 1e-9));
  CHECK(x.allclose(x + 1e-3, 0, 1e-2));
  CHECK_FALSE(x.allclose(x + 1e-3));
  CHECK(values(x.diagonal()) == Numbers{0, 4});
  CHECK(values(x.diagonal(1)) == Numbers{1, 5});
  CHECK(arange(0, 10, kF32).dtype() == kF32);
  CHECK(values(arange(1, 6, 2, kF64)) == Numbers{1, 3, 5});
  CHECK(linspace(0, 1, 3, kF64).dtype() == kF64);
  CHECK(values(ones_like(x, kI64)) == Numbers(6, 1));
  CHECK(zeros_like(x, kI64).dtype() == kI64);
  CHECK(values(full_like(x, 2, kU8)) == Numbers(6, 2));
  const Tensor image = arange(0, 16, kF32).view({1, 1, 4, 4});
  CHECK(values(max_pool2d(image, 2)) == Numbers{5, 7, 13, 15});
  CHECK(values(avg_pool2d(image, 2, 2)) == Numbers{2.5, 4.5, 10.5, 12.5});
  CHECK(max_pool2d(image, 3, 2, 1).shape() == Shape{1, 1, 2, 2});
  CHECK(max_pool2d(image, {2}).shape() == Shape{1, 1, 2, 2});
  CHECK(unfold(image, 3).shape() == Shape{1, 9, 4});
  const data::testing::TempDir folder;
  save(x, (folder / "x.npy").string());
  CHECK(equal(npy::read((folder / "x.npy").string()), x));
  CHECK_THROWS_WITH_AS(save(x, (folder / "x.pt").string()), doctest::Contains("must be .npy"),
                       ValueError);
}

TEST_CASE("familiar calls: writes by index, in place and with gradients") {
  const Tensor index = tensor({0, 0, 1});
  Tensor x = zeros({2, 3});
  const Tensor same = x;
  x.index_add_(1, index, ones({2, 3}), 2);
  CHECK(values(same) == Numbers{4, 2, 0, 4, 2, 0});
  x.scatter_add_(1, tensor({{2}, {0}}), ones({2, 1}));
  CHECK(values(same) == Numbers{4, 2, 1, 5, 2, 0});
  x.fill_diagonal_(-1);
  CHECK(values(same) == Numbers{-1, 2, 1, 5, -1, 0});
  const Tensor leaf = ones({2, 3}).requires_grad_();
  Tensor y = leaf * 1;
  y.index_add_(1, index, leaf).fill_diagonal_(0).scatter_add_(0, tensor({{1}}), leaf);
  y.sum().backward();
  CHECK(values(leaf.grad()) == Numbers{1, 1, 2, 2, 1, 1});
  CHECK_THROWS_AS(leaf.index_add_(1, index, ones({2, 3})), StateError);
  CHECK_THROWS_AS(leaf.scatter_add_(0, tensor({{1}}), ones({1, 1})), StateError);
  CHECK_THROWS_AS(zeros(3).fill_diagonal_(1), ShapeError);
}

TEST_CASE("familiar calls: a batch comes apart, whatever holds it") {
  data::Batch batch{.x = counted(), .y = arange(2), .more = {}, .indices = {0, 1}};
  const data::Batch constant = batch;
  const auto make = [&] { return batch; };
  {
    auto [x, y] = batch;
    CHECK(x.is_same(batch.x));
  }
  {
    auto& [x, y] = batch;
    CHECK(y.is_same(batch.y));
  }
  {
    const auto& [x, y] = constant;
    CHECK(x.is_same(batch.x));
  }
  {
    const auto [x, y] = constant;
    CHECK(y.is_same(batch.y));
  }
  {
    auto [x, y] = make();
    CHECK(x.is_same(batch.x));
  }
  {
    auto&& [x, y] = make();
    CHECK(y.is_same(batch.y));
  }
}
