// LoRA in a program: its modules take adapters as layers of nn/ do.
#include <doctest/doctest.h>

#include <filesystem>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/lora.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/pt2_files.h"

using namespace lathe;
using namespace lathe::testing;
using doctest::Contains;

namespace {

std::string golden(const std::string& name) {
  return (std::filesystem::path(LATHE_GOLDEN_PT2) / name).string();
}

void randomise(const nn::Lora& lora) {
  const NoGrad off;
  for (const Tensor& p : lora.parameters()) p.copy_(randn_like(p) * 0.2);
}

double difference(const Tensor& a, const Tensor& b) {
  return (a.to(kF64) - b.to(kF64)).abs().max().item<double>();
}

/// x + x W as GPT-2's Conv1D computes it: a view, addmm, a view. `after`: nodes that follow in the
/// same module; `result`: what the program gives; `sizes`: of the last view.
jit::Program conv1d(const std::string& after = "", const std::string& result = "view_1",
                    const std::string& sizes = "-1,2") {
  const std::string in_fc = R"({"nn_module_stack":"L__self__,,m.M;L__self__fc,fc,m.Conv1D"})";
  const std::string size = pt2_argument("size", R"({"as_ints":[-1,2]})");
  std::string program = pt2_program(
      pt2_node("aten.view.default", pt2_tensor("self", "x") + "," + size, "view", in_fc) + "," +
          pt2_node("aten.addmm.default",
                   pt2_tensor("self", "view") + "," + pt2_tensor("mat1", "view") + "," +
                       pt2_tensor("mat2", "p_w"),
                   "addmm", in_fc) +
          "," +
          pt2_node("aten.view.default",
                   pt2_tensor("self", "addmm") + "," +
                       pt2_argument("size", concat(R"({"as_ints":[)", sizes, "]}")),
                   "view_1", in_fc) +
          after,
      result);
  const std::string name = R"("parameter_name":"w")";
  program.replace(program.find(name), name.size(), R"("parameter_name":"fc.weight")");
  const std::string file = pt2_file(program, {{.name = "fc.weight"}});
  return jit::load_program(std::as_bytes(std::span(file)), "conv1d.pt2");
}

}  // namespace

TEST_CASE("pt2 lora: layers of programs take adapters, train them alone and merge them") {
  for (const char* name : {"conv_net", "tied", "attention", "under"}) {
    CAPTURE(name);
    jit::Program model = jit::load_program(golden(std::string(name) + ".pt2"));
    model.to(kF64);
    Tensors inputs;
    const StateDict given = safetensors::read(golden(std::string(name) + ".golden")).tensors;
    for (size_t i = 0; given.contains(concat("in.", i)); ++i) {
      const Tensor& x = given[concat("in.", i)];
      inputs.push_back(is_floating(x.dtype()) ? x.to(kF64) : x);
    }
    model.eval();
    const Tensor plain = model.run(inputs)[0];
    const StateDict before = model.state_dict().clone();
    nn::Lora lora = nn::add_lora(model, {.rank = 2});
    CHECK(equal(model.run(inputs)[0], plain));
    randomise(lora);
    const Tensor y = model.run(inputs)[0];
    CHECK(difference(y, plain) > 1e-3);

    optim::SGD sgd(model.parameters(), {.lr = 1e-3});
    model.train();
    lora.frozen().hold();
    model.run(inputs)[0].square().mean().backward();
    for (const Tensor& p : lora.parameters()) CHECK(p.grad().defined());
    sgd.step();
    for (const auto& [entry, t] : before) CHECK_MESSAGE(equal(model.state_dict()[entry], t), entry);

    model.eval();
    const Tensor trained = model.run(inputs)[0];
    CHECK(difference(trained, y) > 0);
    if (std::string(name) == "tied") {
      CHECK_THROWS_WITH_AS(lora.merge(), Contains("are one tensor"), StateError);
      continue;
    }
    lora.merge();
    CHECK(model.state_dict().size() == before.size());
    CHECK(difference(model.run(inputs)[0], trained) <= 1e-12);
    lora.unmerge();
    for (const auto& [entry, t] : before) CHECK_MESSAGE(equal(model.state_dict()[entry], t), entry);
    CHECK(equal(model.run(inputs)[0], trained));
  }
}

