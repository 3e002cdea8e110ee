// onnx_run FOLDER: for each NAME in FOLDER/list, runs NAME.onnx on NAME.in0.npy, NAME.in1.npy, … and
// writes NAME.out0.npy, …; or why not, in NAME.error. Driven by onnx_nodes_test.py and
// onnx_models_test.py.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/formats/npy.h"
#include "lathe/graph/onnx/onnx.h"

namespace {

using namespace lathe;

void run(const std::string& at) {
  const jit::Graph graph = jit::load_onnx(at + ".onnx").graph;
  Tensors inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    inputs.push_back(npy::read(concat(at, ".in", i, ".npy")));
  }
  const Tensors outputs = graph.run(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    npy::write(concat(at, ".out", i, ".npy"), outputs[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: onnx_run FOLDER\n");
    return 2;
  }
  const NoGrad off;
  const std::string folder = std::string(argv[1]) + "/";
  std::ifstream list(folder + "list");
  for (std::string name; std::getline(list, name);) {
    try {
      run(folder + name);
    } catch (const Error& error) {
      std::ofstream(folder + name + ".error") << error.message();
    }
  }
  return 0;
}
