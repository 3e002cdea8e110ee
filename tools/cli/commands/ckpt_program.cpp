// Programs of PyTorch as files and as graphs.
#include "lathe/tools/cli/commands/ckpt_program.h"

#include "lathe/core/files/paths.h"
#include "lathe/core/format.h"
#include "lathe/core/text/formatted.h"
#include "lathe/graph/trace.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {

std::unique_ptr<jit::Program> open_program(const std::string& path) {
  return reading_data(
      [&] { return std::unique_ptr<jit::Program>(new jit::Program(jit::load_program(path))); });
}

void check_model_flag(const Settings& settings, const std::string& from, const std::string& to) {
  if (!settings.model) return;
  const std::string& model = *settings.model;
  if (!is_program_file(model))
    throw UsageError(
        formatted("--model {}: expected a .pt2 file of PyTorch, for weights that do "
                  "not say their model",
                  model));
  if (is_program_file(from))
    throw UsageError(formatted("{} is a program itself; leave out --model", from));
  if (to.ends_with(".npz") || to.ends_with(".safetensors"))
    throw UsageError("--model is for .pt2, .onnx and .lathe; weights need no program");
  if (path_kind(to) != PathKind::kNothing && reading_data([&] { return is_same_file(model, to); }))
    throw UsageError(formatted("{} is the program that is read; expected a new file", to));
}

jit::Graph graph_of_program(jit::Program& program, const std::string& from, const Output& out) {
  return running_graph(from, [&] {
    const Tensors one = program.example_inputs(1), two = program.example_inputs(2);
    std::string why = "the export has no other sizes";
    if (!one.empty() && one[0].shape() != two[0].shape()) {
      try {
        return traced_program(program, 2, true);
      } catch (const jit::TraceError& e) {
        why = e.message();
      }
    }
    jit::Graph graph = traced_program(program, 1, false);
    out.text(formatted("only for inputs of {}: {}", concat(one[0].shape()), why));
    return graph;
  });
}

}  // namespace lathe::cli
