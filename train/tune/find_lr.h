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
  StepOptions step = {};  // `capture` is ignored: the host reads each loss
  std::function<void(const LrRange&)> on_step = {};  // called after each update but the last
};

struct LrSearch {
  LrRange range;
  int64_t steps = 0, skipped = 0;  // updates; how many of them the loss scale skipped
};

/// Trains with a learning rate that rises from update to update, until the loss diverges or all
/// steps are made (LrRange::add()). The loss of an update is the mean over its samples. Call
/// model.train() first. Afterwards, also after an error, model and optimiser have their old state
/// again, but the default generators do not.
/// throws: ValueError for a bad range or an epoch without batches; what reading batches and
/// train::Step throw.
LATHE_API LrSearch find_lr(nn::Module& model, optim::Optimizer& optimizer, const LossFunction& loss,
                           Batches& batches, const FindLrOptions& options = {});
/// find_lr() with the batches of a loader (batches_of()).
template <class Loader>
requires(!std::derived_from<Loader, Batches>) LrSearch
    find_lr(nn::Module& model, optim::Optimizer& optimizer, const LossFunction& loss,
            Loader& loader, const FindLrOptions& options = {}) {
  const Device device = model.parameters().at(0).device();
  return find_lr(model, optimizer, loss, *batches_of(loader, device), options);
}

}  // namespace lathe::train
