// update_bn(): before each batch the statistics are set to 0, so that what a norm adds to them is
// its momentum times those of the batch.
#include "lathe/optim/update_bn.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"

namespace lathe::optim {

namespace {

void put(const Tensor& to, const Tensor& values) {
  copy_values(to, values);
  to.bump_version();
}

/// A norm's statistics so far: sums over the batches, and what to restore if the module throws.
struct Statistics {
  nn::BatchNorm& norm;
  Tensor mean, var;                           // sums of the batches' means
  int64_t batches;                            // in which the norm was called
  Tensor old_mean, old_var, old_num_batches;  // before

  void restore() const {
    put(norm.running_mean, old_mean);
    put(norm.running_var, old_var);
    put(norm.num_batches_tracked, old_num_batches);
  }
};

}  // namespace

void update_bn(nn::Module& module, const std::function<Tensor()>& next) {
  const NoGrad off;
  std::vector<Statistics> all;
  std::vector<std::pair<nn::Module*, bool>> modes;
  for (const auto& [name, part] : module.named_modules()) {
    modes.emplace_back(&*part, part->is_training());
    auto* const norm = dynamic_cast<nn::BatchNorm*>(&*part);
    LATHE_CHECK(
        ValueError, norm != nullptr || !part->has_running_statistics(), "update_bn: ", name,
        " has running statistics, but is no nn::BatchNorm; models from files have such parts");
    if (norm == nullptr || !norm->running_mean.defined()) continue;
    LATHE_CHECK(ValueError, norm->options().momentum != 0.0, "update_bn: ", name,
                " has a momentum of 0, so its statistics do not move");
    all.push_back({*norm, zeros_like(norm->running_mean), zeros_like(norm->running_var), 0,
                   norm->running_mean.clone(), norm->running_var.clone(),
                   norm->num_batches_tracked.clone()});
  }
  if (all.empty()) return;
  const auto restore_modes = [&] {
    for (const auto& [part, training] : modes) part->train(training);  // outer ones first
  };
  try {
    module.train();
    for (Tensor x = next(); x.defined(); x = next()) {
      for (const Statistics& s : all) {
        put(s.norm.running_mean, zeros_like(s.mean));
        put(s.norm.running_var, zeros_like(s.var));
        put(s.norm.num_batches_tracked, zeros_like(s.old_num_batches));
      }
      module(x);
      for (Statistics& s : all) {
        const auto calls = static_cast<double>(s.norm.num_batches_tracked.item<int64_t>());
        if (calls == 0) continue;
        // From 0, c calls with the momentum m give a mean of weight 1 - (1 - m)^c.
        const std::optional<double> m = s.norm.options().momentum;
        const double weight = m ? 1 - std::pow(1 - *m, calls) : 1;
        s.mean = s.mean + s.norm.running_mean / weight;
        s.var = s.var + s.norm.running_var / weight;
        ++s.batches;
      }
    }
  } catch (...) {
    for (const Statistics& s : all) s.restore();
    restore_modes();
    throw;
  }
  restore_modes();
  for (const Statistics& s : all) {
    if (s.batches == 0) {
      s.restore();
      continue;
    }
    const auto batches = static_cast<double>(s.batches);
    put(s.norm.running_mean, s.mean / batches);
    put(s.norm.running_var, s.var / batches);
    put(s.norm.num_batches_tracked, full_like(s.old_num_batches, batches));
  }
}

}  // namespace lathe::optim
