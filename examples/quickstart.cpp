// A small network on procedural images: the loop that every training program has.
#include <lathe/lathe.h>

#include <iostream>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
namespace data = lathe::data;
using lathe::Tensor;

struct Net : nn::Module {  // a member registers itself with its parent
  nn::Conv2d conv{*this, "conv", 3, 16, {.kernel = 3, .stride = 2, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn{*this, "bn", 16};
  nn::Linear fc{*this, "fc", 16, 10};

  Tensor forward(const Tensor& x) override { return fc(lathe::relu(bn(conv(x))).mean({2, 3})); }
};

int main() {
  lathe::manual_seed(7);
  const data::Synthetic images({.count = 2048});
  data::DataLoader loader(images, {.batch_size = 64, .shuffle = true, .num_workers = 1, .seed = 7});
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  for (int epoch = 0; epoch < 3; ++epoch) {
    Tensor loss;
    for (auto& [x, y] : loader) {
      opt.zero_grad();
      loss = lathe::cross_entropy(net(x), y);
      loss.backward();
      opt.step();
    }
    std::cout << "epoch " << epoch << "  loss " << loss.item<float>() << '\n';
  }
  nn::save(net, "net.safetensors");
}
