// model_logits MODEL WEIGHTS INPUT OUTPUT: loads WEIGHTS (.pth, .npz, .safetensors) into the model
// of that name, runs it on the array INPUT (.npy) and writes its logits to OUTPUT (.npy).
// model_logits MODEL OUTPUT: writes the initial values of the model's weights (.npz).
// Driven by torch_weights_test.py.
#include <cstdio>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/npy.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/nn/init.h"
#include "lathe/nn/models.h"
#include "lathe/nn/weights.h"

namespace {

void write_logits(char** argv) {
  using namespace lathe;
  const NoGrad off;
  const Tensor x = npy::read(argv[3]);
  const auto net = [&] {
    const nn::init::Skip skip;
    return nn::make_model(argv[1], {.image_size = x.dim(-1)});
  }();
  nn::load(*net, argv[2]);
  net->eval();
  npy::write(argv[4], (*net)(x));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) {
    std::fprintf(stderr, "usage: model_logits MODEL WEIGHTS INPUT OUTPUT | MODEL OUTPUT\n");
    return 2;
  }
  try {
    if (argc == 5) {
      write_logits(argv);
    } else {
      lathe::write_tensor_file(argv[2], lathe::nn::make_model(argv[1])->state_dict());
    }
  } catch (const lathe::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
  return 0;
}
