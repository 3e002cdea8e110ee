// lathe plan: which launches the ops of any model become, beside the operations that the ops note
// for the profiler, and op by op.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/math_mode.h"
#include "lathe/lathe.h"
#include "lathe/profile/profiler.h"
#include "lathe/train/plan/optimizer_launches.h"
#include "planned_step.h"

using namespace lathe;
using namespace lathe::plan;
using namespace lathe::test;

namespace {

#if defined(LATHE_ASAN) || defined(LATHE_TSAN)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

/// No channels are filled up, so that products have the sizes of the layers.
StepCase exact(const std::string& amp, int64_t side) {
  return {.amp = amp, .channels_last = false, .side = side};
}
constexpr LaunchOptions kExact{.tf32 = false};

constexpr int64_t kSide = 8, kFeatures = 3 * kSide * kSide;

/// Layers of a test's own over [images, 192], with their parameters.
struct Net : nn::Module {
  using Forward = std::function<Tensor(const Tensor&)>;
  Forward forward_;
  Tensor forward(const Tensor& x) override { return forward_(flatten(x, 1)); }
  Tensor weight(const char* name, const Shape& shape, bool frozen = false) {
    return frozen ? buffer(name, randn(shape)) : Tensor(parameter(name, randn(shape)));
  }
  using Module::adopt;
};

struct Made {
  std::vector<Launch> launches;
  double noted = 0;  // operations of the products of a step, as its ops say
};

Made made_by(const StepCase& c, const MakeModel& make) {
  profile::Profiler profiler;
  const StepRecording recording = record(c, 2, make);
  profiler.stop();
  return {launches_of(recording, kExact), static_cast<double>(profiler.key_averages().flops()) / 3};
}

Made made_by(const std::string& amp, const std::function<Net::Forward(Net&)>& build) {
  return made_by(exact(amp, kSide), [&] {
    auto net = std::make_unique<Net>();
    net->forward_ = build(*net);
    return net;
  });
}

double flops_of(const std::vector<Launch>& launches) {
  double sum = 0;
  for (const Launch& launch : launches) sum += launch.flops;
  return sum;
}

std::vector<Launch> of_op(const std::vector<Launch>& launches, const std::string& op) {
  std::vector<Launch> found;
  std::ranges::copy_if(launches, std::back_inserter(found),
                       [&](const Launch& launch) { return launch.op == op; });
  return found;
}

int64_t count_of(const std::vector<Launch>& launches, const std::string& kernel) {
  return std::ranges::count(launches, kernel, &Launch::kernel);
}

using Build = std::function<Net::Forward(Net&)>;

Build two_layers(bool frozen_weight, bool frozen_bias) {
  return [=](Net& net) -> Net::Forward {
    const Tensor w = net.weight("w", {16, kFeatures}, frozen_weight);
    const Tensor b = net.weight("b", {16}, frozen_bias), last = net.weight("last", {10, 16});
    return [=](const Tensor& x) { return linear(linear(x, w, b), last); };
  };
}
Net::Forward activated_layer(Net& net) {
  const Tensor w = net.weight("w", {10, kFeatures}), b = net.weight("b", {10});
  return [=](const Tensor& x) { return linear(x, w, b, Activation::kRelu); };
}
Net::Forward three_layers_in_one(Net& net) {
  const auto mlp = std::make_shared<nn::MLP>(kFeatures, std::vector<int64_t>{32, 16, 10});
  net.adopt(*mlp, "mlp");
  return [=](const Tensor& x) { return (*mlp)(x); };
}
Net::Forward convolutions(Net& net) {
  const Tensor w = net.weight("w", {8, 3, 3, 3}), b = net.weight("b", {8}),
               v = net.weight("v", {8, 8, 3, 3}), last = net.weight("last", {10, 128});
  return [=](const Tensor& x) {
    const Tensor images = x.view({2, 3, kSide, kSide});
    const Tensor h = relu(conv2d(images, w, {.bias = b, .pad = 1}));
    return linear(flatten(max_pool2d(relu(conv2d(h, v, {.pad = 1})), {}), 1), last);
  };
}
Net::Forward scaled_product(Net& net) {
  const Tensor w = net.weight("w", {kFeatures, 10}), b = net.weight("b", {10});
  return [=](const Tensor& x) { return addmm(b, x, w, {.beta = 0.5, .alpha = 2}); };
}

}  // namespace

