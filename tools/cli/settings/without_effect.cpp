// The table of dependences between settings, and the search for flags without effect.
#include "lathe/tools/cli/settings/without_effect.h"

#include <algorithm>

#include "lathe/tools/cli/formatted.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kPublished = "cifar10|cifar100|mnist|fashion-mnist";

constexpr Dependence kDependences[] = {
    {"download", "dataset", kPublished},
    {"synthetic-size", "dataset", "synthetic"},
    {"skip-broken", "dataset", "folder"},
    {"stem", "model",
     "resnet18|resnet34|resnet50|resnet101|resnet152|wide_resnet50_2|wide_resnet101_2"},
    {"new-head", "weights", ""},
    {"momentum", "optimizer", "sgd|lars|rmsprop"},
    {"nesterov", "optimizer", "sgd"},
    {"trust-coefficient", "optimizer", "lars"},
    {"step-size", "scheduler", "step"},
    {"milestones", "scheduler", "multistep"},
    {"gamma", "scheduler", "step|multistep|plateau"},
    {"power", "scheduler", "poly"},
    {"patience", "scheduler", "plateau", "; --early-stopping N ends a run early"},
    {"init-scale", "amp", "fp16"},
    {"init-scale", "loss-scale", "dynamic"},
    {"growth-interval", "amp", "fp16"},
    {"growth-interval", "loss-scale", "dynamic"},
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

}  // namespace

std::span<const Dependence> all_dependences() { return kDependences; }

std::vector<std::string> flags_without_effect(const Settings& settings,
                                              const SettingSources& sources) {
  std::vector<std::string> remarks;
  std::string_view reported;  // rows of one key are adjacent; one report is enough
  for (const auto& [key, chooser, values, instead] : kDependences) {
    if (key == reported || !sources.flags.contains(key)) continue;
    const Setting& setting = *find_setting(key);
    if (setting.is_switch() && value_text(settings, setting) == "false") continue;
    const std::string chosen = value_text(settings, *find_setting(chooser));
    if (values.empty()) {
      if (!chosen.empty()) continue;
      remarks.push_back(formatted("--{} has no effect without --{}", key, chooser));
      reported = key;
      continue;
    }
    if (chosen == "auto" || is_one_of(chosen, values)) continue;
    remarks.push_back(formatted("--{} has no effect with --{} {}, only with {}{}", key, chooser,
                                chosen, in_words(values), instead));
    reported = key;
  }
  return remarks;
}

}  // namespace lathe::cli
