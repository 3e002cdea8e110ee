#include "lathe/tools/cli/settings/training_recipes.h"

#include <doctest/doctest.h>

#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/settings_sources.h"

using namespace lathe::cli;
using lathe::test::TemporaryFolder;

namespace {

bool no_gpu() { return false; }
bool a_gpu() { return true; }

SettingSources with_recipe(const char* name) {
  SettingSources sources;
  sources.flags["recipe"] = name;
  sources.has_gpu = no_gpu;
  return sources;
}

}  // namespace

TEST_CASE("training recipes: flags > environment > checkpoint > config file > recipe > default") {
  const TemporaryFolder folder;
  SettingSources sources = with_recipe("cifar10-94");
  CHECK(Settings().label_smoothing == 0);
  CHECK(merge_settings(sources, kTrain).label_smoothing == 0.2);
  sources.config_path = folder.write("run.toml", "label-smoothing = 0.3\n");
  CHECK(merge_settings(sources, kTrain).label_smoothing == 0.3);
  sources.saved_config = "label-smoothing = 0.4\n";
  CHECK(merge_settings(sources, kTrain).label_smoothing == 0.4);
  sources.environment = [](const char* asked) -> const char* {
    return asked == std::string("LATHE_LABEL_SMOOTHING") ? "0.5" : nullptr;
  };
  CHECK(merge_settings(sources, kTrain).label_smoothing == 0.5);
  sources.flags["label-smoothing"] = "0.6";
  const Settings all = merge_settings(sources, kTrain);
  CHECK(all.label_smoothing == 0.6);
  CHECK(all.nesterov);  // the rest is the recipe's
  CHECK(all.epochs == 24);
  CHECK(all.augment == "crop,flip,cutout");
}

TEST_CASE("training recipes: an automatic choice can take a setting back") {
  SettingSources sources = with_recipe("cifar10-94");
  sources.flags["batch-size"] = "auto";
  CHECK(merge_settings(sources, kTrain).batch_size == std::nullopt);
}

TEST_CASE("training recipes: a config file and a variable can name one") {
  const TemporaryFolder folder;
  SettingSources file, variable;
  file.config_path = folder.write("run.toml", "recipe = \"cifar10-94\"\nepochs = 3\n");
  CHECK(merge_settings(file, kTrain).epochs == 3);
  CHECK(merge_settings(file, kTrain).batch_size == 512);
  variable.environment = [](const char* asked) -> const char* {
    return asked == std::string("LATHE_RECIPE") ? "cifar10-94" : nullptr;
  };
  CHECK(merge_settings(variable, kTrain).batch_size == 512);
  CHECK(merge_settings(file, kEval) == merge_settings({}, kEval));  // it is no setting of eval
}

TEST_CASE("training recipes: half types are for a GPU that the run may use") {
  SettingSources sources = with_recipe("cifar10-94");
  CHECK(merge_settings(sources, kTrain).amp == "off");
  sources.has_gpu = a_gpu;
  CHECK(merge_settings(sources, kTrain).amp == "fp16");
  CHECK(merge_settings(sources, kTrain).data_cache == "gpu");
  sources.flags["dataset"] = "synthetic";  // is not kept as bytes
  CHECK(!merge_settings(sources, kTrain).data_cache);
  CHECK(merge_settings(sources, kTrain).amp == "fp16");
  sources.flags["data-cache"] = "ram";
  CHECK(merge_settings(sources, kTrain).data_cache == "ram");
  sources.flags.erase("dataset"), sources.flags.erase("data-cache");
  sources.flags["device"] = "cpu";
  CHECK(merge_settings(sources, kTrain).amp == "off");
}

TEST_CASE("training recipes: ResNet-20 as it was trained for the table in docs/performance.md") {
  const Settings run = merge_settings(with_recipe("cifar10-resnet20"), kTrain);
  CHECK(run.model == "resnet20");
  CHECK(run.epochs == 64);
  CHECK(run.batch_size == 128);
  CHECK(run.lr == 0.1);
  CHECK(run.weight_decay == 5e-4);
  CHECK(run.nesterov);
  CHECK(run.scheduler == "cosine");
  CHECK(run.amp == "off");
}