// VGG's 10^8 weights would take long; its kinds of layers are in the next case.
TEST_CASE("plan: the products of every family of models do the operations that its ops note") {
  struct Family {
    std::string name;
    int64_t side;
    bool is_large;
  };
  for (const auto& [name, side, is_large] :
       {Family{"resnet8", 8, false}, Family{"resnet18", 8, true}, Family{"resnet50", 8, true},
        Family{"mobilenet_v2", 32, true}, Family{"efficientnet_b0", 32, true},
        Family{"convnext_tiny", 32, true}, Family{"vit_s_16", 32, false}}) {
    if (is_large && kIsSanitized) continue;  // they take a minute there
    for (const char* amp : {"off", "fp16"}) {
      CAPTURE(name);
      CAPTURE(amp);
      const Made made = made_by(exact(amp, side), named_model(name, side));
      CHECK(made.noted > 0);
      CHECK(flops_of(made.launches) == doctest::Approx(made.noted).epsilon(1e-9));
    }
  }
}

TEST_CASE("plan: layers of every form do the operations that their ops note") {
  struct Case {
    std::string name;
    Build build;
    int64_t products;
  };
  // The images need no gradient, so the first layer has two products at most, the others three.
  const Case cases[] = {{"weight and bias", two_layers(false, false), 5},
                        {"frozen weight", two_layers(true, false), 4},
                        {"frozen bias", two_layers(false, true), 5},
                        {"frozen layer", two_layers(true, true), 3},
                        {"activation", activated_layer, 2},
                        {"mlp", three_layers_in_one, 8},
                        {"convolutions with a bias", convolutions, 3},
                        {"addmm with factors", scaled_product, 2}};
  for (const Case& c : cases) {
    for (const char* amp : {"off", "fp16"}) {
      CAPTURE(c.name);
      CAPTURE(amp);
      const Made made = made_by(amp, c.build);
      CHECK(flops_of(made.launches) == doctest::Approx(made.noted).epsilon(1e-9));
      CHECK(count_of(made.launches, "cuBLASLt") == c.products);
    }
  }
}

TEST_CASE("plan: an op of one's own may have the name of a layer") {
  for (const char* name :
       {"linear", "conv2d", "cross_entropy", "batch_norm", "conv2d_weight_grad"}) {
    CAPTURE(name);
    const Made made = made_by("off", [&](Net& net) -> Net::Forward {
      const Tensor w = net.weight("w", {10, kFeatures});
      return [=](const Tensor& x) {
        const profile::OpRange none(name), one(name, {x});
        return matmul(x, w.t());
      };
    });
    CHECK(flops_of(made.launches) == made.noted);
  }
}

TEST_CASE("plan: what an op casts or reorders first does not hide the op") {
  const double x = 2.0 * kFeatures * 4;  // bytes of the images as f32
  const auto launches = [](const char* amp, Tensor (*op)(const Tensor&)) {
    return made_by(amp,
                   [&](Net& net) -> Net::Forward {
                     const Tensor w = net.weight("w", {10, kFeatures}),
                                  u = net.weight("u", {kFeatures});
                     return [=](const Tensor& t) { return linear(op(t * u), w); };
                   })
        .launches;
  };
  for (const char* amp : {"off", "fp16"}) {
    CAPTURE(amp);
    const auto softmaxed =
        launches(amp, [](const Tensor& t) { return softmax(t.to(kF16), -1).to(kF32); });
    REQUIRE(of_op(softmaxed, "softmax").size() == 1);
    CHECK(of_op(softmaxed, "softmax backward").size() == 1);
  }
  const auto backward = [&](Tensor (*op)(const Tensor&), const std::string& name) {
    return of_op(launches("off", op), name + " backward");
  };
  const auto soft = backward([](const Tensor& t) { return softmax(t, -1); }, "softmax");
  REQUIRE(soft.size() == 1);
  CHECK(soft[0].read_bytes == 2 * x);  // y and dy
  CHECK(soft[0].written_bytes == x);
  const auto dropped = backward([](const Tensor& t) { return dropout(t); }, "dropout");
  REQUIRE(dropped.size() == 1);
  CHECK(dropped[0].read_bytes == x);
  CHECK(dropped[0].written_bytes == x);
  const auto normed =
      backward([](const Tensor& t) { return layer_norm(t, Shape{kFeatures}); }, "layer_norm");
  REQUIRE(normed.size() == 1);
  CHECK(normed[0].read_bytes == 2 * x);
  CHECK(normed[0].written_bytes == x);
  const auto pooled = backward(
      [](const Tensor& t) {
        return flatten(upsample(max_pool2d(t.view({2, 3, kSide, kSide}), {}), {.scale = 2}), 1);
      },
      "max_pool2d");
  REQUIRE(pooled.size() == 1);
  CHECK(pooled[0].written_bytes == x);
}

