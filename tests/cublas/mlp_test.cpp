// Activations in the epilogues of cuBLASLt, on a GPU or over the emulated one: what they compute, and
// how many kernels that saves. Which epilogue is asked for, and what takes its place where cuBLAS has
// none: mlp_epilogues_test.cpp.
#include "lathe/ops/mlp.h"

#include <cmath>
#include <limits>

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../own_launches.h"
#include "../same_memory.h"
#include "fixture.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/mlp.h"
#include "perceptron.h"

using namespace lathe;
using namespace lathe::test;

TEST_SUITE_BEGIN("cublas" * cuda_case());

TEST_CASE("mlp: activations and their gradients through cuBLAS agree with the CPU") {
  Fixture f;
  for (const Activation a :
       {Activation::kRelu, Activation::kFastRelu, Activation::kGelu, Activation::kGeluTanh}) {
    for (const DType dtype : {kF32, kF16, kBF16, kF64}) Perceptron(5, 7, 9, 3, a, dtype).check();
    Perceptron(1, 8, 130, 4, a).check();  // bits of more than 128 rows
    Perceptron(3, 1, 1, 1, a).check();
    Perceptron(0, 4, 3, 2, a).check();
  }
}

TEST_CASE("MLP: a training step launches two kernels less per hidden layer") {
  Fixture f;
  const auto launches_of_step = [](nn::Module& model) {
    model.to(kGpu);
    const Tensor x = rand({4, 8}).to(kGpu), dy = rand({4, 3}).to(kGpu);
    const auto step = [&] { model(x).backward(dy); };
    step();
    model.zero_grad();
    const EmulatedCount before = products();
    const int64_t launches = own_launches(step);
    // Forward 3; backward 3 for the parameters and 2 for the layers below.
    CHECK(products() == before + 8);
    return launches;
  };
  const auto check = [&]<class Layer>(Activation activation, auto... options) {
    nn::Sequential apart;
    apart.add<nn::Linear>(8, 16);
    apart.add<Layer>(options...);
    apart.add<nn::Linear>(16, 16);
    apart.add<Layer>(options...);
    apart.add<nn::Linear>(16, 3);
    nn::MLP fused(8, {16, 16, 3}, {.activation = activation});
    const int64_t launches = launches_of_step(apart), left = launches_of_step(fused);
    MESSAGE(launches, " launches of our own, fused ", left);
    // A real cuBLAS may lack an epilogue for these sizes, and a kernel of ours is in its place.
    CHECK(left < launches);
    if (!kEmulated) return;
    CHECK(launches == 4);  // two activations forward and two back
    CHECK(left == 0);
  };
  check.template operator()<nn::ReLU>(Activation::kFastRelu);
  check.template operator()<nn::GELU>(Activation::kGeluTanh,
                                      GeluOptions{.tanh_approximation = true});
}

TEST_CASE("mlp: deterministic mode adds up no bias gradient in an epilogue") {
  Fixture f;
  set_deterministic(true);
  const Perceptron p(6, 5, 9, 4, Activation::kFastRelu);
  p.check();
  const Tensors first = p.outcome(kGpu), again = p.outcome(kGpu);
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(difference(again[i].cpu(), first[i].cpu(), 0) == "");
  }
}

TEST_CASE("mlp: a NaN in a layer reaches the loss") {
  Fixture f;
  Perceptron p(4, 6, 8, 3, Activation::kRelu);
  p.inputs[2] = full({8}, std::numeric_limits<float>::quiet_NaN());
  const Tensor y = p.outcome(kGpu)[0].cpu();
  for (int64_t i = 0; i < y.numel(); ++i) CHECK(std::isnan(y.data<float>()[i]));
}

TEST_CASE("mlp: factors and biases of every layout") {
  Fixture f;
  for (const Layout& layout : layouts()) {
    Perceptron p(4, 6, 9, 3, Activation::kGeluTanh);
    const Tensors want = p.outcome(kCPU);
    const auto there = [&](size_t i) {
      return same_memory_on(kGpu, layout.apply(p.inputs[i])).detach();
    };
    const Tensor y =
        mlp(there(0), {{there(1), there(2)}, {there(3), there(4)}}, {.activation = p.activation});
    CHECK_MESSAGE(difference(y.cpu(), want[0], p.tolerance()) == "", layout.name);
  }
}

TEST_SUITE_END();
