// Keys of a CPU's convolutions, and the engines that the search times. Contracts:
// conv2d_engines_cpu.h and conv_search/conv_engines.h.
#include "lathe/ops/conv/conv2d_engines_cpu.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/core/info.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/profile/memory_tag.h"
#include "lathe/core/storage.h"
#include "lathe/core/tensor_impl.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/conv2d_key.h"
#include "lathe/ops/conv/conv2d_passes_cpu.h"
#include "lathe/ops/conv/conv2d_ways_cpu.h"
#include "lathe/ops/conv/winograd_tiles.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv_search/conv_search.h"
#include "lathe/ops/conv_search/cpu_settings.h"

namespace lathe::cpu {

namespace {

ConvMachine describe_machine(int threads) {
  const FastConv2dInfo fast = fast_conv2d_info();
  std::string library = concat("lathe ", build_info().version);
  std::string device = cpu_info().model;
  if (!fast.library.empty()) library += concat(", ", fast.library);
  if (!fast.instructions.empty()) device += concat(", oneDNN ", fast.instructions);
  device += concat(", vectors of ", winograd::kernel_set().f4.lanes);
  return {.device = std::move(device), .multiprocessors = threads, .library = std::move(library)};
}

/// This machine with so many threads. All keys share one object per number.
SharedMachine machine_with(int threads) {
  static std::mutex mutex;
  static auto& known = *new std::map<int, SharedMachine>;  // threads may compute until the end
  const std::lock_guard lock(mutex);
  const auto at = known.find(threads);
  if (at != known.end()) return at->second;
  return known.emplace(threads, describe_machine(threads)).first->second;
}

/// What is kept of the filters.
ConvFilters filters_kept(ConvPass pass, const Tensor& w) {
  if (pass != ConvPass::kForward || conv2d_is_training() || w.impl().storage->is_borrowed())
    return ConvFilters::kChanging;
  return w.requires_grad() ? ConvFilters::kParameters : ConvFilters::kConstant;
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The ways of one call.
class CpuConvEngines final : public ConvEngines {
 public:
  CpuConvEngines(const MeasuredConv2d& call, ConvWay rule, FunctionRef<void(ConvWay)> run,
                 TimeConv2d time)
      : call_(call), rule_(rule), run_(run), time_(time) {}

  std::vector<ConvCandidate> candidates(ConvHeuristic heuristic) override {
    std::vector<ConvCandidate> all;
    if (heuristic != ConvHeuristic::kA) return all;
    for (const ConvWay way : ways()) all.push_back({.engine = engine_of(way)});
    return all;
  }

  int64_t prepare(const ConvEngine& engine) override {
    way_of(engine);
    return 0;  // what a way needs besides its tensors comes from the allocator when it runs
  }

  ConvTime time(const ConvEngine& engine, int runs) override {
    const ConvWay way = way_of(engine);
    Measured& measured = measured_[way];
    if (measured.is_slow) return {measured.ms, 0};
    return translated(way, [&]() -> ConvTime {
      if (sets_.empty()) make_sets();
      const double began = now_ms();
      double ms = 0;
      int done = 0;
      do {
        const auto& [x, other, result] = sets_[next_++ % sets_.size()];
        time_(way, x, other, result);
        ms = now_ms() - began;
      } while (++done < runs && ms < kLongMs);
      ms /= done;
      // One alone shows nothing: the first makes oneDNN's kernels and touches new memory, and any
      // may have waited for another process.
      const double least = std::min(measured.ms, ms);
      measured.is_slow = best_ms_ >= 0 && least > kLongMs && least > kMuchSlower * best_ms_;
      measured.ms = ms;
      if (best_ms_ < 0 || ms < best_ms_) best_ms_ = ms;
      return {ms, done};
    });
  }

  void execute(const ConvEngine& engine) override {
    sets_.clear();
    // Not way_of: it asks the library for its ways, which takes longer than small convolutions.
    const auto way = static_cast<ConvWay>(engine.index);
    const bool is_way = engine.index >= 0 && engine.index <= UINT8_MAX && engine.knobs.empty();
    if (!is_way || !conv2d_may_run(way, call_.g, conv2d_format(call_.x))) refuse(engine);
    translated(way, [&] { run_(way); });
  }

  int64_t available_bytes() override { return INT64_MAX; }
  bool capturing() override { return false; }

 private:
  // Of one measurement. What takes longer than this, and so many times as long as the fastest,
  // twice in turn does not run again.
  static constexpr double kLongMs = 30, kMuchSlower = 3;

  // So much memory, or so many sets of tensors: more than caches hold, of small layers less.
  static constexpr int64_t kFarBytes = int64_t{256} << 20, kSets = 12;

  const std::vector<ConvWay>& ways() {
    if (ways_.empty()) ways_ = conv2d_ways(call_.pass, call_.g, call_.x, call_.w(), rule_);
    return ways_;
  }

  void make_sets() {
    const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
    const auto numbers = call_.x.numel() + call_.other.numel() + call_.result.numel();
    const int64_t count = kFarBytes / (numbers * static_cast<int64_t>(sizeof(float)));
    // Filters of which copies are kept are one tensor in use, too.
    const bool is_kept = call_.pass == ConvPass::kForward &&
                         (!call_.other.requires_grad() ||
                          filters_kept(call_.pass, call_.other) != ConvFilters::kChanging);
    // Images in the order of x, also where the sizes fit both; filters in their own.
    const MemoryFormat images = conv2d_format(call_.x), filters = memory_format_of(call_.w());
    const bool of_filters = call_.pass == ConvPass::kBackwardWeight;
    const autograd::ModeScope off({.grad = false});  // nor do inference tensors come about
    try {
      do {
        const bool first = sets_.empty();
        const Tensor other = !first && is_kept
                                 ? sets_[0].other
                                 : copy_of(call_.other, of_filters ? images : filters);
        other.requires_grad_(call_.other.requires_grad());
        const Tensor result =
            empty_in(of_filters ? filters : images, call_.result.shape(), kF32, kCPU);
        fill_values(result, 0);  // so that no timed run is the first to touch its memory
        sets_.push_back({first ? call_.x : copy_of(call_.x, images), other, result});
      } while (std::ssize(sets_) < std::min(count, kSets));
    } catch (const OutOfMemoryError&) {
      if (sets_.empty()) throw;
    }
  }

  static Tensor copy_of(const Tensor& t, MemoryFormat format) {
    Tensor copy = empty_in(format, t.shape(), kF32, kCPU);
    copy_values(copy, t);
    return copy;
  }

  /// A file may name a way that is not there for these sizes.
  ConvWay way_of(const ConvEngine& engine) {
    for (const ConvWay way : ways()) {
      if (engine_of(way) == engine) return way;
    }
    refuse(engine);
  }

  [[noreturn]] void refuse(const ConvEngine& engine) const {
    LATHE_FAIL(CudaError, "conv2d: this processor has no way ", engine, " for ", call_.g.x_shape(),
               " and ", call_.g.w_shape());
  }

  /// f(); what it throws, as conv_engines.h wants it.
  template <class F>
  static auto translated(ConvWay way, F f) -> decltype(f()) {
    try {
      return f();
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const std::bad_alloc&) {
      LATHE_FAIL(OutOfMemoryError, "conv2d: ", name_of(way), " ran out of memory");
    } catch (const Error& error) {  // of the library; the other ways may do without it
      LATHE_FAIL(CudaError, error.message());
    }
  }

  const MeasuredConv2d& call_;
  const ConvWay rule_;
  const FunctionRef<void(ConvWay)> run_;
  const TimeConv2d time_;
  std::vector<ConvWay> ways_;
  struct Set {
    Tensor x, other, result;
  };
  std::vector<Set> sets_;  // of timed runs
  size_t next_ = 0;
  double best_ms_ = -1;
  struct Measured {
    double ms = 0;  // of the last measurement
    bool is_slow = false;
  };
  std::map<ConvWay, Measured> measured_;
};

}  // namespace

bool conv2d_is_training() noexcept {
  return grad_enabled() || autograd::current_mode().would_record != nullptr;
}

bool conv2d_is_measured(DType dtype) noexcept {
  return conv_benchmark() && dtype == kF32 && !deterministic();
}

ConvKey conv2d_key(const MeasuredConv2d& call) {
  const Conv2dGeometry& g = call.g;
  const MemoryFormat format = conv2d_format(call.x);
  ConvKey key = lathe::conv2d_key(call.pass, g, format, kF32);
  key.mode = ConvMode::kBenchmark;
  key.w = conv2d_tensor(g.w_shape(), memory_format_of(call.w()), kF32);
  key.tf32 = false;
  key.workspace_limit_bytes = 0;
  if (call.moments) key.fusion = ConvFusion::kStatistics;
  key.direct = conv_exact();
  key.filters = filters_kept(call.pass, call.w());
  key.machine = machine_with(num_threads());
  return key;
}

void run_measured_conv2d(const MeasuredConv2d& call, ConvWay rule, FunctionRef<void(ConvWay)> run,
                         TimeConv2d time) {
  CpuConvEngines engines(call, rule, run, time);
  try {
    conv_search().run(conv2d_key(call), engines);
  } catch (const CudaError&) {  // all have failed: this says why in the rule's own words
    run(rule);
  }
}

std::optional<ConvWay> measured_conv2d_way(const MeasuredConv2d& call) {
  const auto choice = conv_search().find(conv2d_key(call));
  if (choice == nullptr) return {};
  return static_cast<ConvWay>(choice->candidate().engine.index);
}

}  // namespace lathe::cpu
