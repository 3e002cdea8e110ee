// compile: models in training. Batch norm moves its running statistics and dropout draws numbers,
// as often and in the order in which the function does both.
#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/autograd/checkpoint.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/error.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/compile.h"
#include "lathe/graph/file.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/models.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/cuda_case.h"
#include "lathe/tests/data/files.h"

using namespace lathe;
using doctest::Contains;

namespace {

using Function = std::function<Tensors(const Tensors&)>;

bool is_graph(const jit::CompiledFunction& f) {
  return f.explain().find("\n  ") != std::string::npos;
}

void check_equal(const StateDict& a, const StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, t] : a) {
    CAPTURE(name);
    CHECK(equal(t, b.at(name)));
  }
}

/// The text of `lines` after the pass.
std::string after(void (*pass)(jit::Graph&), const std::string& lines) {
  jit::Graph graph = jit::parse("lathe graph 1\n" + lines);
  pass(graph);
  return graph.text().substr(graph.text().find('\n') + 1);
}

const std::string kHead =
    "input %x: f32[N,3]\nbuffer @m: f32[3]\nbuffer @v: f32[3]\nbuffer @n: i64[]\n";

/// Batch norm in training, which writes @m, @v and @n.
std::string norm(const std::string& result, const std::string& x) {
  return result + ": f32[N,3] = batch_norm(" + x +
         ", none, none, @m, @v, @n, training=true, momentum=0.1, eps=1e-05)\n";
}

/// Steps of a small ResNet, compiled and not, from the same state.
void check_steps(int64_t channels, MemoryFormat format) {
  CAPTURE(channels);
  CAPTURE(format == kChannelsLast);
  manual_seed(3);
  const auto model =
      nn::make_model("resnet8", {.classes = 5, .in_channels = channels, .image_size = 8});
  const auto twin =
      nn::make_model("resnet8", {.classes = 5, .in_channels = channels, .image_size = 8});
  twin->load_state_dict(model->state_dict());
  const auto loss_of = [](nn::Module& m, const Tensors& t) {
    const Tensor scores = m(t[0]);
    const Tensor penalty = (scores.square() * 0.5 + scores.abs()).mean();  // a group
    return Tensors{cross_entropy(scores, t[1]) + penalty * 0.1, scores};
  };
  const jit::CompiledFunction compiled =
      jit::compile([&](const Tensors& t) { return loss_of(*model, t); }, model.get());
  optim::SGD ours(model->parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::SGD theirs(twin->parameters(), {.lr = 0.1, .momentum = 0.9});
  for (const int64_t batch : {6, 6, 3, 6}) {
    const Tensor x = contiguous(randn({batch, channels, 8, 8}), format),
                 labels = arange(batch) * 0 + 3;
    ours.zero_grad();
    theirs.zero_grad();
    const Tensors got = compiled({x, labels}), expected = loss_of(*twin, {x, labels});
    CHECK(equal(got[0], expected[0]));
    CHECK(equal(got[1], expected[1]));
    got[0].backward();
    expected[0].backward();
    ours.step();
    theirs.step();
    check_equal(model->state_dict(), twin->state_dict());
  }
  CHECK(is_graph(compiled));
  CHECK_MESSAGE(compiled.explain().find("trace: ") == std::string::npos, compiled.explain());
}

}  // namespace

TEST_CASE("compile: steps of a ResNet in training are its steps to the bit") {
  for (const int64_t channels : {1, 3}) {
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) check_steps(channels, format);
  }
}

TEST_CASE("compile: writes and draws are made if nobody needs the result, and in their order") {
  nn::BatchNorm1d bn(3), twin(3);
  const auto f = [](nn::BatchNorm1d& norm, const Tensor& x) {
    const Tensor before = norm.running_mean * 2;  // of the statistics as they were
    norm(x);
    dropout(x, {.p = 0.5});
    const Tensor dropped = dropout(x * 2 + 1, {.p = 0.5});
    return Tensors{before + 1, norm.running_mean * 2 + 1, dropped, norm(x) * 2};
  };
  const jit::CompiledFunction compiled =
      jit::compile([&](const Tensors& t) { return f(bn, t[0]); }, &bn);
  for (int call = 0; call < 3; ++call) {
    const Tensor x = randn({8, 3});
    manual_seed(7 + static_cast<uint64_t>(call));
    const Tensors expected = f(twin, x);
    manual_seed(7 + static_cast<uint64_t>(call));
    const Tensors got = compiled({x});
    for (size_t i = 0; i < got.size(); ++i) CHECK(equal(got[i], expected[i]));
    check_equal(bn.state_dict(), twin.state_dict());
  }
  CHECK(is_graph(compiled));
}