TEST_CASE("pt2 lora: GPT-2's Conv1D is a Linear whose weight is transposed") {
  jit::Program model = conv1d();
  const Tensor x = randn({3, 2});
  const Tensor plain = model(x);
  nn::Lora lora = nn::add_lora(model, {.rank = 1, .alpha = 3, .targets = {"fc"}});
  randomise(lora);
  const Tensor a = lora.parameters()[0], b = lora.parameters()[1];
  CHECK(difference(model(x), plain + matmul(matmul(x, a.t()), b.t()) * 3) <= 1e-5);
  const Tensor y = model(x);
  lora.merge();
  CHECK(difference(model(x), y) <= 1e-5);
}

TEST_CASE("pt2 lora: a module that does more with its weight's product is no layer") {
  const std::string in_fc = R"({"nn_module_stack":"L__self__,,m.M;L__self__fc,fc,m.Conv1D"})";
  jit::Program model = conv1d(
      "," + pt2_node("aten.relu.default", pt2_tensor("self", "view_1"), "relu", in_fc), "relu");
  CHECK_THROWS_WITH_AS(nn::add_lora(model, {.targets = {"fc"}}), Contains("\"fc\" matches \"fc\""),
                       ValueError);
}

TEST_CASE("pt2 lora: a module that divides its product's last dimension is no layer") {
  jit::Program heads = conv1d("", "view_1", "-1,2,1");  // [batch,heads,width]
  CHECK(heads(ones({3, 2})).shape() == Shape{3, 2, 1});
  CHECK_THROWS_WITH_AS(nn::add_lora(heads, {.targets = {"fc"}}), Contains("\"fc\" matches \"fc\""),
                       ValueError);
  jit::Program leading = conv1d("", "view_1", "1,-1,2");  // only a run shows it
  const nn::Lora lora = nn::add_lora(leading, {.targets = {"fc"}});
  CHECK_THROWS_WITH_AS(leading(ones({3, 2})),
                       Contains("Lora: the adapter of \"fc\" gives f32[3,2]"), ShapeError);
}

TEST_CASE("pt2 lora: a layer whose weight is also read elsewhere takes no adapter") {
  const std::string tied =
      "," + pt2_node("aten.linear.default",
                     pt2_tensor("input", "view_1") + "," + pt2_tensor("weight", "p_w"), "linear",
                     R"({"nn_module_stack":"L__self__,,m.M"})");
  jit::Program model = conv1d(tied, "linear");
  CHECK_THROWS_WITH_AS(nn::add_lora(model, {.targets = {"fc"}}), Contains("\"fc\" matches \"fc\""),
                       ValueError);
}

TEST_CASE("pt2 lora: a traced program has its adapters") {
  jit::Program model = jit::load_program(golden("conv_net.pt2"));
  const Tensor x = safetensors::read(golden("conv_net.golden")).tensors["in.0"];
  model.eval();
  const nn::Lora lora = nn::add_lora(model, {.rank = 2});
  randomise(lora);
  const NoGrad off;
  const Tensor y = model(x);
  CHECK(difference(jit::trace(model, x)(x), y) <= 1e-5);
}

TEST_CASE("pt2 lora: a file has no adapters, so only merged ones are saved") {
  jit::Program model = jit::load_program(golden("conv_net.pt2"));
  const Tensor x = safetensors::read(golden("conv_net.golden")).tensors["in.0"];
  model.eval();
  nn::Lora lora = nn::add_lora(model, {.rank = 2});
  randomise(lora);
  const data::testing::TempDir folder;
  const std::string path = folder / "m.pt2";
  CHECK_THROWS_WITH_AS(jit::save_program(model, path), Contains(".lora_A.weight\""), StateError);
  CHECK(data::testing::names_in(folder.path()).empty());
  lora.merge();
  jit::save_program(model, path);
  CHECK(equal(jit::load_program(path).eval()(x), model(x)));
}
