// What a user's first program does with the library: includes the umbrella, fits a line, prints.
#include <lathe/lathe.h>
#include <unistd.h>
#include <cstdio>
#include <string>
#include <vector>

std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** each = environ; *each; ++each) variables.push_back(*each);
  return variables;
}

int main() {
  const std::vector<std::string> before = environment();
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
  lathe::set_num_threads(2);
  lathe::matmul(lathe::ones({256, 256}), lathe::ones({256, 256}));  // oneDNN's, where that is on
  if (environment() != before) {
    std::printf("the environment has changed\n");
    return 1;
  }
  std::printf("lathe %s: loss %g\n", lathe::version(), static_cast<double>(loss));
  return loss < 1e-3f ? 0 : 1;
}
