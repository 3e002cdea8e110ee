// merge_settings(): applies the sources, the weakest first.
#include "lathe/tools/cli/settings/settings_sources.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/settings/other_names.h"
#include "lathe/tools/cli/settings/training_recipes.h"
#include "lathe/tools/cli/settings/without_effect.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kPrefix = "LATHE_";

// How many letters of a variable may be mistyped: of a short name none, because LATHE_LOG is not a
// mistyped LATHE_LR.
size_t mistyped_letters(std::string_view name) {
  const size_t letters = name.size() - kPrefix.size();
  return letters < 5 ? 0 : letters < 8 ? 1 : 2;
}

// What a run's config says of the machine that trained: the machine that uses it chooses for
// itself.
constexpr std::string_view kOfMachine[] = {"device",          "threads",         "workers",
                                           "prefetch-factor", "pin-memory",      "data-cache",
                                           "cudnn-benchmark", "workspace-limit", "algo-cache"};

// Whether a command that reads the config of a finished run leaves out this entry. `trains`: it
// repeats the training itself.
bool is_left_out(std::string_view key, bool trains) {
  return key == "weights" || key == "weights-section" ||
         (!trains && std::ranges::find(kOfMachine, key) != std::end(kOfMachine));
}

// What may have been meant by a key: one of the command, or else of those that share its file.
std::string key_hint(std::string_view key, const Takes& takes) {
  std::vector<std::string_view> own, all;
  for (const Setting& s : all_settings()) {
    if (takes.has(s)) own.push_back(s.key);
    all.push_back(s.key);
  }
  const std::string hint = flag_hint(key, takes, own, "");
  return hint.empty() ? flag_hint(key, kTrain, all, "") : hint;
}

void assign_config(Settings& settings, const std::vector<ConfigEntry>& entries,
                   const std::string& file, const Takes& takes, bool of_finished_run) {
  for (const ConfigEntry& entry : entries) {
    const std::string name = formatted("{}:{}: {}", file, entry.line, entry.key);
    const Setting* const setting = find_setting(entry.key);
    if (!setting && !why_gone(entry.key).empty()) continue;
    if (!setting)
      throw UsageError(formatted("{}: unknown key{}", name, key_hint(entry.key, takes)));
    Settings other;
    const bool left_out = of_finished_run && is_left_out(setting->key, takes.includes(kTrain));
    const bool counts = takes.has(*setting) && !left_out;
    assign(counts ? settings : other, *setting, name, entry.value);
  }
}

/// `settings` with what the sources say, the weakest first.
Settings merge_over(Settings settings, const SettingSources& sources, const Takes& takes) {
  assign_config(settings, config_of(sources), sources.config_path, takes, sources.of_finished_run);
  assign_config(settings, parse_config(sources.saved_config, sources.saved_name),
                sources.saved_name, takes, !takes.includes(kTrain));
  for (const Setting& setting : all_settings()) {
    if (!takes.has(setting)) continue;
    if (const char* const value = variable_of(sources, setting))
      assign(settings, setting, environment_name(setting), value);
  }
  for (const auto& [key, text] : sources.flags) {
    assign(settings, *find_setting(key), "--" + key, text);
  }
  return settings;
}

}  // namespace

Settings merge_settings(const SettingSources& sources, const Takes& takes) {
  const Settings given = merge_over({}, sources, takes);
  if (given.recipe == kNoRecipe || given.recipe == kListRecipes) return given;
  Settings recipe;
  apply_recipe(recipe, given.recipe, takes.for_gpu || (given.device != "cpu" && sources.has_gpu()));
  // How images are kept is chosen for the recipe's data set. Others may not fit it.
  if (given.dataset && given.dataset != recipe.dataset) recipe.data_cache = given.data_cache;
  return merge_over(std::move(recipe), sources, takes);
}

std::vector<ConfigEntry> config_of(const SettingSources& sources) {
  if (sources.config) return *sources.config;
  return sources.config_path.empty() ? std::vector<ConfigEntry>()
                                     : read_config(sources.config_path);
}

const char* variable_of(const SettingSources& sources, const Setting& setting) {
  const std::string name = environment_name(setting);
  const char* const value = sources.environment ? sources.environment(name.c_str()) : nullptr;
  return value == nullptr || *value == '\0' ? nullptr : value;
}

bool is_flag_given(const SettingSources& sources, std::string_view key) {
  const auto flag = sources.flags.find(key);
  return flag != sources.flags.end() && flag->second != "auto";
}

bool is_of_config(const SettingSources& sources, const Setting& setting) {
  return !sources.flags.contains(setting.key) && variable_of(sources, setting) == nullptr;
}

std::string place_of(const SettingSources& sources, const Setting& setting) {
  if (is_of_config(sources, setting))
    return formatted("{} in {}", setting.key, sources.config_path);
  return sources.flags.contains(setting.key) ? formatted("--{}", setting.key)
                                             : environment_name(setting);
}

std::vector<std::string> mistyped_variables(const char* const* environment) {
  std::vector<std::string> names;
  for (const Setting& setting : all_settings()) names.push_back(environment_name(setting));
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  std::vector<std::string> remarks;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::find(names, name) != names.end()) continue;
    const std::string near = nearest(name, candidates, mistyped_letters(name));
    if (!near.empty())
      remarks.push_back(formatted("{} is not a setting; did you mean {}?", name, near));
  }
  return remarks;
}

}  // namespace lathe::cli
