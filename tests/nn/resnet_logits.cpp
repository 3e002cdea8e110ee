// resnet_logits MODEL WEIGHTS INPUT OUTPUT: loads WEIGHTS (.pth, .npz, .safetensors) into resnet18
// or resnet34, runs it on the array INPUT (.npy) and writes its logits to OUTPUT (.npy). Driven by
// torch_weights_test.py.
#include <cstdio>
#include <memory>
#include <string_view>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/npy.h"
#include "lathe/nn/resnet.h"
#include "lathe/nn/weights.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: resnet_logits MODEL WEIGHTS INPUT OUTPUT\n");
    return 2;
  }
  try {
    const lathe::NoGrad off;
    const bool small = std::string_view(argv[1]) == "resnet18";
    auto net = small ? lathe::nn::resnet18() : lathe::nn::resnet34();
    lathe::nn::load(net, argv[2]);
    net.eval();
    lathe::npy::write(argv[4], net(lathe::npy::read(argv[3])));
  } catch (const lathe::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
  return 0;
}
