// What a user's first program does with the library: includes the umbrella, fits a line, prints.
#include <lathe/lathe.h>
#include <cstdio>

int main() {
  lathe::manual_seed(7);
  const lathe::Tensor x = lathe::randn({64, 3});
  const lathe::Tensor y = lathe::sum(x, {1}, {.keepdim = true});
  lathe::nn::Linear line(3, 1);
  lathe::optim::SGD optimizer(line.parameters(), {.lr = 0.1});
  float loss = 0;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const lathe::Tensor error = lathe::mse_loss(line(x), y);
    error.backward();
    optimizer.step();
    loss = error.item<float>();
  }
  std::printf("lathe %s: loss %g\n", lathe::version(), static_cast<double>(loss));
  return loss < 1e-3f ? 0 : 1;
}
