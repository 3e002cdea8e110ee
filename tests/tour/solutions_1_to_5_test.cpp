// Solutions of the exercises of docs/tour, chapters 1 to 5: tensor, tape, op, convolution, batch
// norm. Each case is named after its exercise. Chapters 6 to 10: solutions_6_to_10_test.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "lathe/autograd/meta.h"
#include "lathe/lathe.h"
#include "lathe/ops/autocast.h"

namespace lathe::test {
namespace {

using autograd::Edge;
using autograd::Needs;
using autograd::Node;

double largest_difference(const Tensor& a, const Tensor& b) {
  return (a - b).abs().amax().item<double>();
}

// --- 1: tensor -----------------------------------------------------------------------------------

TEST_CASE("tour 1.1: a permuted tensor has permuted strides") {
  const Tensor x = zeros({2, 3, 4});
  REQUIRE(x.strides() == Strides{12, 4, 1});
  const Tensor y = x.permute({2, 0, 1});
  CHECK(y.shape() == Shape{4, 2, 3});
  CHECK(y.strides() == Strides{1, 12, 4});
  CHECK(y.shares_storage(x));
}

TEST_CASE("tour 1.2: the diagonal is a view with the stride columns + 1") {
  const Tensor x = arange(16, kF32).reshape({4, 4});
  const Tensor diagonal = as_strided(x, {4}, {5}, 0);
  CHECK(diagonal.to_vector<int64_t>() == std::vector<int64_t>{0, 5, 10, 15});
  diagonal.fill_(-1);
  CHECK(x[2][2].item<float>() == -1);
  CHECK(x.sum().item<float>() == 120 - 30 - 4);
}

/// True if the strides are those of row-major order; a dimension of size 1 is never stepped along.
bool is_row_major(const Tensor& t) {
  int64_t expected = 1;
  for (int d = t.ndim() - 1; d >= 0; --d) {
    if (t.dim(d) != 1 && t.stride(d) != expected) return false;
    expected *= t.dim(d);
  }
  return true;
}

TEST_CASE("tour 1.3: row-major order is a property of the strides alone") {
  const Tensor x = zeros({3, 4, 5});
  for (const Tensor& t :
       {x, x[1], x.transpose(0, 2), x.slice(0, 1, 3), x.slice(1, 0, 2), x.slice(2, 0, 5, 2),
        x.narrow(1, 2, 1).squeeze(1), x.slice(0, 1, 2).slice(1, 0, 4), x.unsqueeze(1)})
    CHECK(is_row_major(t) == t.is_contiguous());
}

// --- 2: the tape ---------------------------------------------------------------------------------

TEST_CASE("tour 2.1: an op runs once, with the sum of its gradients") {
  const Tensor w = tensor(3.f);
  w.requires_grad_();
  const Tensor h = w * 2;
  int calls = 0;
  h.register_hook([&](const Tensor& dy) {
    ++calls;
    CHECK(dy.item<float>() == 13);  // 2h + 1
    return Tensor();
  });
  (h * h + h).backward();
  CHECK(calls == 1);
  CHECK(w.grad().item<float>() == 26);
}

/// dloss/dw by counting consumers: an op runs when all that used its result have run.
Tensor by_counting(const Tensor& loss, const Tensor& w) {
  std::map<Node*, int> waiting;
  std::vector<Node*> all{loss.impl().meta->grad_fn.get()};
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Edge& edge : all[i]->edges) {
      if (edge.node && waiting[edge.node.get()]++ == 0) all.push_back(edge.node.get());
    }
  }
  std::map<Node*, Tensor> gradients{{all[0], ones({})}};
  Tensor dw = zeros({});
  std::vector<Node*> ready{all[0]};
  const NoGrad off;
  while (!ready.empty()) {
    Node* const node = ready.back();
    ready.pop_back();
    const Tensors dx = node->run({gradients[node]}, Needs(node->edges));
    for (size_t i = 0; i < node->edges.size(); ++i) {
      const Edge& edge = node->edges[i];
      if (edge.leaf.get() == &w.impl()) dw = dw + dx[i];
      if (!edge.node) continue;
      Tensor& sum = gradients[edge.node.get()];
      sum = sum.defined() ? sum + dx[i] : dx[i];
      if (--waiting[edge.node.get()] == 0) ready.push_back(edge.node.get());
    }
  }
  return dw;
}

