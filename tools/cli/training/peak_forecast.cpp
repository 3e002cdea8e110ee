// forecast_peak(): three small steps, and what a run holds besides.
#include "lathe/tools/cli/training/peak_forecast.h"

#include <algorithm>
#include <memory>

#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/text/formatted.h"
#include "lathe/optim/ema.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/no_search.h"
#include "lathe/tools/cli/training/optimizers.h"
#include "lathe/tools/cli/training/random_batch.h"
#include "lathe/train/run_folder.h"

namespace lathe::cli {
namespace {

using profile::MemoryTag;

/// Few enough images that a training begins at once: the pixels of 16 images of 64 x 64. Below 16
/// the scratch memory of the CPU's convolutions, which has a least size, hides how it grows. Twice
/// as many are measured, too: not more than the training's own batch.
int64_t small_batch(int64_t side, int64_t batch) {
  const int64_t quick = std::clamp<int64_t>(16 * 64 * 64 / (side * side), 2, 16);
  return std::min(quick, std::max<int64_t>(batch / 2, 2));
}

/// Copies of the state in host memory: of the good state, of two that are written, and, in a long
/// run, of a candidate (train/run_folder.h).
int64_t copies_of_state(int64_t steps) { return steps > train::kStepsBetweenCandidates ? 4 : 3; }

}  // namespace

std::optional<profile::MemoryForecast> forecast_peak(const Settings& settings,
                                                     const ModelShape& shape, Device device,
                                                     int64_t steps) try {
  const profile::MemoryUse before = profile::memory_use(device);
  const NoSearch no_search;  // for the small batches
  const auto model = make_model(settings, shape);
  place_model(*model, device, settings);
  const Frozen frozen = tune(*model, settings).frozen;
  const auto optimizer = make_optimizer(settings, *model);
  model->train();
  frozen.hold();
  std::optional<optim::EMA> ema;
  if (settings.ema > 0) ema.emplace(*model);
  const int64_t side = settings.image_size.value_or(32);
  const int64_t small = small_batch(side, *settings.batch_size);
  profile::MemoryForecast out = forecast_steps(settings, shape, device, *model, *optimizer, small);
  // Images that are kept stay; a checkpoint that is resumed does not.
  out.fixed_bytes -= static_cast<double>(before.in_use - before.of(MemoryTag::kData));
  if (device.is_cpu()) {
    const profile::MemoryUse now = profile::memory_use(device);
    const int64_t state = now.of(MemoryTag::kWeights) + now.of(MemoryTag::kOptimizer) -
                          before.of(MemoryTag::kWeights) - before.of(MemoryTag::kOptimizer);
    out.fixed_bytes += static_cast<double>(copies_of_state(steps) * state);
    const int64_t ahead = *settings.workers * settings.prefetch_factor;
    out.bytes_per_sample += static_cast<double>(4 * ahead * shape.in_channels * side * side);
  }
  return out;
} catch (const OutOfMemoryError&) {
  return std::nullopt;
}

std::string forecast_text(const std::optional<profile::MemoryForecast>& forecast, int64_t batch) {
  if (!forecast) return "";
  double value = static_cast<double>(forecast->peak(batch)) / 1024;
  std::string_view unit = "KiB";
  for (const std::string_view larger : {"MiB", "GiB", "TiB"}) {
    if (value < 1000) break;
    value /= 1024;
    unit = larger;
  }
  return formatted("about {:.{}f} {} of memory at the peak", value, value < 9.95 ? 1 : 0, unit);
}

std::string forecast_warning(const profile::MemoryForecast& forecast, int64_t batch,
                             int64_t free_bytes) {
  if (forecast.peak(batch) <= free_bytes) return "";
  constexpr double kMiB = 1 << 20;
  const int64_t fits = forecast.largest_batch(free_bytes);
  return formatted("{:.0f} MiB are forecast at the peak of a step, and {:.0f} MiB are free{}",
                   static_cast<double>(forecast.peak(batch)) / kMiB,
                   static_cast<double>(free_bytes) / kMiB,
                   fits > 0 ? formatted("; --batch-size {} should fit", fits) : "");
}

}  // namespace lathe::cli
