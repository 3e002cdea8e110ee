// The search between cuDNN's fused engines and the way without them. Contracts:
// conv2d_fused_cudnn.h.
#include "lathe/ops/conv/conv2d_fused_cudnn.h"

#include <limits>

#include "lathe/core/alignment.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/profile/watch.h"
#include "lathe/ops/conv_search/cudnn_settings.h"

namespace lathe::cuda {

namespace {

constexpr int kSplitRuns = 5;

bool is_split(const ConvEngine& engine) { return engine.index == kSplitEngine; }

class FusedEngines final : public ConvEngines {
 public:
  FusedEngines(const ConvKey& key, const Conv2dOperands& operands, Conv2dPrepared& prepared,
               FunctionRef<void()> split)
      : key_(key), operands_(operands), prepared_(prepared), split_(split) {}

  std::vector<ConvCandidate> candidates(ConvHeuristic heuristic) override {
    std::vector<ConvCandidate> all;
    // "Tensor cores", so that the search does not put those that say it before this one.
    if (heuristic == ConvHeuristic::kA) {
      all.push_back({.engine = {kSplitEngine, {}}, .tensor_cores = true});
    }
    try {
      for (ConvCandidate& fused : library().candidates(heuristic)) all.push_back(std::move(fused));
    } catch (const CudaError&) {  // a library that does not know the pattern
    } catch (const ShapeError&) {
    }
    return all;
  }
  int64_t prepare(const ConvEngine& engine) override {
    return is_split(engine) ? 0 : library().prepare(engine);
  }
  ConvTime time(const ConvEngine& engine, int runs) override {
    return is_split(engine) ? ConvTime{prepared_.split_ms, 0} : library().time(engine, runs);
  }
  void execute(const ConvEngine& engine) override {
    was_split_ = is_split(engine);
    if (!was_split_) return library().execute(engine);
    library_.reset();
    split_();
  }
  int64_t available_bytes() override {
    return static_cast<int64_t>(available_memory(operands_.x.device()));
  }
  bool capturing() override { return is_capturing(current_stream(operands_.x.device())); }
  bool was_split() const { return was_split_; }

 private:
  Conv2dEngines& library() {
    if (!library_) library_.emplace(key_, operands_, prepared_);
    return *library_;
  }

  const ConvKey& key_;
  const Conv2dOperands& operands_;
  Conv2dPrepared& prepared_;
  const FunctionRef<void()> split_;
  std::optional<Conv2dEngines> library_;
  bool was_split_ = false;
};

/// Milliseconds of `split`. Called before the search, because `split` searches too, for its own
/// convolution, and searches run one at a time.
double time_split(FunctionRef<void()> split, Device device) {
  const Stream stream = current_stream(device);
  Event begin(device, {.timing = true}), end(device, {.timing = true});
  try {
    split();  // chooses the engine, loads the code
    begin.record(stream);
    for (int i = 0; i < kSplitRuns; ++i) split();
    end.record(stream);
    const profile::MeantWait search;  // once for a shape
    end.synchronize();
    return elapsed_ms(begin, end) / kSplitRuns;
  } catch (const OutOfMemoryError&) {  // a fused engine may need less
    return std::numeric_limits<float>::max();
  }
}

}  // namespace

bool conv2d_run_fused(const ConvKey& key, const Conv2dOperands& operands, FunctionRef<void()> split,
                      FunctionRef<void()> timed) {
  const Device device = operands.x.device();
  Conv2dPrepared& prepared = conv2d_prepared(key, device);
  FusedEngines engines(key, operands, prepared, split);
  if (prepared.split_ms < 0 && key.mode == ConvMode::kBenchmark && !engines.capturing() &&
      !conv_search().find(key))
    prepared.split_ms = time_split(timed, device);
  conv_search().run(key, engines, prepared.memo);
  return !engines.was_split();
}

bool conv2d_may_fuse() {
  return cudnn::enabled() && cudnn::fusion() && cudnn::benchmark() && !deterministic();
}

bool conv2d_suits_fused(const Tensor& t) {
  return t.defined() && t.ndim() == 4 && t.dtype() == kF16 && t.numel() > 0 && t.dim(1) % 8 == 0 &&
         t.is_contiguous(kChannelsLast) && alignment_of(t.raw_data()) >= 16;
}

bool conv2d_takes_fused(const ConvKey& key, Device device) {
  if (const auto known = conv_search().find(key)) return !is_split(known->candidate().engine);
  return !is_capturing(current_stream(device));
}

}  // namespace lathe::cuda
