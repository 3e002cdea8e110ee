// Programs of PyTorch as files and as graphs.
#include "lathe/tools/cli/commands/ckpt_program.h"

#include "lathe/graph/trace.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {

std::unique_ptr<jit::Program> open_program(const std::string& path) {
  return reading_data(
      [&] { return std::unique_ptr<jit::Program>(new jit::Program(jit::load_program(path))); });
}

jit::Graph graph_of_program(jit::Program& program, const std::string& from) {
  return running_graph(from, [&] {
    program.eval();
    const Tensors two = program.example_inputs(2), three = program.example_inputs(3);
    const bool any_batch = !two.empty() && two[0].shape() != three[0].shape();
    return jit::trace([&](const Tensors& inputs) { return program.run(inputs); }, two,
                      {.dynamic_batch = any_batch, .module = &program});
  });
}

}  // namespace lathe::cli
