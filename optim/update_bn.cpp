// update_bn(): before each batch the statistics are set to 0, so that what a norm adds to them is
// its momentum times those of the batch.
#include "lathe/optim/update_bn.h"

#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"

namespace lathe::optim {

namespace {

/// A norm's statistics so far: sums over the batches, and what to restore if the module throws.
struct Statistics {
  nn::BatchNorm& norm;
  Tensor mean, var;                           // sums
  Tensor old_mean, old_var, old_num_batches;  // before
};

void put(const Tensor& to, const Tensor& values) {
  copy_values(to, values);
  to.bump_version();
}

}  // namespace

void update_bn(nn::Module& module, const std::function<Tensor()>& next) {
  const NoGrad off;
  std::vector<Statistics> all;
  std::vector<std::pair<nn::Module*, bool>> modes;
  for (const auto& [name, part] : module.named_modules()) {
    modes.emplace_back(&*part, part->is_training());
    auto* const norm = dynamic_cast<nn::BatchNorm*>(&*part);
    if (norm == nullptr || !norm->running_mean.defined()) continue;
    LATHE_CHECK(ValueError, norm->options().momentum != 0.0, "update_bn: ", name,
                " has a momentum of 0, so its statistics do not move");
    all.push_back({*norm, zeros_like(norm->running_mean), zeros_like(norm->running_var),
                   norm->running_mean.clone(), norm->running_var.clone(),
                   norm->num_batches_tracked.clone()});
  }
  if (all.empty()) return;
  const auto restore_modes = [&] {
    for (const auto& [part, training] : modes) part->train(training);  // outer ones first
  };
  int64_t batches = 0;
  try {
    module.train();
    for (Tensor x = next(); x.defined(); x = next(), ++batches) {
      for (const Statistics& s : all) {
        put(s.norm.running_mean, zeros_like(s.mean));
        put(s.norm.running_var, zeros_like(s.var));
        put(s.norm.num_batches_tracked, zeros_like(s.old_num_batches));
      }
      module(x);
      for (Statistics& s : all) {
        const double momentum = s.norm.options().momentum.value_or(1);
        s.mean = s.mean + s.norm.running_mean / momentum;
        s.var = s.var + s.norm.running_var / momentum;
      }
    }
  } catch (...) {
    for (const Statistics& s : all) {
      put(s.norm.running_mean, s.old_mean);
      put(s.norm.running_var, s.old_var);
      put(s.norm.num_batches_tracked, s.old_num_batches);
    }
    restore_modes();
    throw;
  }
  restore_modes();
  if (batches == 0) return;
  for (const Statistics& s : all) {
    put(s.norm.running_mean, s.mean / static_cast<double>(batches));
    put(s.norm.running_var, s.var / static_cast<double>(batches));
    put(s.norm.num_batches_tracked, full_like(s.old_num_batches, static_cast<double>(batches)));
  }
}

}  // namespace lathe::optim
