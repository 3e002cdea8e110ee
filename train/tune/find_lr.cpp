// The sweep of a range test. Contract: find_lr.h.
#include "lathe/train/tune/find_lr.h"

#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/state_dict.h"

namespace lathe::train {
namespace {

/// A copy in host memory.
StateDict copy_of(const StateDict& state) {
  StateDict out;
  for (const auto& [name, value] : state)
    out.add(name, value.device().is_cpu() ? value.clone() : value.to(kCPU));
  return out;
}

/// Gives model and optimiser their state back.
class Restore {
 public:
  Restore(nn::Module& model, optim::Optimizer& optimizer)
      : model_(model),
        optimizer_(optimizer),
        of_model_(copy_of(model.state_dict())),
        of_optimizer_(copy_of(optimizer.state_dict())) {}
  ~Restore() {
    try {
      optimizer_.zero_grad();
      model_.load_state_dict(of_model_);
      optimizer_.load_state_dict(of_optimizer_);
    } catch (const Error&) {  // of a GPU that has failed; the error that is on its way says so
    }
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  const StateDict of_model_, of_optimizer_;
};

}  // namespace

LrSearch find_lr(nn::Module& model, optim::Optimizer& optimizer, const LossFunction& loss,
                 Batches& batches, const FindLrOptions& options) {
  LrSearch out{.range = LrRange(options.range)};
  LrRange& range = out.range;
  const Restore restore(model, optimizer);
  StepOptions step_options = options.step;
  step_options.capture = false;
  Step step(model, optimizer, loss, step_options);
  optimizer.set_lr(range.lr_at(0));
  int64_t samples = 0;  // since the last update; the end of an epoch may lie among them
  double loss_sum = 0;
  bool more = true;
  for (int64_t epoch = 0; more; ++epoch) {
    const std::unique_ptr<Pass> pass = batches.begin(epoch, 0);
    bool any = false;
    for (Tensors batch; more && pass->next(batch); any = true) {
      batches.make(batch);
      const Result result = step(batch);
      loss_sum += result.loss.item<double>() * static_cast<double>(result.samples);
      samples += result.samples;
      if (step.batches() > 0) continue;
      ++out.steps;
      more = range.add(std::exchange(loss_sum, 0) / static_cast<double>(std::exchange(samples, 0)));
      if (!more) break;
      optimizer.set_lr(range.lr_at(static_cast<int64_t>(range.points().size())));
      if (options.on_step) options.on_step(range);
    }
    LATHE_CHECK(ValueError, any || !more, "find_lr: epoch ", epoch, " has no batches");
  }
  out.skipped = step.scaler().read_progress().skipped;
  return out;
}

}  // namespace lathe::train
