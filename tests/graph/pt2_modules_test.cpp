// What a program does as an nn::Module: modes, moves, threads, hooks. The files are those of
// make_pt2_golden.py.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/graph/pt2_files.h"

using namespace lathe;
using doctest::Contains;

namespace {

std::string golden(const std::string& name) {
  return (std::filesystem::path(LATHE_GOLDEN_PT2) / name).string();
}
jit::Program loaded(const std::string& name, const jit::ProgramOptions& options = {}) {
  return jit::load_program(golden(name + ".pt2"), options);
}
Tensor input_of(const std::string& name, DType dtype = kF32) {
  const Tensor x = safetensors::read(golden(name + ".golden")).tensors["in.0"];
  return is_floating(x.dtype()) ? x.to(dtype) : x;
}

nn::Module& module_of(jit::Program& model, const std::string& path) {
  for (auto& [name, module] : model.named_modules()) {
    if (name == path) return *module;
  }
  FAIL("no module ", path);
  return model;
}

}  // namespace

TEST_CASE("pt2: layers under autocast follow train() and eval(), whatever the export's mode") {
  for (const char* name : {"under", "under_eval"}) {
    CAPTURE(name);
    jit::Program model = loaded(name);
    CHECK(model.is_training() == (std::string(name) == "under"));
    const auto moves = [&](bool training) {
      model.train(training);
      const StateDict before = model.state_dict().clone();
      model(input_of(name));
      const StateDict after = model.state_dict();
      CHECK(equal(before["norm.running_mean"], after["norm.running_mean"]) != training);
      CHECK(equal(before["norm2.running_var"], after["norm2.running_var"]) != training);
      const auto count = [](const StateDict& state) {
        return state["norm2.num_batches_tracked"].item<int64_t>();
      };
      return count(after) - count(before);
    };
    CHECK(moves(true) == 1);
    CHECK(moves(false) == 0);
    model.half();
    CHECK(model.state_dict()["norm.running_mean"].dtype() == kF32);
    CHECK(model.state_dict()["fc.weight"].dtype() == kF16);
  }
}

TEST_CASE("pt2: layers that were frozen at the export stay frozen if the program is told so") {
  const auto moves = [](const jit::ProgramOptions& options) {
    jit::Program model = loaded("under_eval", options);
    const bool training = model.is_training();
    model.train();
    const Tensor before = model.state_dict()["norm.running_mean"].clone();
    model(input_of("under_eval"));
    return std::pair(training, !equal(before, model.state_dict()["norm.running_mean"]));
  };
  CHECK(moves({}) == std::pair(false, true));
  CHECK(moves({.exported_in_training = true}) == std::pair(true, false));
}

TEST_CASE("pt2: a write through a view is seen in a tensor of NHWC") {
  jit::Program model = loaded("flat");
  const Tensor x = input_of("flat");
  const Tensors want = model.run({x});
  const Tensors got = model.run({x.contiguous(kChannelsLast)});
  CHECK(allclose(got[0], want[0], {.rtol = 1e-5, .atol = 1e-6}));
  CHECK(allclose(got[1], want[1], {.rtol = 1e-5, .atol = 1e-6}));
}

TEST_CASE("pt2: numbers, texts and None are no inputs") {
  CHECK(loaded("alias").input_names() == std::vector<std::string>{"x"});
}

TEST_CASE("pt2: a program without parameters takes the dtype of its input") {
  for (const char* name : {"bare", "bare_norm"}) {
    CAPTURE(name);
    jit::Program model = loaded(name);
    const Tensor want = model.eval()(input_of(name));
    CHECK(want.dtype() == kF32);
    const auto close = [&](DType dtype, double tolerance) {
      model.to(dtype);
      const Tensor y = model(input_of(name, dtype));
      return y.dtype() == dtype &&
             allclose(y.to(kF32), want, {.rtol = tolerance, .atol = tolerance});
    };
    CHECK(close(kF64, 1e-5));
    CHECK(close(kF16, 1e-2));  // rounds at 2^-11
    CHECK(close(kF64, 1e-2));  // the norm's parameters were rounded
  }
}