TEST_CASE("plan: ops in place and copies inside views are launches") {
  const auto launches = [](Tensor (*op)(const Tensor&)) {
    return made_by("off",
                   [&](Net& net) -> Net::Forward {
                     const Tensor w = net.weight("w", {10, kFeatures});
                     return [=](const Tensor& t) { return linear(op(t), w); };
                   })
        .launches;
  };
  const double x = 2.0 * kFeatures * 4;
  const auto written = launches([](const Tensor& t) { return Tensor(relu_(t.clone())); });
  REQUIRE(of_op(written, "relu_").size() == 1);
  CHECK(of_op(written, "relu_")[0].bytes() == 2 * x);
  const auto turned = launches([](const Tensor& t) {
    return reshape(transpose(t.view({2, 3, kSide * kSide}), 1, 2), {2, kFeatures});
  });
  const auto copies = of_op(turned, "contiguous");
  CHECK(std::ranges::count(copies, 2 * x, &Launch::bytes) == 1);
}

TEST_CASE("plan: the optimiser takes as many parameters in a launch as its tables hold") {
  const auto updates = [](int count, const char* amp, const char* kernel) {
    const Made made = made_by(amp, [&](Net& net) -> Net::Forward {
      const Tensor w = net.weight("w", {10, kFeatures}), unused = net.weight("unused", {7});
      Tensors biases;
      for (int i = 1; i < count; ++i) biases.push_back(net.weight(concat("b", i).c_str(), {10}));
      return [=](const Tensor& t) {
        Tensor y = linear(t, w).to(kF32);
        for (const Tensor& b : biases) y = y + b;
        return y;
      };
    });
    std::vector<double> bytes;
    for (const Launch& launch : made.launches) {
      if (launch.kernel == kernel) bytes.push_back(launch.bytes());
    }
    return bytes;
  };
  const double w = 10 * kFeatures;
  CHECK(updates(73, "off", "update_kernel") == std::vector<double>{20 * (w + 720)});
  CHECK(updates(75, "off", "update_kernel") == std::vector<double>{20 * (w + 720), 400});
  CHECK(updates(75, "fp16", "update_kernel") == std::vector<double>{20 * w, 20 * 730, 20 * 10});
  CHECK(updates(75, "fp16", "norm_parts_kernel") == std::vector<double>{4 * 740, 2 * w});
}

TEST_CASE("plan: where tables of parameters and of counts run over, there are more launches") {
  StepRecording step;
  step.parameters = {std::vector<TensorNote>(1000, {.shape = {5000}}),
                     std::vector<TensorNote>(10, {.shape = {3}})};
  const auto launches = [&](const char* optimizer, const char* amp, double clip = 0) {
    step.optimizer = optimizer;
    step.momentum = true;
    step.amp = amp;
    step.clip_grad_norm = clip;
    std::map<std::string, int> out;
    for (const OptimizerLaunch& launch : optimizer_launches(step)) ++out[launch.kernel];
    return out;
  };
  using Counts = std::map<std::string, int>;
  // 4 KiB of arguments: 192 gradients, 448 counts, 73 parameters with one buffer, 64 with two.
  CHECK(launches("SGD", "off") == Counts{{"update_kernel", 14 + 1}});
  CHECK(launches("Adam", "off", 1) ==
        Counts{{"norm_parts_kernel", 6}, {"begin_step_kernel", 1}, {"update_kernel", 16 + 1}});
  CHECK(launches("LAMB", "fp16") == Counts{{"norm_parts_kernel", 6},
                                           {"begin_step_kernel", 1},
                                           {"count_step_kernel", 2 + 1},
                                           {"layer_norms_kernel", 16 + 1},
                                           {"layer_step_kernel", 16 + 1}});
  double sums = 0;
  step.optimizer = "NovoGrad";
  step.amp = "off";
  for (const OptimizerLaunch& launch : optimizer_launches(step))
    if (launch.kernel == "layer_rates_kernel") sums += launch.read_bytes;
  CHECK(sums == 16 * (1000 * 2 + 10));  // two chunks of 4,096 numbers, or one
}

TEST_CASE("plan: whether channels are filled up is what the caller says, not the process") {
  for (const bool process : {false, true}) {
    CAPTURE(process);
    const bool before = tf32();
    set_tf32(process);
    const StepRecording step = record({.amp = "off", .side = 8}, 2, named_model("resnet8", 8));
    const auto extra = [&](bool on) {
      return sum_of(launches_of(step, {.tf32 = on}), LaunchKind::kElementwise).extra_bytes;
    };
    CHECK(extra(false) == 0);
    CHECK(extra(true) > 0);
    CHECK(tf32() == process);
    set_tf32(before);
  }
}
