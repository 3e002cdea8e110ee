// Graph files: a safetensors file around the text of a program. What is accepted prints as a text
// that is read again alike.
#include <span>
#include <stdexcept>

#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/file.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/fuzz.h"

namespace lathe::fuzz {

namespace {
const char* const kText =
    "lathe graph 1\n"
    "input %x: f32[N,3]\n"
    "param @w: f32[2,3]\n"
    "const @c: i64[] = -4\n"
    "const @d: f64[1] = 1e-05\n"
    "%0: f32[N,2] = linear(%x, @w, none)  # Net.fc\n"
    "%1: f32[N,2] = leaky_relu(%0, slope=0.5)\n"
    "%2: f32[2*N] = reshape(%1, shape=[2*N])\n"
    "%3: f32[2*N] = add(%2, @c)\n"
    "%4: f32[2*N,1] = pad(%3, amounts=[0,1], mode=\"reflect\")\n"
    "output %4, @d\n";
}  // namespace

std::vector<std::string> seeds() {
  const data::testing::TempDir directory;
  jit::Graph graph = jit::parse(kText);
  StateDict state;
  state.add("w", ones({2, 3}));
  graph.bind(state);
  jit::save(graph, directory / "g.lathe");
  // The second kind of input is the text alone, without a checksum that hides it from the fuzzer.
  return {data::testing::read_file(directory / "g.lathe"), kText};
}

void feed(const std::string& bytes) {
  // A line of 20 characters may become a node, two names and an entry of a table.
  constexpr int64_t kLargest = 16;
  check_allocations(kLargest * static_cast<int64_t>(bytes.size()), [&] {
    const jit::Graph graph = bytes.starts_with("lathe graph")
                                 ? jit::parse(bytes)
                                 : jit::load(std::as_bytes(std::span(bytes)), "fuzz.lathe");
    const std::string text = graph.text();
    if (jit::parse(text).text() != text) {
      throw std::logic_error("what was read is not what was printed");
    }
  });
}

}  // namespace lathe::fuzz
