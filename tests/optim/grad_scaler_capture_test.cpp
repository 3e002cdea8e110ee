// GradScaler on a stream that is being captured into a graph, where no event may be asked.
#include <doctest/doctest.h>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"

namespace lathe {
namespace {

using namespace test;

TEST_CASE(
    "GradScaler: captured steps ask no event and report nothing; the scale follows their launches" *
    cuda_case()) {
  const Device device(DeviceType::kCUDA);
  optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.1});
  optimizer.set_capturable();
  optim::GradScaler scaler({.init_scale = 512});
  begin(scaler, device);
  const auto step = [&](double gradient) {
    optimizer.params()[0].set_grad(full({2}, gradient, {.device = device}));
    scaler.step(optimizer);
    scaler.update();
  };
  step(1);  // makes the optimiser's state
  cuda::synchronize(device);
  step(kInfinity);  // its report is on the way
  cuda::Graph two_steps(device), one_step(device);
  two_steps.capture([&] {
    step(kInfinity);
    step(1);
    CHECK(scaler.progress().steps == 1);
  });
  cuda::synchronize(device);
  CHECK(scaler.progress().steps == 2);  // nothing has run
  one_step.capture([&] { step(1); });   // with no report on the way
  two_steps.launch();
  one_step.launch();
  cuda::synchronize(device);
  CHECK(scaler.read_progress().steps == 5);  // what a checkpoint takes is of every step
  CHECK(scaler.read_progress().skipped == 2);
  CHECK(scaler.read_progress().scale == 128);
  step(1);
  cuda::synchronize(device);
  CHECK(scaler.progress().steps == 6);
  CHECK(scaler.progress().skipped == 2);
  CHECK(scaler.get_scale() == 128);
}

TEST_CASE("GradScaler: after launches of a graph the host learns of the scale and of its floor" *
          cuda_case()) {
  const Device device(DeviceType::kCUDA);
  const Tensor gradient = ones({2}, {.device = device});
  optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.125});
  optimizer.set_capturable();
  optim::GradScaler scaler({.init_scale = 4, .min_scale = 1});
  begin(scaler, device);
  const auto step = [&] {
    optimizer.params()[0].set_grad(gradient.clone());
    scaler.step(optimizer);
    scaler.update();
  };
  step();
  cuda::Graph graph(device);
  graph.capture(step);
  const auto launch = [&] {
    graph.launch();
    scaler.after_launch();
    cuda::synchronize(device);
  };
  launch();
  launch();
  CHECK(scaler.progress().steps == 3);
  CHECK(scaler.progress().skipped == 0);
  fill_values(gradient, kInfinity);
  launch();
  launch();
  CHECK(scaler.progress().steps == 5);
  CHECK(scaler.progress().skipped == 2);
  CHECK(scaler.progress().scale == 1);
  launch();  // refuses to go below the floor, which the next call reports
  CHECK_THROWS_AS(launch(), optim::LossScaleError);
}

TEST_CASE("GradScaler: a capture does not begin the loss scale" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  optim::GradScaler scaler({.init_scale = 4});
  const Tensor loss = ones({}, {.device = device});
  CHECK_THROWS_WITH_AS(cuda::Graph(device).capture([&] { scaler.scale(loss); }),
                       doctest::Contains("GradScaler: a capture cannot begin the loss scale"),
                       StateError);
  begin(scaler, device);
  cuda::Graph(device).capture([&] { scaler.scale(loss); });
  CHECK(scaler.get_scale() == 4);
}

TEST_CASE("GradScaler: a step that is given up leaves room for the next") {
  for (const Device device : devices()) {
    optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.1});
    optim::GradScaler scaler({.init_scale = 2});
    begin(scaler, device);
    optimizer.params()[0].set_grad(ones({2}, {.device = device}));
    scaler.unscale_(optimizer);
    CHECK_THROWS_AS(scaler.unscale_(optimizer), StateError);
    scaler.abandon_step();
    scaler.unscale_(optimizer);
    scaler.step(optimizer);
    scaler.update();
    CHECK(scaler.read_progress().steps == 1);
  }
}

}  // namespace
}  // namespace lathe
