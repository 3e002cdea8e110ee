// check_last_batch(): a forward pass of one random image.
#include "lathe/tools/cli/training/last_batch.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/random_batch.h"

namespace lathe::cli {
namespace {

/// Why a training step cannot take one image: a batch norm would get one value per channel. "" if
/// it can.
std::string problem_of_one_image(const Settings& settings, const ModelShape& shape, Device device) {
  const auto model = make_model(settings, shape);
  place_model(*model, device, settings);
  const Frozen frozen = tune(*model, settings).frozen;
  model->train();
  frozen.hold();  // a frozen batch norm takes one image
  const NoGrad no_grad;
  try {
    scores_of(*model, random_batch(settings, shape, device, 1).x, settings);
    return "";
  } catch (const ShapeError& e) {
    if (e.message().find("more than one value per channel") == std::string::npos) throw;
    return e.message();
  }
}

}  // namespace

void check_last_batch(const Settings& settings, const ModelShape& shape, Device device,
                      int64_t samples, int64_t steps) {
  const int64_t batch = *settings.batch_size, batches = ceil_div(samples, batch);
  const bool all_have_one = batch == 1;
  const bool is_reached = steps >= ceil_div(batches, settings.accumulate);
  const bool last_has_one = samples % batch == 1 && !settings.drop_last && is_reached;
  if (!all_have_one && !last_has_one) return;
  const std::string problem = problem_of_one_image(settings, shape, device);
  if (problem.empty()) return;
  if (all_have_one)
    throw UsageError(formatted(
        "a batch of one image cannot be trained on: {}; take a larger --batch-size", problem));
  throw UsageError(formatted(
      "the last of {} batches of {} images has one image, which cannot be trained on: {}; "
      "--drop-last leaves it out, and so does another --batch-size",
      batches, samples, problem));
}

}  // namespace lathe::cli
