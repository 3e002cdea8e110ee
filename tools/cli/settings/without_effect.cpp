// The tables of dependences between settings and of those that are gone, and the search for what
// has no effect.
#include "lathe/tools/cli/settings/without_effect.h"

#include <algorithm>

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/settings/models.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kPublished = "cifar10|cifar100|mnist|fashion-mnist";
constexpr bool kUnless = true;
constexpr std::string_view kModelFile = "FILE.pt2";  // for any file that --model names

constexpr Dependence kDependences[] = {
    {"data-root", "dataset", "cifar10|cifar100|mnist|fashion-mnist|folder|packed"},
    {"download", "dataset", kPublished},
    {"synthetic-size", "dataset", "synthetic"},
    {"skip-broken", "dataset", "folder"},
    {"workers", "data-cache", "gpu", ": the GPU has the images", kUnless},
    {"prefetch-factor", "workers", "0", "", kUnless},
    {"prefetch-factor", "data-cache", "gpu", ": the GPU has the images", kUnless},
    {"pin-memory", "data-cache", "gpu", ": the GPU has the images", kUnless},
    {"stem", "model",
     "resnet18|resnet34|resnet50|resnet101|resnet152|wide_resnet50_2|wide_resnet101_2"},
    {"classes", "model", kModelFile, ", which has its own", kUnless},
    {"in-channels", "model", kModelFile, ", which has its own", kUnless},
    {"lora-alpha", "lora-rank", "0", "", kUnless},
    {"lora-targets", "lora-rank", "0", "", kUnless},
    {"freeze", "lora-rank", "0", "; adapters freeze all but themselves and the last layer"},
    {"momentum", "optimizer", "sgd|lars|rmsprop|muon"},
    {"nesterov", "optimizer", "sgd"},
    {"muon-rest", "optimizer", "muon"},
    {"trust-coefficient", "optimizer", "lars"},
    {"no-decay-norm", "optimizer", "lars|lamb", ", which never decays them", kUnless},
    {"no-decay-norm", "weight-decay", "0", "", kUnless},
    {"step-size", "scheduler", "step"},
    {"milestones", "scheduler", "multistep"},
    {"gamma", "scheduler", "step|multistep|exponential|plateau"},
    {"restart-epochs", "scheduler", "restarts"},
    {"restart-factor", "scheduler", "restarts"},
    {"power", "scheduler", "poly"},
    {"patience", "scheduler", "plateau", "; --early-stopping N ends a run early"},
    {"init-scale", "amp", "fp16"},
    {"init-scale", "loss-scale", "dynamic"},
    {"growth-interval", "amp", "fp16"},
    {"growth-interval", "loss-scale", "dynamic"},
    {"conv-exact", "device", "cpu"},
    {"tf32", "device", "cuda"},
    {"cudnn-benchmark", "device", "cuda"},
    {"cudnn-benchmark", "deterministic", "true", ": nothing is timed", kUnless},
    {"conv-fusion", "device", "cuda"},
    {"search-per-engine", "device", "cuda"},
    {"workspace-limit", "device", "cuda"},
    {"algo-cache", "device", "cuda"},
    {"capture", "device", "cuda"},
    {"capture", "detect-anomaly", "true", ", which looks at single ops", kUnless},
    {"capture", "sync", "warn|error", ", which looks at single ops", kUnless},
    {"allow-changes", "resume", ""},
    {"profile-steps", "profile", ""},
};

struct GoneSetting {
  std::string_view key, why;
};
constexpr GoneSetting kGone[] = {
    {"conv-benchmark", "a CPU chooses how to compute a convolution by its sizes"},
};

bool is_one_of(std::string_view value, std::string_view values) {
  for (size_t begin = 0; begin <= values.size();) {
    const size_t end = std::min(values.find('|', begin), values.size());
    if (values.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

// Turns "sgd|lars|rmsprop" into "sgd, lars or rmsprop".
std::string in_words(std::string_view values) {
  std::string text;
  while (!values.empty()) {
    const size_t bar = std::min(values.find('|'), values.size());
    const bool last = bar == values.size();
    text += formatted("{}{}", text.empty() ? "" : last ? " or " : ", ", values.substr(0, bar));
    values.remove_prefix(last ? bar : bar + 1);
  }
  return text;
}

// What a row compares: the value as text, of a switch that is off nothing, of a device its kind, of
// a model's file kModelFile.
std::string compared(const Settings& settings, const Setting& chooser) {
  const std::string value = value_text(settings, chooser);
  if (chooser.is_switch() && value == "false") return "";
  if (chooser.key == "model" && is_model_file(value)) return std::string(kModelFile);
  return chooser.key == "device" ? value.substr(0, value.find(':')) : value;
}

std::string remark_of(const Dependence& row, const Setting& chooser, const std::string& value) {
  if (row.values.empty())
    return formatted("--{} has no effect without --{}{}", row.key, row.chooser, row.instead);
  const std::string with = chooser.is_switch() ? "" : formatted(" {}", value);
  const std::string only = row.unless ? "" : formatted(", only with {}", in_words(row.values));
  return formatted("--{} has no effect with --{}{}{}{}", row.key, row.chooser, with, only,
                   row.instead);
}

}  // namespace

std::span<const Dependence> all_dependences() { return kDependences; }

std::string_view why_gone(std::string_view key) {
  const auto* const found = std::ranges::find(kGone, key, &GoneSetting::key);
  return found == std::end(kGone) ? "" : found->why;
}

std::vector<std::string> gone_settings(const SettingSources& sources) {
  std::vector<std::string> remarks;
  const auto note = [&](const std::string& place, std::string_view why) {
    remarks.push_back(formatted("{} has no effect any more: {}", place, why));
  };
  for (const ConfigEntry& entry : config_of(sources)) {
    const std::string_view why = why_gone(entry.key);
    if (!why.empty() && entry.value != "false")
      note(formatted("{}:{}: {}", sources.config_path, entry.line, entry.key), why);
  }
  for (const GoneSetting& gone : kGone) {
    const std::string name = environment_name({.key = gone.key});
    const char* const value = sources.environment ? sources.environment(name.c_str()) : nullptr;
    if (value != nullptr && *value != '\0') note(name, gone.why);
  }
  return remarks;
}

std::vector<std::string> flags_without_effect(const Settings& settings,
                                              const SettingSources& sources) {
  std::vector<std::string> remarks = gone_settings(sources);
  std::string_view reported;  // rows of one key are adjacent; one report is enough
  for (const Dependence& row : kDependences) {
    if (row.key == reported || !is_flag_given(sources, row.key)) continue;
    const Setting& setting = *find_setting(row.key);
    if (setting.is_switch() && value_text(settings, setting) == "false") continue;
    const Setting& chooser = *find_setting(row.chooser);
    const std::string value = compared(settings, chooser);
    if (value == "auto") continue;
    const bool has_effect =
        row.values.empty() ? !value.empty() : is_one_of(value, row.values) != row.unless;
    if (has_effect) continue;
    remarks.push_back(remark_of(row, chooser, value == kModelFile ? *settings.model : value));
    reported = row.key;
  }
  const bool has_model = is_model_file(settings.model.value_or(""));
  if (settings.new_head && settings.weights.empty() && !has_model &&
      is_flag_given(sources, "new-head"))
    remarks.emplace_back("--new-head has no effect without --weights or a file as --model");
  return remarks;
}

}  // namespace lathe::cli
