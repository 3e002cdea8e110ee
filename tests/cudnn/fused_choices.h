// What tests of fused convolutions share: making the search choose the fused or the split way, and
// the error of a result.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "lathe/lathe.h"
#include "lathe/ops/conv_search/conv_search.h"
#include "lathe/tests/emulation/cudnn_emulation.h"

namespace lathe::test {

inline constexpr int64_t kFused = 8, kSplit = -1;  // engines

/// Lists one engine, which takes `ms`, and behind it the split way if there is one, which takes 2.
class OnlyEngine final : public ConvEngines {
 public:
  explicit OnlyEngine(ConvCandidate only, bool fuses = true, double ms = 1)
      : only_(std::move(only)), fuses_(fuses), ms_(ms) {}
  std::vector<ConvCandidate> candidates(ConvHeuristic) override {
    if (!fuses_) return {only_};
    return {only_, {.engine = {kSplit, {}}}};
  }
  int64_t prepare(const ConvEngine&) override { return only_.workspace_bytes; }
  ConvTime time(const ConvEngine& e, int runs) override {
    return {e == only_.engine ? ms_ : 2.0, runs};
  }
  void execute(const ConvEngine&) override {}
  int64_t available_bytes() override { return 1 << 30; }
  bool capturing() override { return false; }

 private:
  ConvCandidate only_;
  bool fuses_;
  double ms_;
};

using Choices = decltype(conv_search().choices());

/// Those of fused keys among what the search knows.
inline Choices fused_choices() {
  Choices known = conv_search().choices();
  std::erase_if(known, [](const auto& c) { return c.first.fusion == ConvFusion::kNone; });
  return known;
}

/// Forgets all choices but these, whose plans are made anew.
inline void keep(const Choices& all) {
  conv_search().clear();
  for (const auto& [key, choice] : all) {
    OnlyEngine same(choice->candidate(), key.fusion != ConvFusion::kNone);
    conv_search().run(key, same);
  }
}

/// From now on these keys, which were searched, take this engine. Keys without a fusion that are
/// known keep theirs.
inline void choose(const Choices& searched, int64_t engine) {
  Choices known = conv_search().choices();
  std::erase_if(known, [](const auto& c) { return c.first.fusion != ConvFusion::kNone; });
  keep(known);
  for (const auto& [key, choice] : searched) {
    const auto at = std::ranges::find_if(choice->trials, [&](const ConvTrial& trial) {
      return trial.candidate.engine.index == engine;
    });
    REQUIRE(at != choice->trials.end());
    OnlyEngine only(at->candidate);
    conv_search().run(key, only);
  }
}

/// The choices of all keys that `step` meets, whether its layers are one op or two.
template <class F>
Choices search(F&& step) {
  step();
  Choices all = fused_choices();
  choose(all, kSplit);
  step();
  for (const auto& found : fused_choices()) {
    const bool known =
        std::ranges::any_of(all, [&](const auto& c) { return c.first == found.first; });
    if (!known) all.push_back(found);
  }
  return all;
}

/// How many of the latest executions were by the fused engine.
inline int64_t fused_executions() {
  return std::ranges::count(emulation::cudnn_probe().executions, kFused,
                            &emulation::CudnnExecution::engine);
}

/// The largest difference, in parts of the largest number that is wanted.
inline double error_of(const Tensor& got, const Tensor& want) {
  const Tensor wide = cast(got.cpu(), kF64);
  const double scale = max(abs(want)).item<double>();
  return max(abs(wide - want)).item<double>() / scale;
}

}  // namespace lathe::test
