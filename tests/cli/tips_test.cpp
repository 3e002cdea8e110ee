// The tips of `lathe bench tips` as data, and what windows of time say about them.
#include "lathe/tools/cli/observe/tips.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "lathe/core/error.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/random.h"
#include "lathe/tests/cli/small_job.h"
#include "lathe/tools/cli/training/trial.h"

using namespace lathe;
using namespace lathe::cli;

namespace {

const Tip& tip_of(const std::vector<Tip>& tips, std::string_view name) {
  const auto it = std::ranges::find(tips, name, &Tip::name);
  REQUIRE(it != tips.end());
  return *it;
}

std::set<std::string> not_here(const std::vector<Tip>& tips) {
  std::set<std::string> names;
  for (const Tip& tip : tips) {
    if (!tip.not_here.empty()) names.emplace(tip.name);
  }
  return names;
}

}  // namespace

TEST_CASE("tips: the interval is made of order statistics that hold the median with 90 %") {
  // The probability that all of n coins fall on one side is 2 / 2^n; that at most one differs,
  // 2 (1 + n) / 2^n.
  const TipResult five = judge({1.5, 1.1, 1.3, 1.2, 1.4});
  CHECK(five.median == 1.3);
  CHECK(five.low == 1.1);
  CHECK(five.high == 1.5);
  CHECK(five.coverage == doctest::Approx(1 - 2.0 / 32));
  const TipResult nine = judge({9, 1, 8, 2, 7, 3, 6, 4, 5});
  CHECK(nine.median == 5);
  CHECK(nine.low == 2);
  CHECK(nine.high == 8);
  CHECK(nine.coverage == doctest::Approx(1 - 2 * 10.0 / 512));
  const TipResult four = judge({1, 2, 3, 4});
  CHECK(four.median == 2.5);
  CHECK(four.low == 1);
  CHECK(four.high == 4);
  CHECK(four.coverage == doctest::Approx(1 - 2.0 / 16));
  CHECK_THROWS_AS(judge({}), ValueError);
}

TEST_CASE("tips: a verdict needs an interval that says it") {
  CHECK(judge({1.1, 1.2, 1.15, 1.3, 1.12}).verdict == Verdict::kHelps);
  CHECK(judge({0.9, 0.8, 0.85, 0.7, 0.88}).verdict == Verdict::kHurts);
  CHECK(judge({0.99, 1.01, 1.02, 0.98, 1}).verdict == Verdict::kNoMatter);
  CHECK(judge({1.011, 1.012, 1.013, 1.014, 1.015}).verdict ==
        Verdict::kNoMatter);  // surely, but 1 %
  CHECK(judge({0.7, 1.3, 1.2, 1.25, 1.3}).verdict == Verdict::kUnclear);
  CHECK(judge({2, 2.1, 2.2, 2.3}).verdict == Verdict::kUnclear);  // 87.5 % is not enough
  CHECK(name_of(Verdict::kHelps) == "helps");
  CHECK(name_of(Verdict::kUnclear) == "not clear");
}

TEST_CASE("tips: what applies to a CPU and what does not is told by the job and the machine") {
  using Names = std::set<std::string>;
  const Names gpu_only = {"pinned memory", "data on the GPU", "TF32", "capture"};
  CHECK(not_here(all_tips(small_job(), {.processors = 2}, true, true)) == gpu_only);
  Names poor = gpu_only;
  poor.merge(Names{"more workers", "AMP (bf16)", "no bias before norm"});
  CHECK(not_here(all_tips(small_job(), {.processors = 1}, false, false)) == poor);
  Settings resident = small_job();
  resident.dataset = "cifar10";
  resident.data_cache = "gpu";
  CHECK(not_here(all_tips(resident, {.gpu = true, .processors = 2}, true, true)) ==
        Names{"a worker", "more workers", "prefetch", "pinned memory"});
  Settings odd = small_job();
  odd.batch_size = 5;
  CHECK(not_here(all_tips(odd, {.gpu = true, .processors = 2}, true, true)) ==
        Names{"data on the GPU", "accumulation"});
}

TEST_CASE("tips: the two sides of a tip differ, and in nothing but the tip") {
  for (const bool gpu : {false, true}) {
    Settings job = small_job();
    if (gpu) job.dataset = "cifar10";
    const auto tips = all_tips(job, {.gpu = gpu, .processors = 2}, true, true);
    std::set<std::string_view> names;
    for (const Tip& tip : tips) {
      CAPTURE(tip.name);
      CHECK(names.insert(tip.name).second);
      CHECK_FALSE(tip.claim.empty());
      CHECK(static_cast<size_t>(tip.source) < tip_sources().size());
      if (!tip.not_here.empty()) continue;
      Settings without = job, with = job;
      if (tip.without.change) tip.without.change(without);
      if (tip.with.change) tip.with.change(with);
      CHECK(tip.without.says != tip.with.says);
      const bool by_hooks = tip.without.prepare || tip.without.after_step;
      const bool by_job = tip.job == TipJob::kEvaluation;
      CHECK((without != with) == !(by_hooks || by_job));
      int changed = 0;
      for (const Setting& setting : all_settings())
        changed += value_text(without, setting) != value_text(with, setting) ? 1 : 0;
      CHECK(changed == (by_hooks || by_job ? 0 : tip.name == "accumulation" ? 2 : 1));
    }
  }
}

TEST_CASE("tips: accumulation keeps the images of a step") {
  Settings s = small_job();
  s.accumulate = 3;
  const auto tips = all_tips(s, {.processors = 2}, true, true);
  tip_of(tips, "accumulation").with.change(s);
  CHECK(*s.batch_size * s.accumulate == 12);
  CHECK(*s.batch_size == 2);
}

TEST_CASE("tips: biases come before the batch norms, where they change no output") {
  const auto tips = all_tips(small_job(), {.processors = 2}, true, true);
  manual_seed(1);
  nn::CifarResNet model = nn::resnet8();
  const size_t parameters = model.parameters().size();
  REQUIRE(biases_before_norm(model).empty());
  const Tensor x = randn({8, 3, 8, 8});
  const std::vector<float> before = model(x).to_vector<float>();
  tip_of(tips, "no bias before norm").without.prepare(model);
  CHECK(biases_before_norm(model).size() == convolutions_before_norm(model).size());
  CHECK(model.parameters().size() == parameters + biases_before_norm(model).size());
  const std::vector<float> after = model(x).to_vector<float>();
  REQUIRE(after.size() == before.size());
  for (size_t i = 0; i < after.size(); ++i)
    CHECK(after[i] == doctest::Approx(before[i]).epsilon(1e-3));
}

TEST_CASE("trial: gradients that a tip fills with zeros change no step") {
  const Settings job = small_job();
  const TrialData data = open_trial_data(job);
  const auto tips = all_tips(job, {.processors = 2}, true, true);
  const auto weights = [&](const TipSide& side) {
    std::vector<float> out;
    int64_t kept = 0;
    try_training(job, data, {.warm_up = 0, .steps = 4, .after_step = [&](nn::Module& model) {
                               if (side.after_step) side.after_step(model);
                               out = model.parameters()[0].to_vector<float>();
                               for (const Tensor& p : model.parameters())
                                 kept += p.grad().defined() ? 1 : 0;
                             }});
    CHECK((kept > 0) == static_cast<bool>(side.after_step));
    return out;
  };
  const Tip& tip = tip_of(tips, "set_to_none");
  CHECK(weights(tip.without) == weights(tip.with));
}
