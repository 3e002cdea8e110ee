// A step that was captured into a graph: launched again, it goes on counting and follows the
// learning rate.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/novograd.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"
#include "make_optimizer.h"
#include "rule_optimizers.h"

namespace lathe {
namespace {

using namespace test;

const std::vector<MakeOptimizer>& optimizers() {
  static const std::vector<MakeOptimizer> all = with_rule_optimizers({
      make<optim::SGD>(optim::SGDOptions{.lr = 0.5}),
      make<optim::SGD>(optim::SGDOptions{.lr = 0.5, .momentum = 0.9}),
      make<optim::Adam>(optim::AdamOptions{.lr = 0.5}),
      make<optim::AdamW>(optim::AdamWOptions{.lr = 0.5, .amsgrad = true}),
      make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.5, .momentum = 0.9}),
      make<optim::LARS>(optim::LARSOptions{.lr = 0.5}),
      make<optim::LAMB>(optim::LAMBOptions{.lr = 0.5}),
      make<optim::Adafactor>(optim::AdafactorOptions{.lr = 0.5}),
      make<optim::NovoGrad>(optim::NovoGradOptions{.lr = 0.5}),
  });
  return all;
}

Tensors make_params(Device device) {
  Tensors out = {param(full({3}, 1.5), device), param(full({2, 2}, -0.5), device)};
  for (const Tensor& p : out) p.set_grad(full(p.shape(), 0.25, {.device = device}));
  return out;
}

TEST_CASE("captured step: launched again it counts on and follows the learning rate" *
          cuda_case()) {
  const Device device(DeviceType::kCUDA);
  for (const MakeOptimizer& make_optimizer : optimizers()) {
    const Tensors eager = make_params(device), captured = make_params(device);
    const auto first = make_optimizer(eager), second = make_optimizer(captured);
    INFO(first->name());
    second->set_lr(0.5);
    second->set_capturable();
    second->step();  // makes the state
    cuda::Graph graph(device);
    graph.capture([&] { second->step(); });
    for (const double lr : {0.5, 0.5, 0.25, 0.125}) {
      second->set_lr(lr);
      graph.launch();
    }
    for (const double lr : {0.5, 0.5, 0.5, 0.25, 0.125}) {
      first->set_lr(lr);
      first->step();
    }
    CHECK(everything(captured, *second) == everything(eager, *first));
  }
}

TEST_CASE("captured step: a capture does not begin an optimiser's state" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  for (const bool capturable : {false, true}) {
    CAPTURE(capturable);
    const Tensors params = make_params(device);
    optim::SGD optimizer(params, {.lr = 0.5, .momentum = 0.9});
    if (capturable) optimizer.set_capturable();
    const auto check_refused = [&] {
      const auto before = everything(params, optimizer);
      CHECK_THROWS_WITH_AS(cuda::Graph(device).capture([&] { optimizer.step(); }),
                           doctest::Contains("SGD: a capture cannot begin the optimiser's state"),
                           StateError);
      CHECK(everything(params, optimizer) == before);
    };
    check_refused();
    const Tensor grad = params[1].grad();
    params[1].set_grad({});
    optimizer.step();
    params[1].set_grad(grad);
    check_refused();  // the second parameter has no momentum yet
    optimizer.step();
    cuda::Graph(device).capture([&] { optimizer.step(); });
    optimizer.load_state_dict(optimizer.state_dict());
    if (capturable) check_refused();  // the counts and the rate are to be made again
  }
}

TEST_CASE("captured step: a rate in device memory costs a launch when it changes, none in a step" *
          cuda_case()) {
  const Device device(DeviceType::kCUDA);
  const Tensors params = make_params(device);
  optim::AdamW optimizer(params, {.lr = 0.5});
  optimizer.set_capturable();
  optimizer.step();
  const cuda::Counters before = cuda::counters();
  const auto launches = [&] { return cuda::counters().launches - before.launches; };
  optimizer.step();
  CHECK(launches() == 2);  // the counts, which without a scaler nobody else raises; the update
  optimizer.set_lr(0.5);
  CHECK(launches() == 2);
  optimizer.set_lr(0.25);
  CHECK(launches() == 3);
  optimizer.step();
  CHECK(launches() == 5);
  CHECK(cuda::counters().synchronizations == before.synchronizations);
}

TEST_CASE("captured step: a loaded state brings its learning rate" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  const Tensors params = make_params(device), others = make_params(device);
  optim::SGD from(params, {.lr = 0.125, .momentum = 0.5}), to(others, {.lr = 0.5, .momentum = 0.9});
  to.set_capturable();
  from.step();
  to.step();
  for (size_t i = 0; i < others.size(); ++i) copy_values(others[i], params[i]);
  to.load_state_dict(from.state_dict());
  from.step();
  to.step();
  CHECK(everything(others, to) == everything(params, from));
}

TEST_CASE("captured step: on the CPU set_capturable changes nothing") {
  const Tensors params = make_params(kCPU), others = make_params(kCPU);
  optim::AdamW plain(params, {.lr = 0.5}), capturable(others, {.lr = 0.5});
  capturable.set_capturable();
  for (const double lr : {0.5, 0.25}) {
    plain.set_lr(lr);
    capturable.set_lr(lr);
    plain.step();
    capturable.step();
  }
  CHECK(everything(others, capturable) == everything(params, plain));
}

}  // namespace
}  // namespace lathe
