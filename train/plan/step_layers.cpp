// step_times(): a walk over the ranges of each thread, from parents to children. Contract:
// step_layers.h.
#include "lathe/train/plan/step_layers.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "lathe/core/format.h"

namespace lathe::plan {
namespace {

using profile::Kind;
using profile::Record;

constexpr std::array<const char*, 3> kPassNames{"forward", "backward_input", "backward_weight"};
constexpr std::array<const char*, 3> kPassOps{"conv2d", "conv2d_input_grad", "conv2d_weight_grad"};
constexpr std::string_view kReorder = "reorder";

enum Work : size_t {
  kConvolution,
  kReorders,
  kBatchNorm,
  kOptimiser,
  kGradientSums,
  kOther,
  kNoOp,
  kParts
};
constexpr std::array<const char*, kParts> kPartNames{
    "convolution", "reorder", "batch norm", "optimiser", "sum of gradients", "other ops", "no op"};

std::optional<ConvPass> pass_of(const Record& record) {
  if (record.kind != Kind::kOp) return std::nullopt;
  const auto at = std::ranges::find(kPassOps, std::string_view(record.name));
  if (at == kPassOps.end()) return std::nullopt;
  return static_cast<ConvPass>(at - kPassOps.begin());
}

double seconds_of(const Record& record) {
  return 1e-9 * static_cast<double>(record.end_ns - record.begin_ns);
}

/// What tells one problem from another. A record does not have the stride, which shows in the
/// number of operations or in the number of elements of the result.
std::string key_of(ConvPass pass, const Shape& a, const Shape& b, int64_t flops, int64_t result) {
  return concat(name_of(pass), a, b, flops, ':', result);
}

std::string key_of(ConvPass pass, const Conv2dGeometry& g) {
  const Shape x = g.x_shape(), w = g.w_shape(), y = g.y_shape();
  const auto flops = static_cast<int64_t>(g.flops());
  if (pass == ConvPass::kForward) return key_of(pass, x, w, flops, numel_of(y));
  if (pass == ConvPass::kBackwardInput) return key_of(pass, y, w, flops, numel_of(x));
  return key_of(pass, y, x, flops, numel_of(w));
}

/// The key of a call; none if its inputs were not recorded.
std::optional<std::string> key_of(ConvPass pass, const Record& record) {
  if (record.inputs.size() < 2) return std::nullopt;
  int64_t result = record.bytes;  // of inputs and result, each once
  for (const profile::Operand& input : record.inputs) {
    result -= numel_of(input.shape) * static_cast<int64_t>(size_of(input.dtype));
  }
  const profile::Operand &first = record.inputs[0], &second = record.inputs[1];
  return key_of(pass, first.shape, second.shape, record.flops,
                result / static_cast<int64_t>(size_of(first.dtype)));
}

/// The kind of work of a range by itself. Inside another op an op is a part of it, unless it has a
/// kind of its own.
Work work_of(const Record& record, std::optional<Work> outer) {
  const std::string_view name = record.name;
  if (name.starts_with("batch_norm")) return kBatchNorm;
  if (name.starts_with("conv2d")) {
    return record.kind == Kind::kBackward ? kGradientSums : kConvolution;
  }
  if (record.kind == Kind::kOptimizer) return kOptimiser;
  if (name == kReorder && outer == kConvolution) return kReorders;
  if (record.kind == Kind::kUser) return outer.value_or(kNoOp);
  const bool is_part = outer == kConvolution || outer == kBatchNorm || outer == kOptimiser;
  return is_part ? *outer : kOther;
}

class Walk {
 public:
  explicit Walk(const std::vector<ConvLayer>& layers) {
    for (const ConvLayer& layer : layers) {
      for (size_t p = 0; p < kPassOps.size(); ++p) {
        const auto pass = static_cast<ConvPass>(p);
        const auto [at, is_new] =
            places_.try_emplace(key_of(pass, layer.sizes), times_.layers.size());
        if (is_new) times_.layers.push_back({.layer = &layer, .pass = pass});
        times_.layers[at->second].count += layer.count;
      }
    }
    for (const char* name : kPartNames) times_.parts.push_back({name, 0});
  }

  void add(const std::vector<Record>& records) {
    const std::vector<int64_t> parents = profile::parents_of(records);
    std::vector<std::optional<Work>> works(records.size());
    for (size_t k = records.size(); k-- > 0;) {  // a parent ended later than its children
      const Record& record = records[k];
      const bool inside = parents[k] >= 0;
      const auto parent = static_cast<size_t>(inside ? parents[k] : 0);
      works[k] = work_of(record, inside ? works[parent] : std::nullopt);
      times_.parts[*works[k]].seconds += seconds_of(record);
      if (inside) times_.parts[*works[parent]].seconds -= seconds_of(record);
      if (LayerTime* const time = find(record)) {
        ++time->calls;
        time->seconds += seconds_of(record);
      }
      if (works[k] != kReorders) continue;
      if (LayerTime* const time = find(records[parent]))
        time->reorder_seconds += seconds_of(record);
    }
  }

  StepTimes times() && {
    std::erase_if(times_.layers, [](const LayerTime& time) { return time.calls == 0; });
    for (const StepPart& part : times_.parts) times_.seconds += part.seconds;
    return std::move(times_);
  }

 private:
  /// The row of a call; null for a range that is none, and for a layer that is not in the list.
  LayerTime* find(const Record& record) {
    const std::optional<ConvPass> pass = pass_of(record);
    const std::optional<std::string> key = pass ? key_of(*pass, record) : std::nullopt;
    const auto at = key ? places_.find(*key) : places_.end();
    return at == places_.end() ? nullptr : &times_.layers[at->second];
  }

  std::map<std::string, size_t> places_;
  StepTimes times_;
};

}  // namespace

const char* name_of(ConvPass pass) { return kPassNames[static_cast<size_t>(pass)]; }

StepTimes step_times(const profile::Recording& recording, const std::vector<ConvLayer>& layers) {
  Walk walk(layers);
  for (const profile::ThreadRecords& thread : recording.threads) walk.add(thread.records);
  return std::move(walk).times();
}

}  // namespace lathe::plan
