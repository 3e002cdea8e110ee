#include "lathe/tools/cli/settings/settings_sources.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/config_file.h"

using namespace lathe::cli;
using lathe::test::TemporaryFolder;

namespace {

// An environment of one variable.
std::function<const char*(const char*)> with(std::string name, std::string value) {
  return [name = std::move(name), value = std::move(value)](const char* asked) {
    return name == asked ? value.c_str() : nullptr;
  };
}

}  // namespace

TEST_CASE("settings: flags > environment > config file > default") {
  const TemporaryFolder folder;
  const std::string config = folder.write("run.toml", "lr = 0.3\n");
  SettingSources sources;
  CHECK(merge_settings(sources, kTrain).lr == std::nullopt);
  sources.config_path = config;
  CHECK(merge_settings(sources, kTrain).lr == 0.3);
  sources.environment = with("LATHE_LR", "0.2");
  CHECK(merge_settings(sources, kTrain).lr == 0.2);
  sources.flags["lr"] = "0.1";
  CHECK(merge_settings(sources, kTrain).lr == 0.1);
}

TEST_CASE("settings: an empty environment variable counts as not set") {
  SettingSources sources;
  sources.environment = with("LATHE_POWER", "");
  CHECK(merge_settings(sources, kTrain).power == 2);
}

TEST_CASE("settings: every message names the place of the value") {
  const TemporaryFolder folder;
  SettingSources flag, variable, file;
  flag.flags["epochs"] = "many";
  CHECK_THROWS_WITH_AS(merge_settings(flag, kTrain),
                       "--epochs: expected a whole number, got \"many\"", UsageError);
  variable.environment = with("LATHE_BATCH_SIZE", "0");
  CHECK_THROWS_WITH_AS(merge_settings(variable, kTrain),
                       "LATHE_BATCH_SIZE: expected 1 to 1000000, got 0", UsageError);
  file.config_path = folder.write("run.toml", "seed = 1\noptimizer = \"sdg\"\n");
  CHECK_THROWS_WITH_AS(
      merge_settings(file, kTrain),
      doctest::Contains("run.toml:2: optimizer: expected one of sgd, adam, adamw, "
                        "rmsprop, lars, lamb, novograd, adagrad, adadelta, adamax, nadam, radam, "
                        "lion, muon, adafactor, got \"sdg\"; did you mean sgd?"),
      UsageError);
}

TEST_CASE("settings: an unknown key is an error that names the nearest one") {
  const TemporaryFolder folder;
  SettingSources sources;
  sources.config_path = folder.write("run.toml", "batchsize = 3\n");
  CHECK_THROWS_WITH_AS(
      merge_settings(sources, kTrain),
      doctest::Contains("run.toml:1: batchsize: unknown key; did you mean batch-size?"),
      UsageError);
}

TEST_CASE("settings: a key of another command's is answered for those that share the file") {
  const TemporaryFolder folder;
  SettingSources sources;
  sources.config_path = folder.write("run.toml", "gpus = 2\n");
  CHECK_THROWS_WITH_AS(merge_settings(sources, kFindLr),
                       doctest::Contains("gpus: unknown key; lathe launch -n N lathe train"),
                       UsageError);
  sources.config_path = folder.write("run.toml", "epohcs = 2\n");
  CHECK_THROWS_WITH_AS(merge_settings(sources, kEval),
                       doctest::Contains("epohcs: unknown key; did you mean epochs?"), UsageError);
}

TEST_CASE("settings: a file that was read is not read again, and a place is named") {
  SettingSources sources;
  sources.config_path = "a pipe that is empty now";
  sources.config = parse_config("lr = 0.3\nrecipe = \"cifar10-94\"\n", sources.config_path);
  CHECK(merge_settings(sources, kTrain).lr == 0.3);
  CHECK(merge_settings(sources, kTrain).batch_size == 512);
  const Setting& lr = *find_setting("lr");
  CHECK(is_of_config(sources, lr));
  CHECK(place_of(sources, lr) == "lr in a pipe that is empty now");
  sources.environment = with("LATHE_LR", "");
  CHECK(is_of_config(sources, lr));
  sources.environment = with("LATHE_LR", "0.2");
  CHECK(place_of(sources, lr) == "LATHE_LR");
  sources.flags["lr"] = "0.1";
  CHECK(place_of(sources, lr) == "--lr");
}

