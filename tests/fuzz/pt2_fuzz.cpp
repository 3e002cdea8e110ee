// PyTorch's exported programs. An archive's entries have a CRC, which random changes rarely
// survive: an input that begins with a brace is the JSON of a program, and is put into an archive.
#include "lathe/graph/pt2/program.h"

#include <span>

#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/fuzz.h"
#include "lathe/tests/graph/pt2_files.h"

namespace lathe::fuzz {

using namespace testing;

std::vector<std::string> seeds() {
  const std::string views = pt2_program(
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
  return {pt2_small_program(), views, pt2_file(pt2_small_program())};
}

void feed(const std::string& bytes) {
  const std::string file = bytes.starts_with('{') ? pt2_file(bytes) : bytes;
  constexpr int64_t kLargest = 64;  // of 4: 256 times the file, as program.h says
  check_allocations(kLargest * static_cast<int64_t>(file.size()),
                    [&] { jit::load_program(std::as_bytes(std::span(file)), "fuzz.pt2"); });
}

}  // namespace lathe::fuzz
