// The parts of a step.
#include "lathe/train/step.h"

#include <cmath>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/recompute.h"
#include "lathe/core/error.h"
#include "lathe/train/step_impl.h"

namespace lathe::train {
namespace {

optim::GradScalerOptions scaling_of(const StepOptions& options) {
  return options.scaling.value_or(optim::GradScalerOptions{.enabled = options.amp == "fp16"});
}

Device device_of(const Tensors& parameters) {
  LATHE_CHECK(ValueError, !parameters.empty(), "train::Step: the model has no parameters");
  return parameters.front().device();
}

void check(const LossFunction& loss, const StepOptions& options) {
  LATHE_CHECK(ValueError, loss != nullptr, "train::Step: the loss function is empty");
  LATHE_CHECK(ValueError, options.amp == "off" || options.amp == "bf16" || options.amp == "fp16",
              "train::Step: amp must be off, bf16 or fp16, got \"", options.amp, "\"");
  LATHE_CHECK(ValueError, options.accumulate >= 1,
              "train::Step: accumulate must be at least 1, got ", options.accumulate);
  LATHE_CHECK(ValueError, options.clip_grad_norm >= 0 && std::isfinite(options.clip_grad_norm),
              "train::Step: clip_grad_norm must be finite and not negative, got ",
              options.clip_grad_norm);
}

}  // namespace

Step::Impl::Impl(nn::Module& net, optim::Optimizer& update_rule, LossFunction loss_function,
                 const StepOptions& asked)
    : model(net),
      optimizer(update_rule),
      loss(std::move(loss_function)),
      options(asked),
      parameters(model.parameters()),
      device(device_of(parameters)),
      scaler(scaling_of(options)) {
  // Without an order that is learnt, a training that is continued has the same bits.
  if (options.group != nullptr) {
    parallel.emplace(*options.group, model, distributed::DataParallelOptions{.learn_order = false});
  }
  if (can_capture()) prepare_capture();
  if (options.amp != "off") optimizer.set_half_copies();
}

Step::Step(nn::Module& model, optim::Optimizer& optimizer, LossFunction loss,
           const StepOptions& options) {
  check(loss, options);
  impl_ = std::make_unique<Impl>(model, optimizer, std::move(loss), options);
}
Step::~Step() = default;

Result Step::operator()(const Tensors& batch, const BatchOptions& options) {
  try {
    Result result = forward(batch, options);
    backward();
    if (ends_update()) update();
    return result;
  } catch (...) {
    discard();
    throw;
  }
}

Result Step::forward(const Tensors& batch, const BatchOptions& options) {
  Impl& s = *impl_;
  LATHE_CHECK(StateError, s.stage == Stage::kReady,
              "train::Step: ", s.stage == Stage::kForward ? "backward()" : "update()",
              " of the batch before must come first");
  LATHE_CHECK(ValueError, !batch.empty() && batch.front().ndim() > 0 && batch.front().dim(0) > 0,
              "train::Step: the batch has no samples (",
              batch.empty() ? "it has no tensors" : concat(batch.front()), ")");
  if (s.batches.count() == 0) s.optimizer.zero_grad();
  s.batches.add(batch.front().dim(0));
  s.ends = options.last || s.batches.count() == s.options.accumulate;
  s.launched = s.graphs && s.launches(batch, options.stays);
  if (!s.launched) s.result = s.compute(batch);
  s.stage = Stage::kForward;
  return s.result;
}

Result Step::Impl::compute(const Tensors& batch) {
  if (parallel) parallel->broadcast_buffers();
  const Recompute again(options.recompute);
  const Autocast half(device, options.amp == "bf16" ? kBF16 : kF16, options.amp != "off");
  Result made = loss(batch);
  made.samples = batch.front().dim(0);
  LATHE_CHECK(ValueError, made.loss.defined() && made.loss.ndim() == 0,
              "train::Step: the loss must be 0-d, the mean over the batch (loss: ",
              made.loss.defined() ? concat(made.loss) : "undefined", ")");
  return made;
}

void Step::backward() {
  Impl& s = *impl_;
  LATHE_CHECK(StateError, s.stage == Stage::kForward, "train::Step: forward() must come first");
  if (!s.launched) {
    const Tensor loss = s.scaler.scale(s.batches.weighted(s.result.loss));
    if (s.parallel && !s.ends) {
      const auto adds_up = s.parallel->no_sync();
      loss.backward();
    } else {
      loss.backward();
    }
  }
  s.result = {};
  s.stage = s.ends ? Stage::kBackward : Stage::kReady;
}

bool Step::ends_update() const { return impl_->ends; }

void Step::update(const std::function<void()>& look) {
  Impl& s = *impl_;
  LATHE_CHECK(StateError, s.stage == Stage::kBackward,
              "train::Step: update() needs a batch that ends an update (ends_update())");
  if (s.launched) {
    s.scaler.after_launch();
  } else {
    s.average_gradients();
    s.apply_gradients(look != nullptr);
    if (look) look();
  }
  discard();
}

void Step::Impl::average_gradients() {
  if (batches.count() == 1) return;
  for (const Tensor& p : parameters) {
    if (p.grad().defined()) p.grad().mul_(1.0 / batches.sum_of_weights());
  }
}

// `keep`: the gradients in memory are unscaled and clipped afterwards.
void Step::Impl::apply_gradients(bool keep) {
  scaler.step(optimizer, {.max_grad_norm = options.clip_grad_norm, .fused = !keep});
  if (options.ema != nullptr) options.ema->update({.found_inf = scaler.found_inf(optimizer)});
  scaler.update();
}

void Step::discard() {
  Impl& s = *impl_;
  s.scaler.abandon_step();
  s.optimizer.zero_grad();
  s.batches.clear();
  s.result = {};
  s.stage = Stage::kReady;
}

bool Step::launched() const { return impl_->launched; }
int64_t Step::batches() const { return impl_->batches.count(); }
optim::GradScaler& Step::scaler() { return impl_->scaler; }
optim::Optimizer& Step::optimizer() { return impl_->optimizer; }
distributed::DistributedDataParallel* Step::parallel() {
  return impl_->parallel ? &*impl_->parallel : nullptr;
}
cuda::StepGraphs* Step::graphs() { return impl_->graphs ? &*impl_->graphs : nullptr; }

}  // namespace lathe::train