TEST_CASE("settings: a file may hold what other commands need, but nothing wrong") {
  const TemporaryFolder folder;
  SettingSources sources;
  sources.config_path = folder.write("run.toml", "epochs = 3\nmodel = resnet20\n");
  CHECK(merge_settings(sources, kEval).model == "resnet20");
  CHECK(merge_settings(sources, kEval).epochs == std::nullopt);
  sources.config_path = folder.write("run.toml", "epochs = three\n");
  CHECK_THROWS_AS(merge_settings(sources, kEval), UsageError);
}

TEST_CASE("settings: of a finished run's config, the training machine's settings do not count") {
  const TemporaryFolder folder;
  const std::string text =
      "threads = 97\ndevice = \"cuda:9\"\nworkers = 7\ndata-cache = \"gpu\"\npin-memory = true\n"
      "cudnn-benchmark = true\nworkspace-limit = 3\nalgo-cache = \"there\"\nprefetch-factor = 9\n"
      "weights = \"start.pth\"\nmodel = \"resnet20\"\nlayout = \"nchw\"\n";
  SettingSources run, saved, own;
  own.config_path = run.config_path = folder.write("config.toml", text);
  run.of_finished_run = true;
  saved.saved_config = text;
  Settings expected;
  expected.model = "resnet20";
  expected.layout = "nchw";
  for (const Takes& command : {kEval, kPredict}) {
    CHECK(merge_settings(run, command) == expected);
    CHECK(merge_settings(saved, command) == expected);
    CHECK(merge_settings(own, command).threads == 97);  // a config that someone names counts
  }
  run.flags["threads"] = "2";
  CHECK(merge_settings(run, kEval).threads == 2);
  CHECK(merge_settings(saved, kTrain).threads == 97);  // the run goes on
  CHECK(merge_settings(run, kTrain).workers == 7);     // the training is repeated
  CHECK(merge_settings(run, kTrain).weights.empty());
  SettingSources wrong;
  wrong.config_path = folder.write("wrong.toml", "threads = many\n");
  wrong.of_finished_run = true;
  CHECK_THROWS_AS(merge_settings(wrong, kEval), UsageError);
}

TEST_CASE("settings: the effective config gives the same settings again") {
  const TemporaryFolder folder;
  SettingSources sources;
  sources.flags = {{"lr", "0.1"},
                   {"data-root", "/a b/\"c\"\\#d"},
                   {"milestones", "80,120"},
                   {"nesterov", "false"},
                   {"gamma", "0.333333333333333314829616256247"},
                   {"augment", "crop,flip"},
                   {"tf32", "false"},
                   {"cudnn-benchmark", "true"}};
  const Settings settings = merge_settings(sources, kTrain);
  SettingSources again;
  again.config_path = folder.write("config.toml", config_text(settings, kTrain));
  CHECK(merge_settings(again, kTrain) == settings);
}

TEST_CASE("settings: each key stands once in the table, and its default is in its own range") {
  const Settings defaults;
  std::set<std::string_view> keys;
  for (const Setting& setting : all_settings()) {
    CAPTURE(setting.key);
    CHECK(keys.insert(setting.key).second);
    const std::string text = value_text(defaults, setting);
    const bool optional =
        !std::holds_alternative<std::string Settings::*>(setting.target) && text == "auto";
    CHECK(setting.automatic.empty() != optional);
    Settings copy;
    assign(copy, setting, setting.key, text);
    CHECK(copy == defaults);
  }
  CHECK(find_setting("batch_size") == find_setting("batch-size"));
  CHECK(environment_name(*find_setting("batch-size")) == "LATHE_BATCH_SIZE");
}
