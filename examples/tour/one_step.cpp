// One training step in whole numbers: a convolution, a loss, the backward pass, the update. Every
// number below can be checked with pencil and paper. docs/tour/one-step.md walks through it.
#include <lathe/lathe.h>

#include <iostream>

using lathe::Tensor;

static void print(const char* name, const Tensor& t) {
  std::cout << name << '\n';
  for (const Tensor& row : t.reshape({-1, t.size(-1)}).unbind()) {
    for (const double value : row.to_vector<double>()) std::cout << ' ' << value;
    std::cout << '\n';
  }
}

int main() {
  // One image of 3 x 3 pixels with one channel, one filter of 2 x 2, and what we want to see.
  const Tensor x =
      lathe::tensor({{1.0, 2.0, 0.0}, {0.0, 1.0, 3.0}, {2.0, 1.0, 1.0}}).reshape({1, 1, 3, 3});
  const Tensor w = lathe::tensor({{1.0, 0.0}, {-1.0, 2.0}}).reshape({1, 1, 2, 2});
  const Tensor target = lathe::tensor({{2.0, 7.0}, {0.0, 3.0}}).reshape({1, 1, 2, 2});
  lathe::nn::Conv2d layer(1, 1, {.kernel = 2, .bias = false});  // for the end: the same filter
  layer.to(lathe::kF64);
  layer.weight.set_data(w.clone());
  w.requires_grad_();

  const Tensor y = lathe::conv2d(x, w);
  const Tensor error = y - target;
  const Tensor loss = (error * error).sum() * 0.5;
  print("y = conv2d(x, w)", y.detach());
  print("y - target, which is dloss/dy", error.detach());
  std::cout << "loss " << loss.item<double>() << '\n';

  loss.backward();
  print("dloss/dw", w.grad());

  lathe::optim::SGD opt({w}, {.lr = 0.125});
  opt.step();
  print("w after w -= 0.125 dloss/dw", w.detach());
  const Tensor better = lathe::conv2d(x, w) - target;
  std::cout << "loss " << ((better * better).sum() * 0.5).item<double>() << '\n';

  // All of it again, by the object that makes a step (train/step.h).
  lathe::optim::SGD opt2(layer.parameters(), {.lr = 0.125});
  lathe::train::Step step(layer, opt2, [&](const lathe::Tensors& batch) {
    const Tensor e = layer(batch[0]) - batch[1];
    return lathe::train::Result{.loss = (e * e).sum() * 0.5};
  });
  std::cout << "by train::Step: loss " << step({x, target}).loss.item<double>();
  print(", then w", layer.weight.detach());
}
