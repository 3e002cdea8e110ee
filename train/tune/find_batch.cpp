// Steps on batches of growing size, and the questions to the device. Contract: find_batch.h.
#include "lathe/train/tune/find_batch.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/memory/system_memory.h"
#include "lathe/core/process_limits.h"
#include "lathe/core/seconds_since.h"

namespace lathe::train {
namespace {

/// A limit for the device's tensors while the search runs: bytes of the host allocator on a CPU, of
/// the device allocator on a GPU; 0: none.
class MemoryLimit {
 public:
  MemoryLimit(size_t bytes, Device device) : device_(device) { set(bytes); }
  ~MemoryLimit() { set(0); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  void set(size_t bytes) const {
    if (device_.is_cuda()) {
      cuda::set_memory_limit(bytes, device_);
    } else {
      host_allocator().set_limit(bytes);
    }
  }

  const Device device_;
};

void free_cached_memory(Device device) {
  if (device.is_cuda()) cuda::empty_cache();
  host_allocator().empty_cache();
}

/// Training steps on batches of any size, with one model and one optimiser.
class Trials {
 public:
  Trials(const StepSetup& setup, Device device, double seconds)
      : setup_(setup), device_(device), timed_seconds_(seconds) {
    options_ = setup.options;
    options_.scaling = optim::GradScalerOptions{.enabled = false};
    options_.accumulate = 1;
    options_.capture = false;
  }

  /// Empty if there is not enough memory; then the reason is kept, and all memory except the
  /// model's and the optimiser's is given back.
  std::optional<BatchTrial> attempt(int64_t batch, std::string& reason) {
    std::optional<BatchTrial> trial;
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
    model_ = setup_.model();
    model_->to(device_).to(device_.is_cuda() && setup_.channels_last ? kChannelsLast : kContiguous);
    model_->train();
    optimizer_ = setup_.optimizer(*model_);
  }

  BatchTrial run(int64_t batch) {
    const Tensors made = setup_.batch(batch, device_);
    profile::reset_memory_peak(device_);
    double seconds = step(made);  // the first step prepares what the others reuse
    if (seconds < timed_seconds_) {
      const auto begin = std::chrono::steady_clock::now();
      int64_t steps = 0;
      for (; seconds_since(begin) < timed_seconds_; ++steps) step(made);
      seconds = seconds_since(begin) / static_cast<double>(steps);
    }
    return {batch, static_cast<double>(batch) / seconds,
            profile::memory_use(device_).peak_allocated};
  }

  double step(const Tensors& made) {
    const auto begin = std::chrono::steady_clock::now();
    Step one(*model_, *optimizer_, setup_.loss(*model_), options_);
    one(made);
    cuda::synchronize(device_);
    return seconds_since(begin);
  }

  const StepSetup& setup_;
  const Device device_;
  const double timed_seconds_;
  StepOptions options_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace

size_t default_memory_limit(Device device) {
  if (device.is_cuda()) return 0;
  const int64_t bytes = memory_for_tensors(device);
  return bytes > 0 ? static_cast<size_t>(bytes) : system_memory::usable_bytes() / 2;
}

FoundBatch find_batch(const StepSetup& setup, Device device, const FindBatchOptions& options) {
  const MemoryLimit limit(
      options.limit_bytes > 0 ? options.limit_bytes : default_memory_limit(device), device);
  Trials trials(setup, device, options.seconds);
  FoundBatch out;
  out.largest = largest_that_fits(options.most, [&](int64_t batch) {
    std::optional<BatchTrial> trial;
    try {
      trial = trials.attempt(batch, out.no_memory);
    } catch (const ShapeError& e) {
      if (batch > 1) throw;
      out.needs_two = e.message();
      return true;  // the search goes on with 2
    }
    if (trial && trial->samples_per_second > out.fastest.samples_per_second) out.fastest = *trial;
    if (options.on_trial) options.on_trial(batch, trial);
    return trial.has_value();
  });
  if (out.fastest.batch == 0) out.largest = 0;
  return out;
}

int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits) {
  int64_t good = 0, bad = most + 1;
  for (int64_t next = 1; next < bad; next = std::min(2 * next, most)) {
    if (!fits(next)) {
      bad = next;
      break;
    }
    good = next;
    if (good == most) return most;
  }
  while (good > 0 && bad - good > std::max<int64_t>(good / 32, 1)) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

int64_t tensors_within(int64_t available) {
  // Steps of a ResNet-18 on two threads were seen to take 70 MiB beside their tensors. A control
  // group of 300 MiB, with a tenth for them, killed the process.
  constexpr int64_t kLeast = 96 << 20;
  return std::max<int64_t>(available - std::max(available / 10, kLeast), 0);
}

int64_t memory_for_tensors(Device device) {
  if (device.is_cuda()) {
    return static_cast<int64_t>(cuda::device_info(device.index).free_bytes +
                                cuda::memory_reserved(device));
  }
  const int64_t available = usable_memory().available;
  if (available == 0) return 0;
  return std::max<int64_t>(
      tensors_within(available) + static_cast<int64_t>(host_allocator().stats().reserved_bytes), 1);
}

}  // namespace lathe::train
