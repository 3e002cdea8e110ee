// GradScaler: the order of its calls, and what the host knows of the scale on the device.
#include "lathe/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "lathe/autograd/half_copy.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/writable_grads.h"

namespace lathe::optim {

namespace {

bool is_positive_float(double x) { return x > 0 && x <= std::numeric_limits<float>::max(); }

/// Empty, or says what is wrong with these numbers.
std::string fault_of(const GradScalerOptions& o) {
  if (!(std::isfinite(o.growth_factor) && o.growth_factor > 1))
    return concat("growth_factor must be finite and above 1, got ", o.growth_factor);
  if (!(o.backoff_factor > 0 && o.backoff_factor < 1))
    return concat("backoff_factor must be between 0 and 1, got ", o.backoff_factor);
  if (o.growth_interval < 1)
    return concat("growth_interval must be at least 1, got ", o.growth_interval);
  if (!is_positive_float(o.min_scale))
    return concat("min_scale must be finite and positive, got ", o.min_scale);
  if (!is_positive_float(o.init_scale) || o.init_scale < o.min_scale)
    return concat("the scale must be finite in f32 and not below min_scale (", o.min_scale,
                  "), got ", o.init_scale);
  return {};
}

Tensor filled(DType dtype, Scalar value, Device device) {
  const Tensor t = empty({}, {.dtype = dtype, .device = device});
  fill_values(t, value);
  return t;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_at_start_(options.init_scale) {
  const std::string fault = fault_of(options);
  LATHE_CHECK(ValueError, fault.empty(), "GradScaler: ", fault);
  known_.scale = scale_at_start_;
}

void GradScaler::make_state(Device device, double scale_now, int64_t tracker_now) {
  LATHE_CHECK(
      StateError, !lathe::cuda::is_capturing(current_stream(device)),
      "GradScaler: a capture cannot begin the loss scale, because each launch would begin it "
      "again; scale a loss before the capture");
  Tensor scale = filled(kF32, scale_now, device);
  Tensor tracker = filled(kI64, tracker_now, device);
  Tensor counts =
      empty({sizeof(LossScaleCounts) / sizeof(int64_t)}, {.dtype = kI64, .device = device});
  fill_values(counts, 0);
  Tensor report = empty({sizeof(LossScaleReport)}, {.dtype = kU8, .pinned = device.is_cuda()});
  Event reported(device);
  scale_ = std::move(scale);
  growth_tracker_ = std::move(tracker);
  counts_ = std::move(counts);
  report_ = std::move(report);
  reported_ = std::move(reported);
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  LATHE_CHECK(DTypeError, is_floating(loss.dtype()), "GradScaler: the loss is not floating (", loss,
              ")");
  if (!scale_.defined()) make_state(loss.device(), scale_at_start_, tracker_at_start_);
  LATHE_CHECK(DeviceError, loss.device() == scale_.device(),
              "GradScaler: the loss is on another device than the scale (loss: ", loss,
              ", scale: ", scale_, ")");
  return mul(loss, scale_);
}

const GradScaler::Check* GradScaler::find_check(const Optimizer& optimizer) const {
  const auto at = std::ranges::find(checks_, &optimizer, &Check::optimizer);
  return at == checks_.end() ? nullptr : &*at;
}

/// Throws if these gradients cannot be unscaled.
void GradScaler::check_gradients(const Optimizer& optimizer) const {
  const Tensors params = optimizer.params();
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor grad = amp::arrived_grad(params[i]);
    if (!grad.defined()) continue;
    LATHE_CHECK(DTypeError, !is_half(params[i].dtype()), "GradScaler: the gradient of parameter ",
                i, " of ", optimizer.name(), " is ", grad.dtype(),
                ", too narrow to be unscaled; parameters stay f32 under Autocast (gradient: ", grad,
                ")");
    LATHE_CHECK(DeviceError, grad.device() == scale_.device(),
                "GradScaler: the gradient of parameter ", i, " of ", optimizer.name(),
                " is on another device than the scale (gradient: ", grad, ", scale: ", scale_, ")");
  }
}

void GradScaler::unscale_(Optimizer& optimizer) {
  const profile::OpRange range("GradScaler.unscale_");
  if (!options_.enabled) return;
  LATHE_CHECK(StateError, scale_.defined(), "GradScaler: unscale_(", optimizer.name(),
              ") before the first scale(loss)");
  if (const Check* check = find_check(optimizer)) {
    LATHE_CHECK(StateError, !check->stepped, "GradScaler: unscale_(", optimizer.name(),
                ") after step(), in step ", step_, "; update() comes first");
    LATHE_FAIL(StateError, "GradScaler: unscale_(", optimizer.name(), ") a second time in step ",
               step_, "; update() comes first");
  }
  check_gradients(optimizer);
  Check check{.optimizer = &optimizer, .found_inf = {}};
  const Tensors grads = writable_grads("GradScaler", optimizer.params());
  checks_.reserve(checks_.size() + 1);
  if (!grads.empty()) {
    check.found_inf = filled(kF32, 0.0, scale_.device());
    LATHE_DISPATCH(scale_.device(), unscale_grads(grads, scale_, check.found_inf));
    for (const Tensor& g : grads) g.bump_version();
  }
  checks_.push_back(std::move(check));
}

/// step() for gradients that were not unscaled; leaves them as they are.
Tensor GradScaler::fused_step(Optimizer& optimizer, double max_grad_norm) {
  LATHE_CHECK(StateError, scale_.defined(), "GradScaler: step(", optimizer.name(),
              ") before the first scale(loss)");
  check_gradients(optimizer);
  const Tensors params = optimizer.params();
  LATHE_CHECK(
      StateError,
      std::ranges::any_of(params, [](const Tensor& p) { return amp::arrived_grad(p).defined(); }),
      "GradScaler: step(", optimizer.name(), ") in step ", step_, ", but none of its ",
      params.size(), " parameters has a gradient");
  Check check{.optimizer = &optimizer,
              .found_inf = empty({}, {.dtype = kF32, .device = scale_.device()}),
              .stepped = true};
  checks_.reserve(checks_.size() + 1);
  Tensor total = optimizer.step(
      {.found_inf = check.found_inf, .grad_scale = scale_, .max_grad_norm = max_grad_norm});
  checks_.push_back(std::move(check));
  return total;
}

Tensor GradScaler::step(Optimizer& optimizer, const ScaledStepOptions& options) {
  const profile::OpRange range("GradScaler", {}, profile::Kind::kOptimizer);
  const double max_norm = options.max_grad_norm;
  LATHE_CHECK(ValueError, max_norm >= 0, "GradScaler: max_grad_norm must not be negative, got ",
              max_norm);
  const Check* known = options_.enabled ? find_check(optimizer) : nullptr;
  if (options_.enabled && options.fused && known == nullptr) {
    return fused_step(optimizer, max_norm);
  }
  if (options_.enabled && known == nullptr) {
    unscale_(optimizer);
    known = find_check(optimizer);
  }
  Tensor found_inf;
  if (known != nullptr) {
    LATHE_CHECK(StateError, !known->stepped, "GradScaler: step(", optimizer.name(),
                ") a second time in step ", step_, "; update() comes first");
    if (!known->found_inf.defined()) {
      checks_.erase(checks_.begin() + (known - checks_.data()));  // gradients may still come
      LATHE_FAIL(StateError, "GradScaler: step(", optimizer.name(), ") in step ", step_,
                 ", but none of its ", optimizer.params().size(), " parameters has a gradient");
    }
    found_inf = known->found_inf;
  }
  Tensor total;
  if (options.fused) {
    total = optimizer.step({.found_inf = found_inf, .max_grad_norm = max_norm});
  } else {
    if (max_norm > 0) total = clip_grad_norm_(optimizer.params(), max_norm);
    optimizer.step({.found_inf = found_inf});
  }
  if (known != nullptr) checks_[static_cast<size_t>(known - checks_.data())].stepped = true;
  return total;
}

Tensor GradScaler::found_inf(const Optimizer& optimizer) const {
  if (!options_.enabled) return {};
  const Check* check = find_check(optimizer);
  LATHE_CHECK(StateError, check != nullptr && check->stepped, "GradScaler: found_inf(",
              optimizer.name(), ") in step ", step_,
              "; it is known only between step() and update()");
  return check->found_inf;
}

/// Throws if the newest report says that the scale would have fallen below its floor.
void GradScaler::fail_at_floor() {
  const bool news = poll();
  const LossScaleCounts& known = known_.counts;
  if (!news || known.floor_step == 0) return;
  checks_.clear();
  LATHE_FAIL(LossScaleError, "GradScaler: in step ", known.floor_step,
             " the loss scale would have fallen from ", known_.scale, " to ",
             known_.scale * options_.backoff_factor, ", below min_scale ", options_.min_scale, ": ",
             known.skipped_by_then, " of ", known.floor_step,
             " steps were skipped; the gradients are inf or NaN at any scale");
}

/// The report is written by what is queued now.
void GradScaler::await_report() {
  reported_->record(current_stream(scale_.device()));
  report_pending_ = true;
}

void GradScaler::after_launch() {
  if (!options_.enabled || !scale_.defined() || scale_.device().is_cpu()) return;
  fail_at_floor();
  if (report_pending_) return;
  if constexpr (kHasCuda) cuda::report_loss_scale(scale_, counts_, report_);
  await_report();
}

void GradScaler::update() {
  if (!options_.enabled) return;
  const profile::OpRange range("GradScaler.update");
  fail_at_floor();
  Tensor found_inf;
  for (const Check& check : checks_) {
    if (!check.found_inf.defined()) continue;
    found_inf = found_inf.defined() ? add(found_inf, check.found_inf) : check.found_inf;
  }
  if (!found_inf.defined()) {
    const size_t unscaled = checks_.size();
    checks_.clear();  // gradients may still come
    LATHE_FAIL(StateError, "GradScaler: update() in step ", step_,
               " with no gradients checked since the update() before (", unscaled,
               " optimisers unscaled); step(optimizer) comes first");
  }
  // The host reads one report at a time, and none from a step that is only captured.
  const bool publish = !report_pending_ && !is_captured();
  const LossScaleRule rule{.growth_factor = options_.growth_factor,
                           .backoff_factor = options_.backoff_factor,
                           .min_scale = options_.min_scale,
                           .growth_interval = options_.growth_interval,
                           .dynamic = options_.dynamic};
  LATHE_DISPATCH(scale_.device(), update_loss_scale(scale_, growth_tracker_, counts_,
                                                    publish ? report_ : Tensor(), found_inf, rule));
  if (publish) await_report();
  for (const Tensor& t : {scale_, growth_tracker_}) t.bump_version();
  checks_.clear();
  ++step_;
}

/// Whether the steps are being captured into a graph; no event may be queried then.
bool GradScaler::is_captured() const {
  return scale_.defined() && lathe::cuda::is_capturing(current_stream(scale_.device()));
}

/// Takes over the report if it has arrived. → whether a report has ever arrived
bool GradScaler::poll() const {
  if (report_pending_ && !is_captured() && reported_->done()) {
    std::memcpy(&known_, report_.raw_data(), sizeof(known_));
    report_pending_ = false;
  }
  return known_.counts.steps > 0;
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item<double>() : scale_at_start_;
}

GradScaler::Progress GradScaler::progress() const {
  if (!options_.enabled) return {1, 0, 0};
  poll();
  return {known_.scale, known_.counts.steps, known_.counts.skipped};
}

GradScaler::Progress GradScaler::read_progress() const {
  if (!options_.enabled || !counts_.defined()) return progress();
  static_assert(offsetof(LossScaleCounts, steps) == 0 &&
                offsetof(LossScaleCounts, skipped) == sizeof(int64_t));
  const std::vector<int64_t> counts = counts_.to_vector<int64_t>();
  return {get_scale(), counts[0], counts[1]};
}

StateDict GradScaler::state_dict() const {
  StateDict out;
  if (!options_.enabled) return out;
  out.add("scale", scale_.defined() ? scale_ : filled(kF32, scale_at_start_, kCPU));
  out.add_number("growth_factor", options_.growth_factor);
  out.add_number("backoff_factor", options_.backoff_factor);
  out.add_number("growth_interval", options_.growth_interval);
  out.add("growth_tracker",
          growth_tracker_.defined() ? growth_tracker_ : filled(kI64, tracker_at_start_, kCPU));
  return out;
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!options_.enabled) return;
  LATHE_CHECK(StateError, checks_.empty(), "GradScaler: load_state_dict() in step ", step_,
              " between unscale_ or step and update()");
  constexpr const char* kNames[] = {"scale", "growth_factor", "backoff_factor", "growth_interval",
                                    "growth_tracker"};
  std::string faults;
  const auto complain = [&](const auto&... text) {
    faults += concat(faults.empty() ? "" : "; ", text...);
  };
  for (const char* name : kNames) {
    const Tensor* t = state.find(name);
    if (t == nullptr) complain("missing ", state.full_name(name));
    if (t != nullptr && t->numel() != 1)
      complain(state.full_name(name), " is ", *t, " instead of a number");
  }
  for (const auto& [name, tensor] : state) {
    if (std::ranges::find(kNames, name) == std::end(kNames))
      complain("unexpected ", state.full_name(name));
  }
  LATHE_CHECK(ValueError, faults.empty(), "GradScaler: the state does not fit: ", faults);

  GradScalerOptions loaded = options_;
  loaded.init_scale = state.number<double>("scale");
  loaded.growth_factor = state.number<double>("growth_factor");
  loaded.backoff_factor = state.number<double>("backoff_factor");
  loaded.growth_interval = state.count("growth_interval");
  const int64_t tracker = state.count("growth_tracker");
  faults = fault_of(loaded);
  LATHE_CHECK(ValueError, faults.empty(), "GradScaler: the state does not fit: ", faults);

  if (scale_.defined()) make_state(scale_.device(), loaded.init_scale, tracker);  // may throw
  scale_at_start_ = std::exchange(loaded.init_scale, options_.init_scale);
  tracker_at_start_ = tracker;
  options_ = loaded;
  known_ = {.scale = scale_at_start_, .counts = {}};
  report_pending_ = false;
}

}  // namespace lathe::optim