TEST_CASE("compile: writes into an input are made in it; into a tensor of nobody, by f itself") {
  const auto f = [](const Tensors& t) {
    return Tensors{batch_norm(t[0], {}, {}, t[1], t[2], {.training = true})};
  };
  const jit::CompiledFunction compiled = jit::compile(f);
  const Tensor mean = zeros({3}), var = ones({3}), mean_too = zeros({3}), var_too = ones({3});
  for (int call = 0; call < 2; ++call) {
    const Tensor x = randn({4, 3});
    CHECK(equal(compiled({x, mean, var})[0], f({x, mean_too, var_too})[0]));
    CHECK(equal(mean, mean_too));
    CHECK(equal(var, var_too));
  }
  CHECK(is_graph(compiled));

  const jit::CompiledFunction alone = jit::compile([&](const Tensors& t) {
    return f({t[0], mean, var});
  });
  alone({randn({4, 3})});
  CHECK(!is_graph(alone));
  CHECK(alone.explain().find("compile() was not given the module") != std::string::npos);
}

TEST_CASE("compile: a fused group does not read what a later node writes") {
  nn::BatchNorm1d bn(64), twin(64);
  const auto f = [](nn::BatchNorm1d& norm, const Tensor& x) {
    const Tensor d = (x - norm.running_mean).square();  // sub alone saves neither
    return Tensors{d.mean() + norm(x).mean()};
  };
  const jit::CompiledFunction compiled =
      jit::compile([&](const Tensors& t) { return f(bn, t[0]); }, &bn);
  for (int call = 0; call < 2; ++call) {
    const Tensor x = randn({1024, 64}).requires_grad_(), y = x.detach().requires_grad_();
    const Tensor got = compiled({x})[0], expected = f(twin, y)[0];
    CHECK(equal(got, expected));
    got.backward();
    expected.backward();
    CHECK(equal(x.grad(), y.grad()));
  }
  CHECK(is_graph(compiled));
}

TEST_CASE("compile: an input in the memory of a written buffer is read when f reads it") {
  nn::BatchNorm1d bn(3), twin(3);
  const auto f = [](nn::BatchNorm1d& norm, const Tensors& t) {
    const Tensor before = t[1] * 2 + 1;
    const Tensor y = norm(t[0]);
    return Tensors{y, before};
  };
  const jit::CompiledFunction compiled =
      jit::compile([&](const Tensors& t) { return f(bn, t); }, &bn);
  for (int call = 0; call < 2; ++call) {
    const Tensor x = randn({4, 3});
    const Tensors got = compiled({x, bn.running_mean}), want = f(twin, {x, twin.running_mean});
    CHECK(equal(got[1], want[1]));
  }
}

TEST_CASE("compile: checkpoint() calls its function again, so f itself is called") {
  nn::BatchNorm1d bn(3), twin(3);
  const auto f = [](nn::BatchNorm1d& norm, const Tensor& x) {
    const auto part = [&](const Tensors& t) { return Tensors{norm(t[0]).square()}; };
    return autograd::checkpoint(part, {x});
  };
  const jit::CompiledFunction compiled =
      jit::compile([&](const Tensors& t) { return f(bn, t[0]); }, &bn);
  const Tensor x = randn({4, 3}).requires_grad_();
  compiled({x})[0].sum().backward();
  f(twin, x)[0].sum().backward();
  check_equal(bn.state_dict(), twin.state_dict());
  CHECK(compiled.explain().find("checkpoint() calls its function again") != std::string::npos);
}

TEST_CASE("compile: a refused trace leaves the statistics of other modules as they are") {
  nn::BatchNorm1d student(3), teacher(3);
  const jit::CompiledFunction compiled = jit::compile(
      [&](const Tensors& t) { return Tensors{student(t[0]) - teacher(t[0])}; }, &student);
  compiled({randn({4, 3})});
  CHECK(teacher.num_batches_tracked.item<int64_t>() == 1);
  CHECK(student.num_batches_tracked.item<int64_t>() == 1);
}

TEST_CASE("compile: what decides on the host, or draws from elsewhere, is called itself") {
  nn::BatchNorm1d average(3, {.momentum = std::nullopt}), twin(3, {.momentum = std::nullopt});
  const jit::CompiledFunction f =
      jit::compile([&](const Tensors& t) { return Tensors{average(t[0])}; }, &average);
  Generator own(5), same(5);
  const jit::CompiledFunction drop = jit::compile(
      [&](const Tensors& t) { return Tensors{dropout(t[0], {.p = 0.5, .generator = &own})}; });
  for (int call = 0; call < 2; ++call) {
    const Tensor x = randn({4, 3});
    CHECK(equal(f({x})[0], twin(x)));
    check_equal(average.state_dict(), twin.state_dict());
  }
  drop({ones({4, 3})});
  CHECK(!is_graph(f));
  CHECK(!is_graph(drop));
}

