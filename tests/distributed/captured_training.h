// A small model that ranks train, step by step, for tests of captured steps.
#pragma once

#include <optional>
#include <string>

#include "gpu_ranks.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/format.h"
#include "lathe/distributed/data_parallel.h"
#include "lathe/distributed/zero_redundancy.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/sgd.h"
#include "parts.h"

namespace lathe::test {

struct NormedNet : nn::Module {
  Tensor forward(const Tensor& x) override { return b(norm(a(x))); }
  nn::Linear a{*this, "a", 6, 8};
  nn::BatchNorm1d norm{*this, "norm", 8};
  nn::Linear b{*this, "b", 8, 3};
};

struct CapturedKind {
  const char* name;
  std::optional<DType> half;
  bool copies, sharded;
};
inline const CapturedKind kKinds[] = {{"f32", {}, false, false},
                                      {"f16", kF16, false, false},
                                      {"f16 with half copies", kF16, true, false},
                                      {"divided state", {}, false, true},
                                      {"bf16, divided state and half copies", kBF16, true, true}};

struct CapturedTraining {
  CapturedTraining(distributed::ProcessGroup& group, const CapturedKind& chosen, Device device)
      : kind(chosen) {
    set_weights(net);
    net.to(device);
    optimizer.emplace(net.parameters(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    optimizer->set_capturable();
    parallel.emplace(
        group, net, distributed::DataParallelOptions{.first_bucket_bytes = 64, .bucket_bytes = 64});
    if (kind.copies) optimizer->set_half_copies();
    if (kind.sharded) zero.emplace(group, *optimizer);
    x = zeros({4, 6}, {.device = device});
    y = ones({4, 3}, {.device = device});
  }

  void step() {
    std::optional<Autocast> scope;
    if (kind.half) scope.emplace(x.device(), *kind.half);
    const Tensor out = (*parallel)(x);
    scope.reset();
    loss = mse_loss(out.to(kF32), y);
    scaler.scale(loss).backward();
    scaler.step(*optimizer, {.max_grad_norm = 0.5, .fused = true});
    scaler.update();
    optimizer->zero_grad();
  }

  std::string state() {
    Tensors all = net.parameters();
    for (const auto& [name, buffer] : net.named_buffers()) all.push_back(buffer);
    all.push_back(loss);
    return values_of(all) + concat(scaler.get_scale());
  }

  const CapturedKind& kind;
  NormedNet net;
  std::optional<optim::SGD> optimizer;
  std::optional<distributed::DistributedDataParallel> parallel;
  std::optional<distributed::ZeroRedundancyOptimizer> zero;
  optim::GradScaler scaler{{.init_scale = 256, .growth_interval = 3}};
  Tensor x, y, loss;
};

}  // namespace lathe::test
