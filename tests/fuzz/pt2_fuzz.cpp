// PyTorch's exported programs. An archive's entries have a CRC, which random changes rarely
// survive: an input that begins with a brace is the JSON of a program, one that begins with a
// colon a table of weights, and both are put into an archive. What loads also goes through a
// checkpoint and a saved file, gets another last layer if it can, and runs on an input of [2,2].
#include "lathe/graph/pt2/program.h"

#include <memory>
#include <span>
#include <stdexcept>

#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"
#include "lathe/tests/graph/pt2_files.h"

namespace lathe::fuzz {
namespace {

using namespace testing;

/// Weights that a program may name: w, and those of a batch norm of two channels.
std::vector<Pt2Weight> weights() {
  std::vector<Pt2Weight> out = {Pt2Weight{}};
  for (const char* name : {"norm.running_mean", "norm.running_var"}) {
    out.push_back({.name = name, .sizes = "2", .strides = "1"});
  }
  return out;
}

/// Changes as few programs have them: a view, a write into it, an index.
std::string views() {
  return pt2_program(
      concat(pt2_node("aten.view.default",
                      pt2_tensor("self", "x") + "," + pt2_argument("size", R"({"as_ints":[-1]})"),
                      "view"),
             ",",
             pt2_node("aten.mul_.Tensor",
                      pt2_tensor("self", "view") + "," +
                          pt2_argument("other", R"({"as_sym_float":{"as_float":2}})"),
                      "mul_", R"({"nn_module_stack":"L__self__a.b,a.b,n.B","stack_trace":""})"),
             ",",
             pt2_node("aten.index.Tensor",
                      pt2_tensor("self", "mul_") + "," +
                          pt2_argument("indices", R"({"as_optional_tensors":[{"as_none":true}]})"),
                      "y")),
      "y");
}

/// A batch norm under autocast.
std::string norm() {
  const auto buffer = [](const std::string& name) {
    return concat(R"({"buffer":{"arg":{"name":"b_)", name, R"("},"buffer_name":"norm.)", name,
                  R"(","persistent":true}},)");
  };
  const std::string call = pt2_node(
      "aten.batch_norm.default",
      concat(pt2_tensor("input", "a"), ",", pt2_tensor("running_mean", "m"), ",",
             pt2_tensor("running_var", "v"), ",", pt2_argument("training", R"({"as_bool":true})")),
      "b", R"({"nn_module_stack":"L__self__norm,norm,torch.nn.BatchNorm1d"})");
  const auto value = [](const char* name) {
    return concat(R"({"as_tensor":{"name":")", name, R"("}})");
  };
  const std::string graph =
      concat(R"({"as_graph":{"name":"g","graph":{"inputs":[)", value("a"), ",", value("m"), ",",
             value("v"), R"(],"outputs":[)", value("b"), R"(],"nodes":[)", call, "]}}}");
  std::string arguments = concat(pt2_argument("", R"({"as_string":"cpu"})"), ",",
                                 pt2_argument("", R"({"as_scalar_type":13})"));
  for (const std::string& each :
       {std::string(R"({"as_bool":true})"), std::string(R"({"as_bool":true})"), graph, value("x"),
        value("b_running_mean"), value("b_running_var")}) {
    arguments += "," + pt2_argument("", each);
  }
  return pt2_program(pt2_node("higher_order.wrap_with_autocast", arguments, "y"), "y", "8",
                     buffer("running_mean") + buffer("running_var"),
                     pt2_buffer_type("running_mean", "2") + pt2_buffer_type("running_var", "2"));
}

/// A linear layer, and a view that names the number of its rows.
std::string classifier() {
  const std::string layer = pt2_node(
      "aten.linear.default", pt2_tensor("input", "x") + "," + pt2_tensor("weight", "p_w"), "fc");
  const std::string view =
      pt2_node("aten.view.default",
               pt2_tensor("self", "fc") + "," + pt2_argument("size", R"({"as_ints":[-1,2]})"), "y");
  return pt2_program(layer + "," + view, "y", "8", "",
                     concat(R"(,"fc":)", pt2_type("s0,2"), R"(,"y":)", pt2_type("s0,2")));
}

std::string file_for(const std::string& bytes) {
  if (bytes.starts_with('{')) return pt2_file(bytes, weights());
  if (!bytes.starts_with(':')) return bytes;
  return pt2_archive({{"models/model.json", pt2_small_program()},
                      {"data/weights/model_weights_config.json", bytes.substr(1)},
                      {"data/weights/weight_0", pt2_values()},
                      {"data/constants/model_constants_config.json", R"({"config":{}})"}});
}

/// Without its weights and with them again.
void carry(const jit::Program& model) {
  const std::string carried = model.architecture();
  std::string again;
  try {
    again = jit::load_program(std::as_bytes(std::span(carried)), "carried", model.state_dict())
                .architecture();
  } catch (const Error& error) {
    throw std::logic_error("a program that loads does not come back: " + error.message());
  }
  if (again != carried) throw std::logic_error("a program comes back as another one");
}

/// As a saved file, and back.
void save(const jit::Program& model) {
  static const data::testing::TempDir folder;
  std::string again;
  try {
    jit::save_program(model, folder / "saved.pt2");
    again = jit::load_program(folder / "saved.pt2").architecture();
  } catch (const Error& error) {
    throw std::logic_error("a program that loads cannot be saved and loaded again: " +
                           error.message());
  }
  if (again != model.architecture()) throw std::logic_error("a saved program is another one");
}

/// Sizes in a program may be any: it gets a MiB.
void run(jit::Program& model) {
  HostAllocator& host = host_allocator();
  host.set_limit(host.stats().reserved_bytes + (size_t{1} << 20));
  try {
    model.run(Tensors(model.input_names().size(), ones({2, 2})));
  } catch (const Error&) {
  }
  host.set_limit(0);
}

std::vector<std::string> seeds() {
  return {pt2_small_program(),          views(), norm(), classifier(), ":" + pt2_weights({{}}),
          pt2_file(pt2_small_program())};
}

void feed(const std::string& bytes) {
  const std::string file = file_for(bytes);
  constexpr int64_t kLargest = 64;  // of 4: 256 times the file, as program.h says
  const auto check = [&](const jit::ProgramOptions& options) {
    std::unique_ptr<jit::Program> model;
    check_allocations(kLargest * static_cast<int64_t>(file.size()), [&] {
      model.reset(
          new jit::Program(jit::load_program(std::as_bytes(std::span(file)), "fuzz.pt2", options)));
    });
    carry(*model);
    save(*model);
    if (model->input_names().size() <= 8) run(*model);
  };
  check({});
  try {
    check({.classes = 3});
  } catch (const Error&) {  // it has no last layer that can be replaced
  }
}

const Target target("pt2", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
