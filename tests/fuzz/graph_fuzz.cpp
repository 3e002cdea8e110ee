// Graph files: a safetensors file around the text of a program. What is accepted prints as a text
// that is read again alike, also behind the passes that need no tensors.
#include <span>
#include <stdexcept>

#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/file.h"
#include "lathe/graph/passes.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

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
const char* const kIntegers =
    "lathe graph 1\n"
    "input %x: f32[N,3]\n"
    "buffer @w.int8: i8[2,3]\n"
    "buffer @w.scale: f32[2]\n"
    "%0: u8[N,3] = quantize(%x, scale=0.25, dtype=\"u8\")\n"
    "%1: i8[N,2] = quantized_linear(%0, @w.int8, @w.scale, none, none, x_scale=0.25, "
    "residual_scale=1.0, y_scale=0.5, dtype=\"i8\", relu=false)\n"
    "%2: f32[N,2] = dequantize(%1, scale=0.5)\n"
    "output %2\n";

/// The file of a graph with tensors of ones.
std::string file_of(const char* text) {
  const data::testing::TempDir directory;
  jit::Graph graph = jit::parse(text);
  StateDict state;
  state.add("w", ones({2, 3}));
  state.add("w.int8", ones({2, 3}, {.dtype = kI8}));
  state.add("w.scale", ones({2}));
  graph.bind(state);
  jit::save(graph, directory / "g.lathe");
  return data::testing::read_file(directory / "g.lathe");
}

const char* const kImages =
    "lathe graph 1\n"
    "input %x: f32[N,3,4,4]\n"
    "param @w: f32[2,3,1,1]\n"
    "param @v: f32[2]\n"
    "%0: f32[N,3,4,4] = relu(%x)\n"
    "%1: f32[N,2,4,4] = conv2d(%0, @w, none, stride=[1,1], pad=[0,0], dilation=[1,1], groups=1)\n"
    "%2: f32[N,2,4,4] = batch_norm(%1, none, none, @v, @v, training=false, eps=1e-05)\n"
    "%3: f32[N,4,4,2] = permute(%2, order=[0,2,3,1])\n"
    "%4: f32[N,2,4,4] = transpose(%3, a=1, b=-1)\n"
    "%5: f32[N,2,4,4] = add(%4, %2)\n"
    "%6: f32[N,32] = view(%5, shape=[N,32])\n"
    "output %6\n";

void check_text(const jit::Graph& graph) {
  const std::string text = graph.text();
  if (jit::parse(text).text() != text) {
    throw std::logic_error("what was read is not what was printed");
  }
}

std::vector<std::string> seeds() {
  // The second kind of input is the text alone, without a checksum that hides it from the fuzzer.
  return {file_of(kText), kText, file_of(kIntegers), kIntegers, kImages};
}

void feed(const std::string& bytes) {
  // A line of 20 characters may become a node, two names and an entry of a table.
  constexpr int64_t kLargest = 16;
  jit::Graph graph;
  check_allocations(kLargest * static_cast<int64_t>(bytes.size()), [&] {
    graph = bytes.starts_with("lathe graph")
                ? jit::parse(bytes)
                : jit::load(std::as_bytes(std::span(bytes)), "fuzz.lathe");
    check_text(graph);
  });
  for (const auto pass : {jit::use_channels_last, jit::fuse_epilogues, jit::remove_dead_code,
                          jit::fold_batch_norm, jit::fuse_pointwise}) {
    pass(graph);
    check_text(graph);
  }
}

const Target target("graph", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
