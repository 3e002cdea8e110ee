// Training steps of a program from a .pt2 file. Reads a number of steps per line and answers with
// the seconds of one. Built and run by compare_programs.py.
//   program_steps_lathe FILE SHAPE off|bf16 THREADS
// SHAPE is that of images or sequences, "16,3,64,64", or of words, "words:16,64".
#include <lathe/lathe.h>
#include <lathe/train.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

using namespace lathe;

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  std::string text = argv[2];
  const bool words = text.starts_with("words:");
  if (words) text.erase(0, 6);
  Shape shape;
  std::stringstream numbers(text);
  for (std::string number; std::getline(numbers, number, ',');) shape.push_back(std::stoll(number));
  set_num_threads(std::atoi(argv[4]));
  manual_seed(0);
  jit::Program model = jit::load_program(argv[1]);
  model.train();
  optim::SGD sgd(model.parameters(), {.lr = 1e-3, .momentum = 0.9});
  train::Step step(
      model, sgd,
      [&](const Tensors& batch) {
        const Tensor y = model(batch[0]);
        return train::Result{.loss =
                                 y.ndim() == 2 ? cross_entropy(y, batch[1]) : y.square().mean()};
      },
      train::StepOptions{.amp = argv[3]});
  Tensor x = words ? (rand(shape) * 999).to(kI64) : randn(shape);
  if (x.ndim() == 4) x = x.contiguous(kChannelsLast);
  const Tensors batch{x, (rand({shape[0]}) * 10).to(kI64)};
  const auto run = [&](int count) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) step(batch).loss.item<float>();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    std::printf("%.6f\n", passed.count() / count);
    std::fflush(stdout);
  };
  for (int count; std::scanf("%d", &count) == 1;) run(count);
}