TEST_CASE("tour 2.2: counting consumers is another valid order") {
  const Tensor w = tensor(3.f);
  w.requires_grad_();
  const Tensor h = w * 2;
  const Tensor loss = h * h + h * w;
  const Tensor dw = by_counting(loss, w);
  loss.backward();
  CHECK(dw.item<float>() == w.grad().item<float>());
  CHECK(dw.item<float>() == 2 * 6 * 2 + (2 * 3 + 6));
}

TEST_CASE("tour 2.3: detach cuts an edge") {
  const Tensor w = tensor(3.f);
  w.requires_grad_();
  const Tensor h = w * 2;
  (h * h.detach()).backward();  // the second factor is a constant 6
  CHECK(w.grad().item<float>() == 12);
}

// --- 3: an op ------------------------------------------------------------------------------------

/// x / (1 + x²): made of ops, so the gradient comes by itself.
Tensor witch(const Tensor& x) { return x / (x.square() + 1); }

TEST_CASE("tour 3.1: an op made of ops has a gradient") {
  const auto f = [](const Tensors& in) { return witch(in[0]).square(); };
  const Tensors at{tensor({-2.0, -0.3, 0.7, 3.0}, kF64)};
  CHECK(gradcheck(f, at));
  CHECK(gradgradcheck(f, at));
  const Tensor x = ones({1});
  x.requires_grad_();
  CHECK(witch(x).grad_fn() == "div");  // the last of the ops; no op is called witch
}

/// exp, whose gradient is written with its output: dx = dy · y. It saves y and not x.
Tensor own_exp(const Tensor& x) {
  const Tensor y = [&] {
    const NoGrad off;
    return exp(x);
  }();
  autograd::record("own_exp", y, {x},
                   [y = autograd::SavedOutput(y)](const Tensor& dy, const Needs&) {
                     return Tensors{dy * y.get()};
                   });
  return y;
}

TEST_CASE("tour 3.2: an op that saves its output, and notices when it was changed") {
  const auto f = [](const Tensors& in) { return own_exp(in[0]).square(); };
  CHECK(gradcheck(f, {tensor({-1.0, 0.5}, kF64)}));
  CHECK(gradgradcheck(f, {tensor({-1.0, 0.5}, kF64)}));
  const Tensor x = ones({2});
  x.requires_grad_();
  const Tensor y = own_exp(x);
  {
    const NoGrad off;
    y.mul_(2);  // the version rises: what the gradient needs is gone
  }
  CHECK_THROWS_AS(y.sum().backward(), StateError);
}

TEST_CASE("tour 3.3: gradcheck names the element of a wrong gradient") {
  const auto wrong_cube = [](const Tensor& x) {
    const Tensor y = x.detach() * x.detach() * x.detach();
    autograd::record("wrong_cube", y, {x},
                     [x = autograd::Saved(x)](const Tensor& dy, const Needs&) {
                       return Tensors{dy * 3 * x.get()};  // should be x²
                     });
    return y;
  };
  const GradReport report = gradcheck([&](const Tensors& in) { return wrong_cube(in[0]).square(); },
                                      {tensor({1.0, 2.0}, kF64)});
  CHECK(!report.ok);
  CHECK(report.text.find("element [1]") != std::string::npos);  // at x = 1 both are right
}

// --- 4: convolution ------------------------------------------------------------------------------

struct ConvExample {
  Tensor x = randint(-3, 4, {2, 3, 5, 5}).to(kF32), w = randint(-3, 4, {4, 3, 3, 3}).to(kF32),
         dy = randint(-3, 4, {2, 4, 5, 5}).to(kF32);
};
const UnfoldOptions kWindows{.kernel = 3, .pad = 1};

TEST_CASE("tour 4.1: the filter's gradient is a product of dy and the columns") {
  const ConvExample e;
  const Tensor columns = unfold(e.x, kWindows);  // [2,27,25]
  const Tensor dw = matmul(e.dy.reshape({2, 4, 25}), columns.transpose(1, 2)).sum({0});  // [4,27]
  const Tensor library = conv2d_weight_grad(e.dy, e.x, e.w.shape(), {.pad = 1});
  CHECK(largest_difference(dw.reshape({4, 3, 3, 3}), library) == 0);
}

