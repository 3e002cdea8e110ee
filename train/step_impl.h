// What a Step consists of. Only step.cpp and step_capture.cpp include this.
#pragma once

#include <optional>
#include <utility>

#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/device.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/train/accumulation.h"
#include "lathe/train/step.h"

namespace lathe::train {

/// The call that comes next: after kReady forward(), after kForward backward(), after kBackward
/// update().
enum class Stage : uint8_t { kReady, kForward, kBackward };

struct Step::Impl {
  Impl(nn::Module& net, optim::Optimizer& update_rule, LossFunction loss_function,
       const StepOptions& asked);

  Result compute(const Tensors& batch);
  void apply_gradients(bool keep);
  void average_gradients();

  // step_capture.cpp:
  bool can_capture() const;
  void prepare_capture();
  bool launches(const Tensors& batch, bool stays);
  Tensors record(const Tensors& batch, bool adds);
  void abandon_recording(bool adds);
  void move_to_recorded_gradients();
  void use_recorded_gradients();

  nn::Module& model;
  optim::Optimizer& optimizer;
  const LossFunction loss;
  const StepOptions options;
  const Tensors parameters;
  const Device device;
  optim::GradScaler scaler;
  std::optional<distributed::DistributedDataParallel> parallel;  // with a group
  std::optional<cuda::StepGraphs> graphs;                        // unless steps run as they are

  Accumulation batches;  // since the last update
  Stage stage = Stage::kReady;
  Result result;                    // of the batch
  bool ends = false;                // the batch ends its update
  bool launched = false;            // by a graph
  Tensors gradients;                // what graphs add gradients up in, of parameters
  Shape first_batch;                // of the graph that makes them
  bool gradients_in_graph = false;  // those of the present update are there
};

}  // namespace lathe::train
