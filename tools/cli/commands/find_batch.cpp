// lathe find-batch: the largest batch for which forward, loss, backward and update have memory.
// Sizes are tried; a failed try gives its memory back before the next.
#include <chrono>
#include <new>
#include <optional>
#include <string>

#include "lathe/core/cuda.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/memory/system_memory.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/commands/found_setting.h"
#include "lathe/tools/cli/commands/largest_batch.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/optimizers.h"
#include "lathe/tools/cli/training/random_batch.h"

namespace lathe::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimedSeconds = 0.5;  // steps are timed for this long, at least one
constexpr double kMiB = 1 << 20;

// Limits bytes of the host allocator on a CPU, of the device allocator on a GPU; 0: no limit.
size_t limit_of(const Settings& settings, Device device) {
  if (settings.memory_limit > 0) return static_cast<size_t>(settings.memory_limit) << 20;
  if (device.is_cuda()) return 0;
  const int64_t bytes = memory_for_tensors(device);
  return bytes > 0 ? static_cast<size_t>(bytes) : system_memory::usable_bytes() / 2;
}

void set_limit(size_t bytes, Device device) {
  if (device.is_cuda()) {
    cuda::set_memory_limit(bytes, device);
  } else {
    host_allocator().set_limit(bytes);
  }
}

void free_cached_memory(Device device) {
  if (device.is_cuda()) cuda::empty_cache();
  host_allocator().empty_cache();
}

struct Trial {
  int64_t batch = 0;
  double images_per_second = 0;
  int64_t peak_bytes = 0;
};

// Training steps on synthetic batches of any size, with one model and one optimiser.
class Trials {
 public:
  Trials(const Settings& settings, Device device) : settings_(settings), device_(device) {}

  /// Empty if there is not enough memory; then the reason is kept, and all memory except the
  /// model's and the optimiser's is given back.
  std::optional<Trial> attempt(int64_t batch, std::string& reason) {
    std::optional<Trial> trial;
    try {
      if (!optimizer_) prepare();
      trial = run(batch);
    } catch (const OutOfMemoryError& e) {
      reason = e.message();
    } catch (const std::bad_alloc&) {
      reason = "out of memory";
    }
    if (optimizer_) optimizer_->zero_grad();
    free_cached_memory(device_);
    return trial;
  }

 private:
  // Made in the first trial, because model and optimiser count within the limit.
  void prepare() {
    model_ = make_model(settings_, shape_);
    place_model(*model_, device_, settings_);
    model_->train();
    optimizer_ = make_optimizer(settings_, *model_);
  }

  Trial run(int64_t batch) {
    const RandomBatch made = random_batch(settings_, shape_, device_, batch);
    profile::reset_memory_peak(device_);
    double seconds = step(made);  // the first step prepares what the others reuse
    if (seconds < kTimedSeconds) {
      const auto begin = Clock::now();
      int64_t steps = 0;
      for (; seconds_since(begin) < kTimedSeconds; ++steps) step(made);
      seconds = seconds_since(begin) / static_cast<double>(steps);
    }
    return {batch, static_cast<double>(batch) / seconds,
            profile::memory_use(device_).peak_allocated};
  }

  double step(const RandomBatch& made) {
    const auto begin = Clock::now();
    train_on(made, *model_, *optimizer_, settings_);
    cuda::synchronize(device_);
    return seconds_since(begin);
  }

  const Settings& settings_;
  const ModelShape shape_{.classes = settings_.classes, .in_channels = settings_.in_channels};
  Device device_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

void print(int64_t batch, const std::optional<Trial>& trial, const Output& out) {
  Row row;
  row.add("event", "try").add("batch_size", batch).add("fits", trial.has_value());
  if (trial) {
    row.add("images_per_second", trial->images_per_second).add("peak_bytes", trial->peak_bytes);
    out.text(formatted("batch {:>6}  {:>9.1f} img/s  {:>9.1f} MiB", batch, trial->images_per_second,
                       static_cast<double>(trial->peak_bytes) / kMiB));
  } else {
    out.text(formatted("batch {:>6}  does not fit", batch));
  }
  out.row(row);
}

void print_result(int64_t batch, const Trial& fastest, size_t limit, const Settings& settings,
                  const Output& out) {
  out.row(Row()
              .add("event", "done")
              .add("batch_size", batch)
              .add("fastest_batch_size", fastest.batch)
              .add("images_per_second", fastest.images_per_second)
              .add("memory_limit_bytes", static_cast<int64_t>(limit)));
  out.sentence(
      formatted("largest batch: {}{}{}; fastest: {} with {:.1f} img/s", batch,
                batch == settings.max_batch ? " (no larger one was tried: --max-batch)" : "",
                limit > 0 ? formatted(" within {:.0f} MiB", static_cast<double>(limit) / kMiB) : "",
                fastest.batch, fastest.images_per_second));
}

}  // namespace

ExitCode run_find_batch(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  if (!settings.model) settings.model = "resnet18";
  settings.dataset = "synthetic";
  complete(settings, look_around(settings));
  const FoundSetting found(settings.write_config, "batch-size");
  const Device device = prepare_compute(settings);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const size_t limit = limit_of(settings, device);
  set_limit(limit, device);

  out.sentence(formatted(
      "{}, images of {} x {}, on {} with {}; each row: batch, images per second, peak memory of "
      "tensors",
      *settings.model, *settings.image_size, *settings.image_size, concat(device),
      count_text(*settings.threads, "thread")));
  Trials trials(settings, device);
  Trial fastest;
  std::string reason;
  std::string needs_two;  // why the model cannot be trained on one image
  const int64_t largest = largest_that_fits(settings.max_batch, [&](int64_t batch) {
    std::optional<Trial> trial;
    try {
      trial = trials.attempt(batch, reason);
    } catch (const ShapeError& e) {
      if (batch > 1) throw;
      needs_two = e.message();
      return true;  // the search goes on with 2
    }
    if (trial && trial->images_per_second > fastest.images_per_second) fastest = *trial;
    print(batch, trial, out);
    return trial.has_value();
  });
  if (fastest.batch == 0) {
    if (reason.empty()) throw UsageError(formatted("--max-batch 1: {}", needs_two));
    throw CommandError(ExitCode::kOutOfMemory,
                       formatted("not even a batch of {} fits: {}",
                                 needs_two.empty() ? "one image" : "two images", reason));
  }
  print_result(largest, fastest, limit, settings, out);
  if (const std::string said = found.write(std::to_string(fastest.batch)); !said.empty())
    out.sentence(said);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
