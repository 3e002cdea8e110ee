// A small network on procedural images: the loop that every training program has.
#include <lathe/lathe.h>

#include <iostream>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
namespace data = lathe::data;
using lathe::Tensor;

struct Net : nn::Module {  // a member registers itself with its parent
  nn::Conv2d conv1{*this, "conv1", 3, 16, {.kernel = 3, .stride = 2, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 16};
  nn::Conv2d conv2{*this, "conv2", 16, 32, {.kernel = 3, .stride = 2, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn2{*this, "bn2", 32};
  nn::Linear fc{*this, "fc", 32, 10};

  Tensor forward(const Tensor& x) override {
    const Tensor h = lathe::relu(bn2(conv2(lathe::relu(bn1(conv1(x))))));
    return fc(h.mean({2, 3}));
  }
};

int main() {
  lathe::manual_seed(7);
  const data::Synthetic images({.size = 2048}, data::normalize({0.5, 0.5, 0.5}, {0.3, 0.3, 0.3}));
  data::DataLoader loader(images, {.batch_size = 64, .shuffle = true, .num_workers = 1, .seed = 7});
  Net net;
  optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  for (int epoch = 0; epoch < 5; ++epoch) {
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
