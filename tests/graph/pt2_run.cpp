// pt2_run FOLDER DTYPE: for each NAME in FOLDER/list, loads NAME.pt2 and runs it on the inputs in.I
// of NAME.in, a safetensors file, in the mode in which it was exported. NAME.out gets out.I, loss
// (the sum over all floating results y of mean(y^2)), grad.NAME and buffer.NAME; or NAME.error why
// not. Driven by pt2_models.py.
#include <cstdio>
#include <fstream>
#include <string>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

namespace {

using namespace lathe;

void run(const std::string& at, DType dtype) {
  jit::Program model = jit::load_program(at + ".pt2");
  model.to(dtype);
  Tensors inputs;
  const StateDict given = safetensors::read(at + ".in").tensors;
  for (size_t i = 0; given.contains(concat("in.", i)); ++i) {
    const Tensor& x = given[concat("in.", i)];
    inputs.push_back(is_floating(x.dtype()) ? x.to(dtype) : x);
  }
  const Tensors results = model.run(inputs);
  StateDict out;
  Tensor loss = zeros({}, {.dtype = dtype});
  for (size_t i = 0; i < results.size(); ++i) {
    out.add(concat("out.", i), results[i].detach());
    if (is_floating(results[i].dtype())) loss = loss + results[i].square().mean();
  }
  loss.backward();
  out.add("loss", loss.detach());
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.grad().defined()) out.add("grad." + name, p.grad());
  }
  for (const auto& [name, b] : model.named_buffers()) out.add("buffer." + name, b);
  safetensors::write(at + ".out", out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: pt2_run FOLDER DTYPE\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  std::ifstream list(folder + "list");
  for (std::string name; std::getline(list, name);) {
    try {
      run(folder + name, dtype_from_name(argv[2]));
    } catch (const Error& error) {
      std::ofstream(folder + name + ".error") << error.message();
    }
  }
  return 0;
}
