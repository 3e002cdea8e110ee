// mlp and linear with an activation: the bits of the ops that they are made of, gradients against
// finite differences, errors.
#include "lathe/ops/mlp.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const Activation kActivations[] = {Activation::kRelu, Activation::kFastRelu, Activation::kGelu,
                                   Activation::kGeluTanh};

Tensor activate(const Tensor& z, Activation activation) {
  if (is_relu(activation)) return relu(z);
  return gelu(z, {.tanh_approximation = activation == Activation::kGeluTanh});
}

/// Inputs x, w0, bias0, w1, bias1, …; an undefined bias is no input.
std::vector<MlpLayer> layers_of(const Tensors& in) {
  std::vector<MlpLayer> layers;
  for (size_t i = 1; i < in.size();) {
    layers.push_back({in[i++]});
    if (i < in.size() && in[i].ndim() == 1) layers.back().bias = in[i++];
  }
  return layers;
}

/// The definition.
Tensor one_by_one(const Tensors& in, const MlpOptions& options) {
  const std::vector<MlpLayer> layers = layers_of(in);
  Tensor h = in[0];
  for (size_t i = 0; i < layers.size(); ++i) {
    h = linear(h, layers[i].w, layers[i].bias);
    if (i + 1 < layers.size() || options.activate_last) h = activate(h, options.activation);
  }
  return h;
}

Tensors leaves(const Tensors& in) {
  Tensors out;
  for (const Tensor& t : in) {
    out.push_back(t.detach());
    out.back().requires_grad_();
  }
  return out;
}

Tensors random(const std::vector<Shape>& shapes, DType dtype) {
  Tensors out;
  for (const Shape& shape : shapes) out.push_back(randn(shape, {.dtype = dtype}));
  return out;
}

const std::vector<Shape> kThreeLayers = {{4, 3}, {5, 3}, {5}, {6, 5}, {2, 6}, {2}};

}  // namespace

TEST_CASE("mlp: on the CPU the bits of the ops one by one, results and gradients") {
  manual_seed(31);
  for (const Activation activation : kActivations) {
    for (const bool last : {false, true}) {
      for (const DType dtype : {kF32, kF16, kF64}) {
        const MlpOptions options{activation, last};
        const Tensors in = random(kThreeLayers, dtype), a = leaves(in), b = leaves(in);
        const Tensor got = mlp(a[0], layers_of(a), options), want = one_by_one(b, options);
        CHECK(difference(got, want, 0) == "");
        const Tensor dy = randn(got.shape(), {.dtype = dtype});
        got.backward(dy);
        want.backward(dy);
        for (size_t i = 0; i < in.size(); ++i) {
          CHECK_MESSAGE(difference(a[i].grad(), b[i].grad(), 0) == "", "input ", i);
        }
      }
    }
  }
}

TEST_CASE("mlp: gradients agree with finite differences, once and twice") {
  manual_seed(32);
  for (const Activation activation : kActivations) {
    const auto f = [=](const Tensors& in) {
      return mlp(in[0], layers_of(in), {.activation = activation});
    };
    check_gradients({"mlp", f, random({{3, 4}, {3, 4}, {3}, {2, 3}, {2}}, kF64)});
    const auto g = [=](const Tensors& in) { return linear(in[0], in[1], in[2], activation); };
    check_gradients({"linear", g, random({{3, 4}, {2, 4}, {2}}, kF64)});
  }
}

TEST_CASE("mlp: only the gradients that are wanted, down to the lowest of them") {
  manual_seed(33);
  const Tensors in = random(kThreeLayers, kF32);
  for (size_t wanted = 0; wanted < in.size(); ++wanted) {
    const auto gradient = [&](auto f) {
      Tensors args;
      for (const Tensor& t : in) args.push_back(t.detach());
      args[wanted].requires_grad_();
      f(args).sum().backward();
      for (size_t i = 0; i < in.size(); ++i) CHECK(args[i].grad().defined() == (i == wanted));
      return args[wanted].grad();
    };
    const Tensor got = gradient([](const Tensors& t) { return mlp(t[0], layers_of(t)); });
    const Tensor want = gradient([](const Tensors& t) { return one_by_one(t, {}); });
    CHECK(difference(got, want, 0) == "");
  }
}

TEST_CASE("mlp: a result that no gradient reads may be written") {
  const Tensors in = leaves(random({{2, 3}, {4, 3}, {4}}, kF32));
  const auto scaled = [&](Activation activation) {
    return linear(in[0], in[1], in[2], activation).mul_(2.0).sum();
  };
  scaled(Activation::kGelu).backward();
  mlp(in[0], layers_of(in)).mul_(2.0).sum().backward();
  CHECK_THROWS_AS(scaled(Activation::kRelu).backward(), StateError);
}

TEST_CASE("mlp: any number of leading dimensions, and none of something") {
  manual_seed(34);
  const Tensor w = randn({5, 3}), bias = randn({5}), v = randn({2, 5});
  for (const Shape& shape : {Shape{3}, Shape{2, 4, 3}, Shape{0, 3}, Shape{1, 3}}) {
    const Tensors in{randn(shape), w, bias, v};
    CHECK(difference(mlp(in[0], layers_of(in)), one_by_one(in, {}), 0) == "");
  }
  const Tensor nothing =
      linear(zeros({2, 0}), zeros({3, 0}), tensor({1.f, -1.f, 0.f}), Activation::kRelu);
  CHECK(nothing.to_vector<float>() == std::vector<float>{1, 0, 0, 1, 0, 0});
}

TEST_CASE("mlp: computes in the half type of Autocast, with f32 gradients") {
  manual_seed(35);
  const Tensors in = leaves(random(kThreeLayers, kF32));
  Tensor y;
  {
    const Autocast scope(kCPU, kBF16);
    y = mlp(in[0], layers_of(in));
  }
  CHECK(y.dtype() == kBF16);
  CHECK(difference(y, one_by_one(in, {}), 4e-2) == "");  // factors rounded to 2^-8
  y.sum().backward();
  for (const Tensor& t : in) CHECK(t.grad().dtype() == kF32);
}

TEST_CASE("mlp: errors name the layer and the values") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(mlp(x, {}), doctest::Contains("mlp: there is no layer (x: f32[2,3]@cpu)"),
                       ValueError);
  CHECK_THROWS_WITH_AS(
      mlp(x, {{zeros({4, 3})}, {zeros({2, 5})}}),
      doctest::Contains("mlp: w of layer 1 must be [out,4] (w: f32[2,5]@cpu, x: f32[2,3]@cpu)"),
      ShapeError);
  CHECK_THROWS_WITH_AS(linear(x, zeros({4, 3}), zeros({3}), Activation::kRelu),
                       doctest::Contains("linear: bias of layer 0 must be [4]"), ShapeError);
  CHECK_THROWS_AS(mlp(zeros({}), {{zeros({1, 1})}}), ShapeError);
  CHECK_THROWS_AS(mlp(x, {{zeros({4, 3}, {.dtype = kF64})}}), DTypeError);
}
