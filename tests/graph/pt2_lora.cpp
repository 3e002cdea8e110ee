// pt2_lora FOLDER TARGET…: gives the layers of FOLDER/model.pt2 that match adapters of LoRA, trains
// them for five steps of Adam in evaluation mode on FOLDER/in, a safetensors file with in.0 (loss:
// mean of y^2), and saves them as FOLDER/adapter. FOLDER/out gets "before", "after", and "merged":
// the first result. Driven by pt2_lora_models.py.
#include <cstdio>
#include <string>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/nn/lora.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/adam.h"

namespace {

using namespace lathe;

void run(const std::string& folder, const std::vector<std::string>& targets) {
  jit::Program model = jit::load_program(folder + "/model.pt2");
  model.eval();
  const Tensors inputs{safetensors::read(folder + "/in").tensors["in.0"]};
  StateDict out;
  out.add("before", model.run(inputs)[0].detach());
  nn::Lora lora = nn::add_lora(model, {.rank = 4, .alpha = 8, .targets = targets});
  optim::Adam adam(lora.parameters(), {.lr = 0.01});
  for (int step = 0; step < 5; ++step) {
    const Tensor loss = model.run(inputs)[0].square().mean();
    adam.zero_grad();
    loss.backward();
    adam.step();
  }
  out.add("after", model.run(inputs)[0].detach());
  lora.save(folder + "/adapter");
  lora.merge();
  out.add("merged", model.run(inputs)[0].detach());
  safetensors::write(folder + "/out", out);
  std::printf("%zu\n", lora.layers().size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: pt2_lora FOLDER TARGET…\n");
    return 2;
  }
  try {
    run(argv[1], {argv + 2, argv + argc});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
  return 0;
}
