// A trial: some steps of `lathe train` in a folder that is removed afterwards, to be timed or
// profiled. The steps are those of the Trainer, with every setting; nothing is evaluated.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lathe/data/images/image_datasets.h"
#include "lathe/data/transforms/transforms.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The training images, for any number of trials.
struct TrialData {
  std::shared_ptr<data::ImageDataset> images;
  data::Transform transform;  // a trial on a GPU takes it out of `images`
};

/// Opens the training images. Data set, image size, augmentation and data cache must be chosen.
/// throws: what open_dataset() throws.
TrialData open_trial_data(const Settings& settings);

struct TrialOptions {
  int64_t warm_up = 2;  // steps that are not counted
  int64_t steps = 0;    // counted steps; 0: any number
  double seconds = 0;   // the trial ends after the step that reaches them; 0: never
  std::function<void(nn::Module&)> prepare = {};     // before the optimiser takes the parameters
  std::function<void()> when_warm = {};              // before the first counted step
  std::function<void(nn::Module&)> after_step = {};  // after each counted step
};

/// The times that the counted steps took.
struct TrialTimes {
  int64_t steps = 0;
  double seconds = 0;
  double wait_seconds = 0;  // part of `seconds`, spent waiting for batches

  double per_step() const { return seconds / static_cast<double>(steps); }
};

/// Trains from the seed on, for the steps or seconds of the options. The learning rate stays at its
/// peak after the warm-up epochs. All settings must be chosen (settings/defaults.h). try_training()
/// calls prepare_compute(), whose settings stay in effect afterwards.
/// throws: UsageError for settings for which `lathe train` throws it; CommandError for a loss that
/// is not finite, and with the exit code of a signal if StopRequests exist; DataError, DeviceError,
/// OutOfMemoryError.
TrialTimes try_training(const Settings& settings, const TrialData& data,
                        const TrialOptions& options);

/// Like try_training(), but evaluates batches of the training images; a batch is a step. Weights do
/// not change. With `gradients`, ops keep the tensors that a backward pass would need; evaluate()
/// does not do this.
TrialTimes try_evaluation(const Settings& settings, const TrialData& data,
                          const TrialOptions& options, bool gradients);

}  // namespace lathe::cli
