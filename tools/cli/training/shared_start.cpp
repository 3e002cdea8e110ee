// What rank 0 tells the others before a training begins. Contract: shared_start.h.
#include "lathe/tools/cli/training/shared_start.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "lathe/core/cuda.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/given_flags.h"
#include "lathe/tools/cli/training/program_run.h"

namespace lathe::cli {
namespace {

// What may differ from rank to rank.
constexpr std::string_view kOwn[] = {"data-root",  "download",   "workers", "prefetch-factor",
                                     "pin-memory", "data-cache", "device",  "workspace-limit",
                                     "algo-cache", "progress",   "json",    "quiet",
                                     "threads"};

bool is_own(std::string_view key) { return std::ranges::find(kOwn, key) != std::end(kOwn); }

// How a rank was called as far as it concerns its machine: key → text, of the strongest source.
std::map<std::string, std::string, std::less<>> own_words(const SettingSources& own) {
  auto words = given_flags(own, kTrain);
  for (const std::string_view key : kOwn) {
    if (const char* const value = variable_of(own, *find_setting(key))) words.emplace(key, value);
  }
  std::erase_if(words, [](const auto& word) {  // what is left open is as rank 0 has chosen it
    const bool is_open = word.second == "auto" && !find_setting(word.first)->automatic.empty();
    return is_open || !is_own(word.first);
  });
  return words;
}

}  // namespace

void check_same_call(const Ranks& ranks, const Settings& settings) {
  if (ranks.alone()) return;
  std::string text;
  for (const Setting& setting : all_settings()) {
    if (!kTrain.has(setting) || is_own(setting.key)) continue;
    text += formatted("--{} {}\n", setting.key, value_text(settings, setting));
  }
  ranks.check_same("train: the settings", text);
}

Settings settings_beside_first(const std::string& config, const SettingSources& own, bool goes_on) {
  SettingSources sources;
  sources.saved_config = config;
  sources.saved_name = "the settings of rank 0";
  sources.flags = own_words(own);
  Settings settings = merge_settings(sources, kTrain);
  if (!goes_on && !is_flag_given(sources, "threads")) settings.threads = num_threads();
  settings.json = settings.profile = false;
  settings.quiet = true;
  settings.progress = "none";
  return settings;
}

void share_start(const Ranks& ranks, StartPoint& start, Settings& settings,
                 const SettingSources& own) {
  if (ranks.alone()) return;
  const std::string config = ranks.from_first(config_text(settings, kTrain));
  start.folder = ranks.from_first(start.folder.string());
  start.file = ranks.from_first(start.file.string());
  start.from = ranks.from_first(start.from);
  if (ranks.is_first()) return;
  settings = settings_beside_first(config, own, start.from.has_value());
  if (!start.from) return;
  SettingSources run;
  const auto saved = start.from->metadata.find(kConfigKey);
  if (saved == start.from->metadata.end()) start.record = record_of(*start.from);
  run.saved_config = start.record ? *start.record : saved->second;
  run.saved_name = start.file.string();
  start.before = merge_settings(run, kTrain);
}

Unchanged share_changes(const Ranks& ranks, const Unchanged& same) {
  const std::string first = ranks.from_first(formatted("{}{}", +same.batches, +same.evaluated));
  return {.batches = first[0] == '1', .evaluated = first[1] == '1'};
}

std::string device_of_rank(const Ranks& ranks, const std::string& device) {
  const bool on_gpu = device.starts_with("cuda") || (device == "auto" && cuda_is_available());
  if (ranks.alone() || !on_gpu) return device;
  const bool is_numbered = device.find(':') != std::string::npos;
  if (is_numbered && ranks.local_size() == 1) return device;
  if (is_numbered) {
    throw UsageError(
        formatted("--device {}: {} ranks on this machine take a GPU each; leave the number out",
                  device, ranks.local_size()));
  }
  if (cuda_is_available() && cuda::device_count() < ranks.local_size()) {
    throw UsageError(
        formatted("{} ranks on this machine need a GPU each, and it has {}; --device cpu uses none",
                  ranks.local_size(), cuda::device_count()));
  }
  return formatted("cuda:{}", ranks.local_rank());
}

}  // namespace lathe::cli