TEST_CASE("trace and files: programs of their own have no writes and no draws") {
  nn::BatchNorm1d bn(3);
  CHECK_THROWS_WITH_AS(jit::trace(bn, randn({4, 3})), Contains("writes into running_mean"),
                       jit::TraceError);
  const auto unnamed = [&](const Tensors& t) { return Tensors{bn(t[0])}; };
  CHECK_THROWS_WITH_AS(jit::trace(unnamed, {randn({4, 3})}), Contains("batch_norm writes"),
                       jit::TraceError);
  const auto drop = [](const Tensors& t) { return Tensors{dropout(t[0], {.p = 0.5})}; };
  CHECK_THROWS_WITH_AS(jit::trace(drop, {randn({4, 3})}), Contains("draws random numbers"),
                       jit::TraceError);

  const data::testing::TempDir directory;
  const std::string path = directory.path().string() + "/g.lathe";
  const std::string text = "lathe graph 1\n" + kHead + norm("%0", "%x") + "output %0\n";
  jit::Graph graph = jit::parse(text);
  StateDict tensors;
  tensors.add("m", zeros({3}));
  tensors.add("v", ones({3}));
  tensors.add("n", zeros({}, {.dtype = kI64}));
  graph.bind(tensors);
  CHECK_THROWS_WITH_AS(jit::save(graph, path), Contains("batch_norm writes"), ValueError);
  safetensors::write(path, tensors, {{std::string(jit::kGraphKey), text}});
  CHECK_THROWS_WITH_AS(jit::load(path), Contains("g.lathe: batch_norm writes"), DataError);
  const std::string plain =
      "%0: f32[N,3] = batch_norm(%x, none, none, @m, @v, training=true, "
      "eps=1e-05)\noutput %0\n";
  safetensors::write(path, tensors,
                     {{std::string(jit::kGraphKey), "lathe graph 1\n" + kHead + plain}});
  CHECK_THROWS_WITH_AS(jit::load(path)(randn({4, 3})), Contains("in training"), ValueError);
  CHECK(equal(tensors.at("m"), zeros({3})));
}

TEST_CASE("compile: numbers that another thread draws during a trace come once") {
  bool is_first = true;
  Tensor taken;
  const Function f = [&](const Tensors& t) {
    if (std::exchange(is_first, false)) std::thread([&] { taken = rand({4}); }).join();
    return Tensors{dropout(t[0], {.p = 0.5})};
  };
  const Tensor x = ones({5, 40});
  manual_seed(8);
  const auto compiled = jit::compile(f);
  const Tensor y = compiled({x})[0];
  CHECK(is_graph(compiled));
  manual_seed(8);
  CHECK(equal(taken, rand({4})));
  CHECK(equal(y, dropout(x, {.p = 0.5})));
}

TEST_CASE("compile: a default generator that f names is after the first call where f leaves it") {
  Generator& generator = default_generator();
  const Function f = [&](const Tensors& t) {
    const Tensor noise = rand(t[0].shape(), {}, &generator);
    generator.reserve(5);
    return Tensors{t[0] + noise, dropout(t[0], {.p = 0.5, .generator = &generator})};
  };
  const Tensor x = ones({5, 40});
  manual_seed(8);
  const Tensors want = f({x});
  const Generator::State after = generator.state();
  manual_seed(8);
  const Tensors got = jit::compile(f)({x});
  CHECK(equal(got[0], want[0]));
  CHECK(equal(got[1], want[1]));
  CHECK(generator.state() == after);
}

TEST_CASE("compile: a CUDA graph that f captures in its first call draws f's numbers" *
          test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  const Tensor x = ones({5, 40}, {.device = gpu});
  const auto results = [&](bool compiled) {
    const Tensor image = zeros({5, 40}, {.device = gpu});
    Tensor y;
    std::optional<cuda::Graph> graph;
    const Function step = [&](const Tensors& t) {
      if (!graph) {
        graph.emplace(gpu);
        graph->capture([&] { y = dropout(image, {.p = 0.5}); });
      }
      image.copy_(t[0]);
      graph->launch();
      return Tensors{y};
    };
    const auto f = compiled ? Function(jit::compile(step)) : step;
    manual_seed(8);
    std::vector<float> out;
    for (int call = 0; call < 3; ++call) {
      for (const float value : f({x})[0].to(kCPU).to_vector<float>()) out.push_back(value);
    }
    return out;
  };
  CHECK(results(true) == results(false));
}

