// Graph files: what is written is read, and what does not fit is refused.
#include "lathe/graph/file.h"

#include <doctest/doctest.h>

#include <string>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/models.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/tests/data/files.h"

using namespace lathe;
using doctest::Contains;

namespace {

const std::string kText =
    "lathe graph 1\ninput %x: f32[N,3]\nparam @w: f32[2,3]\n"
    "%0: f32[N,2] = linear(%x, @w, none)\noutput %0\n";

/// A file with this text and this filter.
std::string file_of(const std::string& folder, const std::string& text, const Tensor& w) {
  const std::string path = folder + "/g.lathe";
  StateDict tensors;
  tensors.add("w", w);
  safetensors::write(path, tensors, {{std::string(jit::kGraphKey), text}});
  return path;
}

}  // namespace

TEST_CASE("graph files: a saved graph computes the same without the model") {
  const data::testing::TempDir directory;
  const std::string folder = directory.path().string();
  const std::string path = folder + "/m.lathe";
  const NoGrad off;
  for (const bool optimised : {false, true}) {
    manual_seed(5);
    const Tensor x = randn({2, 3, 16, 16});
    Tensor expected;
    {
      const auto model = nn::make_model("resnet8", {.classes = 5, .image_size = 16});
      model->eval();
      jit::Graph graph = jit::trace(*model, x);
      if (optimised) jit::optimize_for_inference(graph);
      expected = graph(x);
      jit::save(graph, path, {{"class_names", "[]"}});
    }
    const jit::Graph read = jit::load(path);
    CHECK(equal(read(x), expected));
    CHECK(safetensors::read(path).metadata.at("class_names") == "[]");
  }
}

TEST_CASE("graph files: what does not fit is refused with the file's name") {
  const data::testing::TempDir directory;
  const std::string folder = directory.path().string();
  CHECK(equal(jit::load(file_of(folder, kText, ones({2, 3})))(ones({1, 3})), full({1, 2}, 3.0f)));
  CHECK_THROWS_WITH_AS(jit::load(file_of(folder, kText, ones({3, 2}))),
                       Contains("g.lathe: graph: @w must be f32[2,3] (got: f32[3,2]@cpu)"),
                       DataError);
  CHECK_THROWS_WITH_AS(jit::load(file_of(folder, "lathe graph 2\n", ones({2, 3}))),
                       Contains("g.lathe:1: expected \"lathe graph 1\""), DataError);
  safetensors::write(folder + "/w.safetensors", {});
  CHECK_THROWS_WITH_AS(jit::load(folder + "/w.safetensors"),
                       Contains("there is no graph in this file"), DataError);
  CHECK_THROWS_AS(jit::load(folder + "/nothing.lathe"), FileError);
  CHECK_THROWS_AS(jit::save(jit::parse(kText), folder + "/x.lathe"), StateError);
}
