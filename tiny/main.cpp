// The trainer: all the parts in one loop. README.md says in which order to read them.
//
//   tiny_lathe [FOLDER [EPOCHS]]   FOLDER has the four IDX files of Fashion-MNIST, not compressed
#include <cstdio>
#include <cstdlib>

#include "loader.h"
#include "net.h"
#include "sgd.h"

namespace tiny {

/// The images to train with, and those to test with.
static std::pair<Dataset, Dataset> read_or_make_up(const std::string& folder) {
  if (std::ifstream(folder + "/train-images-idx3-ubyte").is_open())
    return {read_fashion_mnist(folder, "train"), read_fashion_mnist(folder, "t10k")};
  std::printf("no Fashion-MNIST in \"%s\": made-up images instead, which are easier\n",
              folder.c_str());
  return {made_up_images(2000, 1), made_up_images(500, 2)};
}

/// The mean loss over an epoch.
static double train(Net& net, Sgd& sgd, const Dataset& set, uint64_t number) {
  Epoch epoch(set, {.batch_size = 64, .shuffle = true, .seed = 1}, number);
  double sum = 0;
  while (const std::optional<Batch> batch = epoch.next()) {
    sgd.zero_grad();
    const Tensor loss = cross_entropy(net.forward(batch->x, true), batch->labels);
    backward(loss);
    sgd.step();
    sum += loss.item() * batch->labels.size();
  }
  return sum / set.size();
}

/// The share of images whose largest score is that of their label.
static double accuracy(Net& net, const Dataset& set) {
  const NoGrad off;
  Epoch epoch(set, {.batch_size = 64}, 0);
  double right = 0;
  while (const std::optional<Batch> batch = epoch.next()) {
    const Tensor scores = net.forward(batch->x, false);
    for (size_t n = 0; n < batch->labels.size(); ++n) {
      const double* row = scores.data() + n * set.classes;
      right += std::max_element(row, row + set.classes) - row == batch->labels[n];
    }
  }
  return right / set.size();
}

static void run(const std::string& folder, int epochs) {
  const auto [train_set, test_set] = read_or_make_up(folder);
  std::printf("%zu training images, %zu test images\n", train_set.labels.size(),
              test_set.labels.size());
  Generator random(0);
  Net net(train_set.height, train_set.width, train_set.classes, random);
  Sgd sgd(net.parameters(), {.momentum = 0.9, .weight_decay = 5e-4});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    sgd.set_lr(0.05 * (epochs - epoch) / epochs);  // large steps first, small ones at the end
    const double loss = train(net, sgd, train_set, epoch);
    const double right = accuracy(net, test_set);
    const Pool::Stats memory = default_pool().stats();
    std::printf("epoch %d  loss %.4f  test accuracy %.4f  ", epoch, loss, right);
    std::printf("%zu MiB, taken in %zu calls\n", memory.reserved_bytes >> 20, memory.device_calls);
  }
}

}  // namespace tiny

int main(int argc, char** argv) {
  try {
    const std::string folder = argc > 1 ? argv[1] : "fashion-mnist",
                      text = argc > 2 ? argv[2] : "3";
    const int epochs = std::atoi(text.c_str());
    tiny::check<tiny::ValueError>(epochs > 0, "EPOCHS must be a positive number, got ", text);
    tiny::run(folder, epochs);
  } catch (const tiny::Error& error) {
    std::fprintf(stderr, "tiny_lathe: %s\n", error.what());
    return 1;
  }
}