TEST_CASE("compile: in a CUDA capture nothing is traced; what was traced before is captured" *
          test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  const Tensor x = ones({5, 40}, {.device = gpu});
  int runs = 0;
  const jit::CompiledFunction compiled = jit::compile([&](const Tensors& t) {
    ++runs;
    return Tensors{t[0] * 2 + 1};
  });
  const auto captured = [&] {
    Tensor y;
    cuda::Graph graph(gpu);
    graph.capture([&] { y = compiled({x})[0]; });
    graph.launch();
    return y.to(kCPU);
  };
  CHECK(equal(captured(), full({5, 40}, 3.0)));
  CHECK(runs == 1);
  CHECK(compiled.explain().find("in a CUDA capture: ") == 0);
  compiled({x});
  CHECK(is_graph(compiled));
  const int before = runs;
  CHECK(equal(captured(), full({5, 40}, 3.0)));
  CHECK(runs == before);
}

TEST_CASE("compile: hooks of a module are called, also those that come after the first call") {
  nn::BatchNorm1d bn(3);
  const auto compiled = jit::compile([&](const Tensors& t) { return Tensors{bn(t[0]) * 2}; }, &bn);
  const Tensor x = randn({4, 3});
  compiled({x});
  CHECK(is_graph(compiled));
  int calls = 0;
  const int64_t hook = bn.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor& y) {
    ++calls;
    return y + 1;
  });
  const Tensor with = compiled({x})[0];
  CHECK(calls == 1);
  CHECK(compiled.explain().find("does not call the hooks of modules") != std::string::npos);
  bn.remove_hook(hook);
  CHECK(equal(with, (bn(x) + 1) * 2));
  compiled({x});
  CHECK(calls == 1);
}

TEST_CASE("compile: a batch norm that sums over ranks is no graph, also after the first call") {
  nn::BatchNorm1d bn(3), twin(3);
  const auto compiled = jit::compile([&](const Tensors& t) { return Tensors{bn(t[0]) * 2}; }, &bn);
  const Tensor x = randn({4, 3});
  compiled({x});
  twin(x);
  CHECK(is_graph(compiled));
  for (nn::BatchNorm1d* const norm : {&bn, &twin})
    norm->set_sum_over_ranks([](const Tensor& t) { return t * 2 + 1; });
  CHECK(equal(compiled({x})[0], twin(x) * 2));
  CHECK(equal(bn.running_mean, twin.running_mean));
  CHECK(compiled.explain().find("batch norm sums over ranks") != std::string::npos);
  bn.train(false);
  compiled({x});
  CHECK(is_graph(compiled));
}

TEST_CASE("passes: a node that writes stays, once for each call, and where it was") {
  const std::string twice = kHead + norm("%0", "%x") + norm("%1", "%x") + "output %x\n";
  CHECK(after(jit::remove_dead_code, twice) == twice);
  CHECK(after(jit::merge_common_subexpressions, twice) == twice);
  const std::string around = kHead + "%0: f32[3] = neg(@m)\n" + norm("%1", "%x") +
                             "%2: f32[3] = neg(@m)\n%3: f32[3] = add(%0, %2)\noutput %1, %3\n";
  CHECK(after(jit::merge_common_subexpressions, around) == around);
  const std::string grouped = after(jit::fuse_pointwise, around);
  CHECK(grouped.find("= neg(@m)") < grouped.find("batch_norm"));
  const std::string drops =
      kHead + "%0: f32[N,3] = dropout(%x, p=0.5)\n%1: f32[N,3] = dropout(%x, p=0.5)\noutput %x\n";
  CHECK(after(jit::merge_common_subexpressions, drops) ==
        "input %x: f32[N,3]\n" + drops.substr(kHead.size()));
  CHECK(after(jit::remove_dead_code, drops) == "input %x: f32[N,3]\n" + drops.substr(kHead.size()));

  jit::Graph known = jit::parse(
      "lathe graph 1\nconst @x: f32[2,3]\n" + kHead.substr(kHead.find("buffer")) +
      "%0: f32[2,3] = batch_norm(@x, none, none, @m, @v, @n, training=true, momentum=0.1, "
      "eps=1e-05)\n%1: f32[3] = neg(@m)\noutput %0, %1\n");
  StateDict tensors;
  tensors.add("x", randn({2, 3}));
  tensors.add("m", zeros({3}));
  tensors.add("v", ones({3}));
  tensors.add("n", zeros({}, {.dtype = kI64}));
  known.bind(tensors);
  jit::fold_constants(known);
  CHECK(known.nodes.size() == 2);
  CHECK(equal(tensors.at("n"), zeros({}, {.dtype = kI64})));
}
