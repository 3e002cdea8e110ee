// What tests of fused convolutions share: making the search choose the fused or the split engine,
// and the error of a result.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "../own_launches.h"
#include "executions.h"
#include "lathe/lathe.h"
#include "lathe/ops/conv/search/conv_search.h"

namespace lathe::test {

/// How a fused key is computed: by one of cuDNN's engines for it, whichever number it has, or
/// without fusion (kSplitEngine).
enum class FusedOrSplit { kFused, kSplit };
using enum FusedOrSplit;

/// Half of the distance from 1 to the next number of f16: rounding changes a number by at most so
/// many parts of itself.
inline constexpr double kHalfRounding = 0x1p-11;

/// Lists one engine, which takes `ms`, and behind it the split one if it exists, which takes 2.
class OnlyEngine final : public ConvEngines {
 public:
  explicit OnlyEngine(ConvEngineInfo only, bool fuses = true, double ms = 1)
      : only_(std::move(only)), fuses_(fuses), ms_(ms) {}
  std::vector<ConvEngineInfo> suggested(ConvHeuristic) override {
    if (!fuses_) return {only_};
    return {only_, {.engine = {kSplitEngine, {}}}};
  }
  int64_t prepare(const ConvEngine&) override { return only_.workspace_bytes; }
  ConvTime time(const ConvEngine& e, int runs) override {
    return {e == only_.engine ? ms_ : 2.0, runs};
  }
  void execute(const ConvEngine&) override {}
  int64_t available_bytes() override { return 1 << 30; }
  bool capturing() override { return false; }

 private:
  ConvEngineInfo only_;
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

/// The fastest of this kind among what a search of a fused key has found.
inline const ConvEngineInfo& info_of(const ConvChoice& choice, FusedOrSplit kind) {
  const auto at = std::ranges::find_if(choice.engines, [&](const ConvEngineResult& result) {
    return result.usable() && (result.info.engine.index == kSplitEngine) == (kind == kSplit);
  });
  REQUIRE(at != choice.engines.end());
  return at->info;
}

/// Forgets all choices but these, whose plans are made anew.
inline void keep(const Choices& all) {
  conv_search().clear();
  for (const auto& [key, choice] : all) {
    OnlyEngine same(choice->info(), key.fusion != ConvFusion::kNone);
    conv_search().run(key, same);
  }
}

/// From now on these keys, which were searched, are computed by engines of this kind. Keys without a fusion
/// that are known keep their engine.
inline void choose(const Choices& searched, FusedOrSplit kind) {
  Choices known = conv_search().choices();
  std::erase_if(known, [](const auto& c) { return c.first.fusion != ConvFusion::kNone; });
  keep(known);
  for (const auto& [key, choice] : searched) {
    INFO(concat(key));
    OnlyEngine only(info_of(*choice, kind));
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

/// The largest difference, in parts of the largest number that is wanted.
inline double error_of(const Tensor& got, const Tensor& want) {
  const Tensor wide = cast(got.cpu(), kF64);
  const double scale = max(abs(want)).item<double>();
  return max(abs(wide - want)).item<double>() / scale;
}

}  // namespace lathe::test