TEST_CASE("pt2: a batch norm whose tensors are the program's own stays f32 beside half weights") {
  using namespace testing;
  const std::string nodes = concat(
      pt2_node("aten.matmul.default", pt2_tensor("self", "x") + "," + pt2_tensor("other", "p_w"),
               "h"),
      ",",
      pt2_node("aten.batch_norm.default",
               concat(pt2_tensor("input", "h"), ",", pt2_tensor("running_mean", "b_running_mean"),
                      ",", pt2_tensor("running_var", "b_running_var"), ",",
                      pt2_argument("training", R"({"as_bool":true})")),
               "y"));
  const std::string file = pt2_file(
      pt2_program(nodes, "y", "8", pt2_buffer_spec("running_mean") + pt2_buffer_spec("running_var"),
                  pt2_buffer_type("running_mean", "2") + pt2_buffer_type("running_var", "2")),
      {{},
       {.name = "running_mean", .sizes = "2", .strides = "1"},
       {.name = "running_var", .sizes = "2", .strides = "1"}});
  jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
  model.to(kBF16);
  CHECK(model.state_dict()["w"].dtype() == kBF16);
  CHECK(model.state_dict()["running_mean"].dtype() == kF32);
  CHECK(model(ones({3, 2}, {.dtype = kBF16})).dtype() == kBF16);
}

TEST_CASE("pt2: a run in InferenceMode does not keep a later one from training") {
  jit::Program model = loaded("under");  // multiplies by a constant
  model.to(kF64);
  const Tensor x = input_of("under", kF64);
  {
    const InferenceMode on;
    model.run({x});
  }
  model.run({x})[0].sum().backward();
  CHECK(model.named_parameters()[0].second.grad().defined());
}

TEST_CASE("pt2: several threads evaluate one program at once") {
  const Tensor x = input_of("attention");
  jit::Program model = loaded("attention");
  model.eval();
  const NoGrad off;
  const std::vector<float> alone = model(x).to_vector<float>();
  for (int round = 0; round < 100; ++round) {
    model.to(kF64);
    model(x);
    model.to(kF32);  // so that the threads are the first to ask for its constants there
    constexpr int kThreads = 4;
    std::vector<std::vector<float>> results(kThreads);
    std::vector<std::thread> threads;
    std::atomic<int> ready = 0;
    for (std::vector<float>& result : results) {
      threads.emplace_back([&] {
        const NoGrad off_here;
        ++ready;
        while (ready < kThreads) std::this_thread::yield();
        for (int i = 0; i < 3; ++i) result = model(x).to_vector<float>();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& result : results) CHECK(result == alone);
  }
}

TEST_CASE("pt2: hooks run at the program, and observe the modules in it") {
  jit::Program model = loaded("tied");
  model.eval();
  const Tensor x = input_of("tied");
  const Tensor plain = model(x);
  std::vector<std::pair<Shape, Shape>> seen;
  const auto observe = [&](nn::Module&, const Tensors& in, const Tensors& out) {
    REQUIRE(in.size() == 1);
    REQUIRE(out.size() == 1);
    seen.emplace_back(in[0].shape(), out[0].shape());
  };
  const int64_t number = module_of(model, "fc").register_call_hook(observe);
  module_of(model, "head").register_call_hook(observe);
  CHECK(equal(model(x), plain));
  CHECK(seen ==
        std::vector<std::pair<Shape, Shape>>{{{3, 5, 4}, {3, 5, 4}}, {{3, 5, 4}, {3, 5, 7}}});
  module_of(model, "fc").remove_hook(number);
  model.run({x});
  CHECK(seen.size() == 3);

  model.register_forward_hook([](nn::Module&, const Tensor&, const Tensor& y) { return y * 2; });
  CHECK(equal(model(x), plain * 2));
  CHECK(equal(model.run({x})[0], plain * 2));
  const int64_t twice =
      module_of(model, "head")
          .register_forward_hook([](nn::Module&, const Tensor& in, const Tensor& y) {
            CHECK(in.shape() == Shape{3, 5, 4});
            return y * 2;
          });
  CHECK(equal(model(x), plain * 4));
  module_of(model, "head").remove_hook(twice);
  CHECK_THROWS_WITH_AS(
      module_of(model, "fc").register_forward_pre_hook([](nn::Module&, const Tensor& in) {
        return in;
      }),
      Contains("use register_call_hook()"), StateError);
  jit::Program several = loaded("attention");
  CHECK_THROWS_AS(
      several.register_forward_pre_hook([](nn::Module&, const Tensor& in) { return in; }),
      StateError);
}

TEST_CASE("pt2: a summary has a row with sizes for each module") {
  jit::Program model = loaded("conv_net");
  const nn::Summary summary = nn::summary(model, {2, 3, 9, 12});
  int called = 0;
  for (const nn::SummaryRow& row : summary.rows) {
    called += row.called ? 1 : 0;
    if (row.name == "stem") CHECK(row.output == Shape{2, 8, 5, 6});
    if (row.name == "norm") CHECK(row.input == Shape{2, 8, 5, 6});
  }
  CHECK(called == static_cast<int>(summary.rows.size()));
}