TEST_CASE("tour 4.2: the input's gradient is folded back from columns") {
  const ConvExample e;
  const Tensor columns = matmul(e.w.reshape({4, 27}).t(), e.dy.reshape({2, 4, 25}));
  const Tensor dx = fold(columns, {5, 5}, kWindows);
  const Tensor library = conv2d_input_grad(e.dy, e.w, e.x.shape(), {.pad = 1});
  CHECK(largest_difference(dx, library) == 0);
}

TEST_CASE("tour 4.3: a 1x1 convolution needs no columns") {
  const ConvExample e;
  const Tensor w = randint(-3, 4, {4, 3, 1, 1}).to(kF32);
  CHECK(unfold(e.x, {.kernel = 1}).numel() == e.x.numel());
  const Tensor y = matmul(w.reshape({4, 3}), e.x.reshape({2, 3, 25})).reshape({2, 4, 5, 5});
  CHECK(largest_difference(y, conv2d(e.x, w)) == 0);
}

// --- 5: batch norm -------------------------------------------------------------------------------

struct NormExample {
  Tensor x = randn({4, 3, 5, 5}, kF64), dy = randn({4, 3, 5, 5}, kF64),
         weight = tensor({0.5, 1.0, 2.0}, kF64), bias = tensor({0.1, -0.2, 0.3}, kF64),
         mean = tensor({0.3, 0.0, -0.5}, kF64), var = tensor({1.5, 0.7, 2.0}, kF64);
  NormExample() { x.requires_grad_(); }
};
/// One number per channel, for arithmetic with [N,C,H,W].
Tensor spread(const Tensor& t) { return t.reshape({1, 3, 1, 1}); }

TEST_CASE("tour 5.1: in evaluation the gradient is dy times a constant") {
  const NormExample e;
  batch_norm(e.x, e.weight, e.bias, e.mean, e.var, {.eps = 1e-5}).backward(e.dy);
  const Tensor expected = e.dy * spread(e.weight / (e.var + 1e-5).sqrt());
  CHECK(largest_difference(e.x.grad(), expected) < 1e-12);
}

TEST_CASE("tour 5.2: the fused relu computes what two ops compute") {
  const NormExample e;
  const BatchNormOptions training{.training = true};
  const Tensor fused = batch_norm_relu(e.x, e.weight, e.bias, {}, {}, training);
  const Tensor two = relu(batch_norm(e.x, e.weight, e.bias, {}, {}, training));
  CHECK(largest_difference(fused.detach(), two.detach()) < 1e-12);
  const Tensor a = grad({fused}, {e.x}, {.grad_outputs = {e.dy}})[0];
  const Tensor b = grad({two}, {e.x}, {.grad_outputs = {e.dy}})[0];
  CHECK(largest_difference(a, b) < 1e-12);

  // The chapter's program has five values of one channel. Only the last y is above 0.
  const Tensor x = tensor({{1.}, {2.}, {4.}, {4.}, {9.}}, kF64);
  const Tensor dy = tensor({{-1.}, {0.}, {0.}, {1.}, {2.}}, kF64);
  const Tensor dx = tensor({{0.14128}, {0.04582}, {-0.14510}, {-0.14510}, {0.10309}}, kF64);
  x.requires_grad_();
  batch_norm_relu(x, {}, {}, {}, {}, training).backward(dy);
  CHECK(largest_difference(x.grad(), dx) < 1e-5);
}

TEST_CASE("tour 5.3: in evaluation a batch norm can be folded into the convolution before it") {
  const NormExample e;
  const NoGrad off;
  const Tensor w = randn({3, 3, 3, 3}, kF64);
  const Tensor two = batch_norm(conv2d(e.x, w, {.pad = 1}), e.weight, e.bias, e.mean, e.var);
  const Tensor scale = e.weight / (e.var + 1e-5).sqrt();
  const Tensor folded =
      conv2d(e.x, w * scale.reshape({3, 1, 1, 1}), {.bias = e.bias - e.mean * scale, .pad = 1});
  CHECK(largest_difference(two, folded) < 1e-12);
}

}  // namespace
}  // namespace lathe::test
