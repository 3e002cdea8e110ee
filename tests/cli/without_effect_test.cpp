#include "lathe/tools/cli/settings/without_effect.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/idle_flags.h"

using namespace lathe::cli;

namespace {

using Remarks = std::vector<std::string>;

Remarks remarks_of(std::map<std::string, std::string, std::less<>> flags, const char* saved = "") {
  SettingSources sources;
  sources.flags = std::move(flags);
  sources.saved_config = saved;
  return flags_without_effect(merge_settings(sources, kTrain), sources);
}

}  // namespace

TEST_CASE("without effect: every row names settings, and values that can be chosen") {
  for (const Dependence& row : all_dependences()) {
    CAPTURE(row.key);
    const Setting* const key = find_setting(row.key);
    const Setting* const chooser = find_setting(row.chooser);
    REQUIRE(key != nullptr);
    REQUIRE(chooser != nullptr);
    CHECK(std::ranges::any_of(commands(), [&](const Command& command) {
      return command.takes.has(*key) && command.takes.has(*chooser);
    }));
    if (chooser->choices.empty()) continue;
    for (size_t begin = 0; begin < row.values.size();) {
      const size_t end = std::min(row.values.find('|', begin), row.values.size());
      Settings settings;
      CHECK_NOTHROW(assign(settings, *chooser, row.chooser, row.values.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
}

TEST_CASE("without effect: a flag that decides nothing is named, with what it is for") {
  CHECK(remarks_of({{"power", "2"}}) ==
        Remarks{"--power has no effect with --scheduler cosine, only with poly"});
  CHECK(
      remarks_of({{"momentum", "0.9"}, {"optimizer", "adam"}}) ==
      Remarks{
          "--momentum has no effect with --optimizer adam, only with sgd, lars, rmsprop or muon"});
  CHECK(remarks_of({{"init-scale", "8"}, {"loss-scale", "8"}}) ==
        Remarks{"--init-scale has no effect with --amp off, only with fp16"});
  CHECK(remarks_of({{"init-scale", "8"}, {"loss-scale", "8"}, {"amp", "fp16"}}) ==
        Remarks{"--init-scale has no effect with --loss-scale 8, only with dynamic"});
  CHECK(remarks_of({{"skip-broken", "true"}, {"dataset", "mnist"}}) ==
        Remarks{"--skip-broken has no effect with --dataset mnist, only with folder"});
}

TEST_CASE(
    "without effect: also what another flag rules out, and what needs one that is not given") {
  CHECK(remarks_of({{"prefetch-factor", "4"}, {"workers", "0"}}) ==
        Remarks{"--prefetch-factor has no effect with --workers 0"});
  CHECK(remarks_of({{"workers", "4"}, {"data-cache", "gpu"}, {"pin-memory", "true"}}) ==
        Remarks{"--workers has no effect with --data-cache gpu: the GPU has the images",
                "--pin-memory has no effect with --data-cache gpu: the GPU has the images"});
  CHECK(remarks_of({{"no-decay-norm", "true"}, {"optimizer", "lamb"}}) ==
        Remarks{"--no-decay-norm has no effect with --optimizer lamb, which never decays them"});
  CHECK(remarks_of({{"no-decay-norm", "true"}, {"weight-decay", "0"}}) ==
        Remarks{"--no-decay-norm has no effect with --weight-decay 0"});
  CHECK(remarks_of({{"tf32", "true"}, {"device", "cpu"}}) ==
        Remarks{"--tf32 has no effect with --device cpu, only with cuda"});
  CHECK(remarks_of({{"cudnn-benchmark", "true"}, {"deterministic", "true"}}) ==
        Remarks{"--cudnn-benchmark has no effect with --deterministic: nothing is timed"});
  CHECK(remarks_of({{"capture", "true"}, {"sync", "warn"}}) ==
        Remarks{"--capture has no effect with --sync warn, which looks at single ops"});
  CHECK(remarks_of({{"allow-changes", "true"}, {"profile-steps", "1:2"}}) ==
        Remarks{"--allow-changes has no effect without --resume",
                "--profile-steps has no effect without --profile"});
  CHECK(remarks_of({{"data-root", "a"}, {"dataset", "synthetic"}}) ==
        Remarks{"--data-root has no effect with --dataset synthetic, only with cifar10, cifar100, "
                "mnist, fashion-mnist, folder or packed"});
}

TEST_CASE("without effect: a setting of earlier versions is accepted, and named if it was on") {
  SettingSources sources;
  sources.config_path = "old.toml";
  sources.config = parse_config("lr = 0.3\nconv-benchmark = true\n", "old.toml");
  const std::string why =
      " has no effect any more: a CPU chooses how to compute a convolution by its sizes";
  CHECK(merge_settings(sources, kTrain).lr == 0.3);
  CHECK(gone_settings(sources) == Remarks{"old.toml:2: conv-benchmark" + why});
  CHECK(flags_without_effect(merge_settings(sources, kTrain), sources) == gone_settings(sources));
  sources.config = parse_config("conv-benchmark = false\n", "old.toml");
  CHECK(gone_settings(sources).empty());  // as each run wrote it that did without
  sources.environment = [](const char* name) -> const char* {
    return std::string_view(name) == "LATHE_CONV_BENCHMARK" ? "1" : nullptr;
  };
  CHECK(gone_settings(sources) == Remarks{"LATHE_CONV_BENCHMARK" + why});
  CHECK(find_setting("conv-benchmark") == nullptr);
  CHECK(why_gone("lr").empty());
}

TEST_CASE("without effect: a device, a model or one process may leave a flag nothing to do") {
  const auto remarks = [](std::map<std::string, std::string, std::less<>> flags,
                          lathe::nn::Module& model, int64_t ranks, const char* device) {
    SettingSources sources;
    sources.flags = std::move(flags);
    Settings settings = merge_settings(sources, kTrain);
    if (!settings.batch_size) settings.batch_size = 4;
    return idle_flags(settings, sources,
                      {lathe::Device(device),
                       model,
                       ranks,
                       Schedule{.steps_per_epoch = 1, .total_steps = 1},
                       {.training = 10}});
  };
  lathe::nn::Sequential plain{lathe::nn::Linear(1, 1)}, normed{lathe::nn::BatchNorm1d(1)};
  CHECK(remarks({{"recompute", "true"}, {"sync-batch-norm", "true"}}, plain, 2, "cpu") ==
        Remarks{"--recompute has no effect on a model without batch norm",
                "--sync-batch-norm has no effect on a model without batch norm"});
  CHECK(remarks({{"recompute", "true"}, {"sync-batch-norm", "true"}}, normed, 1, "cpu") ==
        Remarks{"--sync-batch-norm has no effect in one process: lathe launch -n 2 train starts "
                "two ranks"});
  CHECK(remarks({{"recompute", "true"}, {"sync-batch-norm", "true"}}, normed, 2, "cpu").empty());
  CHECK(remarks({{"tf32", "true"}}, plain, 1, "cpu") ==  // --device auto
        Remarks{"--tf32 has no effect with --device cpu, only with cuda"});
  CHECK(remarks({{"tf32", "true"}}, plain, 1, "cuda:0").empty());
  CHECK(remarks({{"algo-cache", "a"}}, plain, 1, "cpu") ==
        Remarks{"--algo-cache has no effect with --device cpu, only with cuda"});
  CHECK(remarks({{"algo-cache", "a"}}, plain, 1, "cuda:0").empty());
  CHECK(remarks({{"algo-cache", "a"}, {"deterministic", "true"}}, plain, 1, "cuda:0") ==
        Remarks{"--algo-cache has no effect with --deterministic: nothing is timed"});
  CHECK(remarks({{"batch-size", "10"}, {"accumulate", "1"}}, plain, 1, "cpu").empty());
  CHECK(remarks({{"batch-size", "12"}, {"accumulate", "2"}}, plain, 2, "cpu") ==
        Remarks{"--batch-size 12 is more than the 10 training images: each step has all of them",
                "--accumulate 2 is more than the batches of an epoch: each step has only 1 batch"});
  CHECK(remarks({{"accumulate", "3"}}, plain, 2, "cpu").empty());
  CHECK(
      remarks({{"accumulate", "4"}}, plain, 2, "cpu") ==
      Remarks{"--accumulate 4 is more than the batches of an epoch: each step has only 3 batches"});
  lathe::nn::Sequential two{lathe::nn::Linear(1, 1), lathe::nn::Linear(1, 1)};
  CHECK(remarks({{"lr", "1"}, {"head-lr", "1"}}, two, 1, "cpu").empty());
  lathe::nn::freeze(two, {"1"});
  CHECK(remarks({{"lr", "1"}, {"head-lr", "1"}}, two, 1, "cpu") ==
        Remarks{"--head-lr has no effect with --freeze of the last layer"});
  lathe::nn::Sequential other{lathe::nn::Linear(1, 1), lathe::nn::Linear(1, 1)};
  lathe::nn::freeze(other, {"backbone"});
  CHECK(remarks({{"lr", "1"}, {"head-lr", "1"}}, other, 1, "cpu") ==
        Remarks{"--lr has no effect on a last layer that has --head-lr, with all others frozen"});
}

TEST_CASE("without effect: a schedule beyond the end of the run is named") {
  const auto remarks = [](const ScheduleSettings& schedule, int64_t epochs) {
    Settings settings;
    static_cast<ScheduleSettings&>(settings) = schedule;
    settings.epochs = epochs;
    settings.batch_size = 1;
    lathe::nn::Sequential model;
    return idle_flags(
        settings, {},
        {lathe::kCPU, model, 1, make_schedule(settings, 7, 7 * epochs), {.training = 7}});
  };
  CHECK(remarks({.scheduler = "step", .step_size = 3}, 3) ==
        Remarks{"--step-size 3 is not reached in 3 epochs, so the learning rate never falls"});
  CHECK(remarks({.scheduler = "step", .step_size = 2}, 3).empty());
  CHECK(remarks({.scheduler = "multistep", .milestones = "2,3,80"}, 3) ==
        Remarks{"--milestones: 3 is not reached in 3 epochs",
                "--milestones: 80 is not reached in 3 epochs"});
  CHECK(remarks({.scheduler = "plateau", .patience = 1}, 3) ==
        Remarks{"--patience 1 cannot be exceeded with 3 evaluations in 3 epochs, so the learning "
                "rate never falls"});
  CHECK(remarks({.scheduler = "plateau", .patience = 1}, 4).empty());
  CHECK(remarks({.scheduler = "restarts", .restart_epochs = 3}, 3) ==
        Remarks{"--restart-epochs 3 is not less than the 3 epochs of the run: nothing restarts"});
  CHECK(remarks({.scheduler = "restarts", .restart_epochs = 2}, 3).empty());
  CHECK(remarks({.warmup_epochs = 0.05}, 3) ==
        Remarks{"--warmup-epochs 0.05 is less than half a step: nothing warms up"});
  CHECK(remarks({.warmup_epochs = 0.1}, 3).empty());
}

TEST_CASE("without effect: what would come after the end of the run is named") {
  const auto remarks = [](std::map<std::string, std::string, std::less<>> flags) {
    SettingSources sources;
    sources.flags = std::move(flags);
    Settings settings = merge_settings(sources, kTrain);
    settings.batch_size = 1;
    lathe::nn::Sequential model;
    return idle_flags(settings, sources,
                      {lathe::kCPU,
                       model,
                       1,
                       Schedule{.steps_per_epoch = 7, .total_steps = 20},
                       {.training = 7}});
  };
  CHECK(remarks({{"max-steps", "21"}, {"stop-after", "22"}}) ==
        Remarks{"--max-steps 21 is not reached in 20 steps: the epochs end the run",
                "--stop-after 22 is not reached in 20 steps: the run goes to its end"});
  CHECK(remarks({{"save-every", "30"}}) ==
        Remarks{"--save-every 30 is not reached in 20 steps: only ends of epochs are saved"});
  CHECK(remarks({{"early-stopping", "2"}}) ==
        Remarks{"--early-stopping 2 is not reached in 3 epochs: the run goes to its end"});
  CHECK(remarks({{"max-steps", "20"}, {"stop-after", "20"}, {"save-every", "20"}}).empty());
  CHECK(remarks({{"early-stopping", "1"}, {"stop-after", "0"}}).empty());
}

TEST_CASE("without effect: what counts, is off, is not known yet or stands in a file is let pass") {
  CHECK(remarks_of({{"power", "2"}, {"scheduler", "poly"}}).empty());
  CHECK(remarks_of({{"power", "2"}}, "scheduler = \"poly\"").empty());
  CHECK(remarks_of({{"gamma", "0.5"}, {"scheduler", "plateau"}}).empty());
  CHECK(remarks_of({{"nesterov", "false"}, {"optimizer", "adam"}}).empty());
  CHECK(remarks_of({{"skip-broken", "true"}}).empty());
  CHECK(remarks_of({{"workers", "auto"}, {"data-cache", "gpu"}, {"tf32", "true"}}).empty());
  CHECK(remarks_of({{"profile-steps", "1:2"},
                    {"profile", "true"},
                    {"resume", "auto"},
                    {"allow-changes", "true"}})
            .empty());
  CHECK(remarks_of({{"optimizer", "adam"}}, "momentum = 0.8\npower = 3").empty());
}
