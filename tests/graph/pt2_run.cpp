// pt2_run FOLDER DTYPE [STEPS]: for each NAME in FOLDER/list, loads NAME.pt2 and runs it on the
// inputs in.I of NAME.in, a safetensors file, in the mode in which it was exported. NAME.out gets
// out.I, loss (the sum over all floating results y of mean(y^2)), grad.NAME and buffer.NAME; or
// NAME.error why not. With STEPS: losses of as many steps of SGD, the trained NAME.back.pt2, and its
// results exported.I, in the mode in which it was exported, and eval.I. Driven by pt2_models.py.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/sgd.h"

namespace {

using namespace lathe;

Tensor loss_of(const Tensors& results, DType dtype) {
  Tensor loss = zeros({}, {.dtype = dtype});
  for (const Tensor& y : results) {
    if (is_floating(y.dtype())) loss = loss + y.square().mean();
  }
  return loss;
}

StateDict trained(jit::Program& model, const Tensors& inputs, DType dtype, int steps,
                  const std::string& back) {
  const bool exported_in_training = model.is_training();  // load_program() says it
  optim::SGD sgd(model.parameters(), {.lr = 0.001, .momentum = 0.9});
  StateDict out;
  Tensors losses;
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = loss_of(model.run(inputs), dtype);
    model.zero_grad();
    loss.backward();
    sgd.step();
    losses.push_back(loss.detach());
  }
  out.add("losses", stack(losses));
  jit::save_program(model, back);
  const NoGrad off;
  const auto add_results = [&](const char* name) {
    const Tensors results = model.run(inputs);
    for (size_t i = 0; i < results.size(); ++i) out.add(concat(name, i), results[i]);
  };
  model.train(exported_in_training);
  add_results("exported.");
  model.load_state_dict(jit::load_program(back).state_dict());  // without what that run changed
  model.eval();
  add_results("eval.");
  return out;
}

StateDict compared(jit::Program& model, const Tensors& inputs, DType dtype) {
  const Tensors results = model.run(inputs);
  StateDict out;
  for (size_t i = 0; i < results.size(); ++i) out.add(concat("out.", i), results[i].detach());
  const Tensor loss = loss_of(results, dtype);
  loss.backward();
  out.add("loss", loss.detach());
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.grad().defined()) out.add("grad." + name, p.grad());
  }
  for (const auto& [name, b] : model.named_buffers()) out.add("buffer." + name, b);
  return out;
}

void run(const std::string& at, DType dtype, int steps) {
  jit::Program model = jit::load_program(at + ".pt2");
  model.to(dtype);
  Tensors inputs;
  const StateDict given = safetensors::read(at + ".in").tensors;
  for (size_t i = 0; given.contains(concat("in.", i)); ++i) {
    const Tensor& x = given[concat("in.", i)];
    inputs.push_back(is_floating(x.dtype()) ? x.to(dtype) : x);
  }
  safetensors::write(at + ".out", steps > 0 ? trained(model, inputs, dtype, steps, at + ".back.pt2")
                                            : compared(model, inputs, dtype));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: pt2_run FOLDER DTYPE [STEPS]\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  std::ifstream list(folder + "list");
  for (std::string name; std::getline(list, name);) {
    try {
      run(folder + name, dtype_from_name(argv[2]), argc == 4 ? std::atoi(argv[3]) : 0);
    } catch (const Error& error) {
      std::ofstream(folder + name + ".error") << error.message();
    }
  }
  return 0;
}
