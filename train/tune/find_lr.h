// find_lr(): the learning-rate range test of a model.
//
//   const train::LrSearch found = train::find_lr(model, optimizer, loss, loader);
//   optimizer.set_lr(found.range.suggestion().lr);
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>

#include "lathe/core/config.h"
#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"
#include "lathe/train/batches.h"
#include "lathe/train/step.h"
#include "lathe/train/tune/lr_range.h"

namespace lathe::train {

struct FindLrOptions {
  LrRangeOptions range = {};
  StepOptions step = {};  // `capture` is not read: the host reads each loss
  std::function<void(const LrRange&)> on_step = {};  // after an update that is not the last
};

struct LrSearch {
  LrRange range;
  int64_t steps = 0, skipped = 0;  // updates; those of them that the loss scale skipped
};

/// Trains with learning rates that rise from update to update, epoch after epoch, until
/// LrRange::add() has seen enough. A loss is the mean over the samples of an update. Call
/// model.train() first. Model and optimiser have their state back afterwards, also after an error;
/// the default generators have gone on.
/// throws: ValueError for bad ranges and for batches of an empty epoch; what reading batches and
/// train::Step throw.
LATHE_API LrSearch find_lr(nn::Module& model, optim::Optimizer& optimizer, const LossFunction& loss,
                           Batches& batches, const FindLrOptions& options = {});
/// The same for a loader (batches_of()).
template <class Loader>
requires(!std::derived_from<Loader, Batches>) LrSearch
    find_lr(nn::Module& model, optim::Optimizer& optimizer, const LossFunction& loss,
            Loader& loader, const FindLrOptions& options = {}) {
  const Device device = model.parameters().at(0).device();
  return find_lr(model, optimizer, loss, *batches_of(loader, device), options);
}

}  // namespace lathe::train