TEST_CASE("training recipes: cifar10-94-fast has airbench94's rates, for the mean loss of a step") {
  const Settings run = merge_settings(with_recipe("cifar10-94-fast"), kTrain);
  CHECK(run.model == "cifarnet");
  CHECK(run.augment == "shift,alternating-flip");
  const double batch = static_cast<double>(*run.batch_size);
  CHECK(std::abs(*run.bias_lr / batch - 0.053) < 1e-6);
  CHECK(std::abs(*run.head_lr / batch * 256 * 256 - 0.67) < 0.002);
  CHECK(std::abs(*run.lr * *run.weight_decay - 2e-6 * batch) < 1e-5);
}

TEST_CASE("training recipes: cifar10-96 has the rates of cifar10-94-fast times 9 / 11.5") {
  const Settings run = merge_settings(with_recipe("cifar10-96"), kTrain),
                 fast = merge_settings(with_recipe("cifar10-94-fast"), kTrain);
  CHECK(run.model == "cifarnet_wide");
  CHECK(run.augment == "shift:4,alternating-flip,cutout:12");
  constexpr double kFactor = 9 / 11.5;
  CHECK(*run.lr / *fast.lr == doctest::Approx(kFactor).epsilon(0.02));
  CHECK(*run.bias_lr / *fast.bias_lr == doctest::Approx(kFactor).epsilon(0.002));
  CHECK(4 * *run.head_lr / *fast.head_lr == doctest::Approx(kFactor).epsilon(0.005));
}

TEST_CASE("training recipes: a plan has the part for a GPU on any machine") {
  SettingSources sources = with_recipe("cifar10-94-fast");
  CHECK(merge_settings(sources, kPlan).amp == "fp16");
  CHECK(merge_settings(sources, kPlan).batch_size == 2000);
  sources.flags["device"] = "cpu";  // where it measures nothing
  CHECK(merge_settings(sources, kPlan).amp == "fp16");
  sources.flags["amp"] = "bf16";
  CHECK(merge_settings(sources, kPlan).amp == "bf16");
}

TEST_CASE("training recipes: a run says where it is not its recipe") {
  SettingSources sources = with_recipe("cifar10-94");
  sources.has_gpu = a_gpu;
  CHECK(recipe_remark(merge_settings(sources, kTrain), true) == "recipe cifar10-94");
  sources.flags["model"] = "resnet20";
  sources.flags["epochs"] = "5";
  CHECK(recipe_remark(merge_settings(sources, kTrain), true) ==
        "recipe cifar10-94, except model resnet20 (recipe: resnet18), epochs 5 (recipe: 24)");
  sources.flags = {{"recipe", "cifar10-94"}, {"device", "cpu"}};
  CHECK(recipe_remark(merge_settings(sources, kTrain), false) ==
        "recipe cifar10-94; for a GPU only: amp fp16, data-cache gpu");
  CHECK(recipe_remark({}, true).empty());
}

TEST_CASE("training recipes: each has a name and a line of its own, and settings of train") {
  for (const TrainingRecipe& recipe : training_recipes()) {
    CAPTURE(recipe.name);
    CHECK(recipe_list(200).find(recipe.help) != std::string::npos);
    CHECK(recipe_choices().find(recipe.name) != std::string::npos);
    Settings settings;
    apply_recipe(settings, recipe.name, true);
    CHECK(settings.dataset == "cifar10");  // commands/planned_run.cpp counts its images
    CHECK(settings.epochs.has_value());
    CHECK(settings.model.has_value());
    for (const Setting& setting : all_settings()) {
      if (!kTrain.has(setting)) CHECK(value_text(settings, setting) == value_text({}, setting));
    }
  }
}

TEST_CASE("training recipes: an unknown one is an error that names all with what they are for") {
  const auto message = [](const char* name) -> std::string {
    try {
      merge_settings(with_recipe(name), kTrain);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message("cifar10-49").find("--recipe: expected one of none, list, cifar10-94, ") == 0);
  CHECK(message("cifar10-49").find("; cifar10-94: ResNet-18 on CIFAR-10, ") != std::string::npos);
  CHECK(message("cifar10-49").find("; did you mean cifar10-94?") != std::string::npos);
  Settings settings;
  CHECK_THROWS_AS(apply_recipe(settings, "list", false), UsageError);
  CHECK(settings == Settings());
}
