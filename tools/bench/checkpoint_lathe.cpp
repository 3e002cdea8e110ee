// Milliseconds to save and to load a checkpoint of ResNet-18 with momentum, a pair per line.
// Argument: the file. Built and run by compare_checkpoint.py.
#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>

namespace {

template <class F>
double milliseconds(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

int main(int, char** argv) {
  lathe::nn::ResNet model = lathe::nn::resnet18();
  lathe::optim::SGD opt(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  lathe::cross_entropy(model(lathe::randn({2, 3, 32, 32})),
                       lathe::zeros({2}, {.dtype = lathe::DType::kI64}))
      .backward();
  opt.step();
  const lathe::CheckpointParts parts = {{"model", model}, {"optimizer", opt}};
  for (int i = 0; i < 7; ++i) {
    const double save = milliseconds([&] { lathe::save_checkpoint(argv[1], parts); });
    const double load = milliseconds([&] { lathe::load_checkpoint(argv[1], parts); });
    std::printf("%.2f %.2f\n", save, load);
  }
}
