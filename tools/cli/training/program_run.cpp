// What a program's checkpoint says: its metadata, and the state of optimiser and trainer.
#include "lathe/tools/cli/training/program_run.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/small_letters.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/train/run_folder.h"

namespace lathe::cli {
namespace {

// Settings that decide the result and have no usual value for a run that began elsewhere.
constexpr std::string_view kNeeded[] = {"dataset", "model",  "optimizer", "scheduler",
                                        "ema",     "epochs", "batch-size"};

// Entries of a group that are no hyper-parameters.
bool is_of_group(std::string_view name) {
  return name == "params" || name == "lr" || name == "initial_lr";
}

bool says(const std::string& record, std::string_view key) {
  return std::ranges::any_of(parse_config(record, ""), [&](const ConfigEntry& entry) {
    return find_setting(entry.key) == find_setting(key);
  });
}

bool is_given(const SettingSources& call, std::string_view key) {
  const Setting& setting = *find_setting(key);
  return is_flag_given(call, key) || variable_of(call, setting) != nullptr ||
         std::ranges::any_of(config_of(call), [&](const ConfigEntry& entry) {
           return find_setting(entry.key) == &setting && entry.value != "auto";
         });
}

}  // namespace

bool is_run_of_program(const std::filesystem::path& folder) {
  if (path_kind(folder / "config.toml") != PathKind::kNothing) return false;
  std::exception_ptr unreadable;  // the error of the first one that is
  for (const char* name : {"last.safetensors", "best.safetensors"}) {
    const std::filesystem::path file = folder / name;
    try {
      if (is_there(file)) return !safetensors::read_metadata(file.string()).contains(kConfigKey);
    } catch (const Error&) {
      if (!unreadable) unreadable = std::current_exception();
    }
  }
  if (unreadable) std::rethrow_exception(unreadable);
  return false;
}

std::string record_of(const Checkpoint& from) {
  std::string out;
  const auto options = from.metadata.find(train::kOptionsKey);
  if (options != from.metadata.end()) out += in_small_letters(options->second);
  for (const char* const key : {"model", "dataset"}) {
    const auto named = from.metadata.find(formatted("lathe.{}", key));
    if (named != from.metadata.end())
      out += formatted("{} = {}\n", key, config_string(named->second));
  }
  const StateDict optimizer = checkpoint_section(from, "optimizer");
  for (const auto& [name, value] : optimizer.section("group.0.")) {
    const std::string key = name == "initial_lr" ? "lr" : name;
    if ((is_of_group(name) && name != "initial_lr") || find_setting(key) == nullptr) continue;
    out += formatted("{} = {}\n", key, number_text(value.item<double>()));
  }
  // The last group is then that of the norms; Muon has one more, of what is not a hidden matrix.
  const int last = optimizer.find("group.0.use_adamw") != nullptr ? 2 : 1;
  const Tensor* const decay = optimizer.find(formatted("group.{}.weight_decay", last));
  const bool has_all =
      decay != nullptr && optimizer.find(formatted("group.{}.params", last + 1)) == nullptr;
  out += formatted("no-decay-norm = {}\n", has_all && decay->item<double>() == 0);
  return out;
}

bool is_known(const StartPoint& start, std::string_view key) {
  return !start.record || says(*start.record, key);
}

void check_record(const StartPoint& start, const Settings& settings, const SettingSources& call) {
  if (!start.record) return;
  const StateDict trainer = checkpoint_section(*start.from, "trainer");
  const char* const foreign =
      trainer.find("best_accuracy") == nullptr ? "does not choose its best by accuracy"
      : trainer.contains("schedule_by_epoch")  ? "steps its schedule once an epoch"
                                               : nullptr;
  if (foreign != nullptr) {
    throw CommandError(
        ExitCode::kData,
        formatted(
            "--resume: {} is of a program that {}, unlike the command; resume it with that program",
            start.file.string(), foreign));
  }
  std::string missing;
  for (const std::string_view key : kNeeded) {
    const bool is_chosen = (key == "model" && settings.model) ||
                           (key == "dataset" && is_given(call, "data-root")) ||
                           (key == "ema" && checkpoint_section(*start.from, "ema").empty());
    if (is_chosen || says(*start.record, key) || is_given(call, key)) continue;
    missing += formatted("{}--{}", missing.empty() ? "" : ", ", key);
  }
  if (missing.empty()) return;
  throw UsageError(
      formatted("--resume: {} is of a program, and lacks settings that the command needs: add {}",
                start.file.string(), missing));
}

void check_hyper_parameters(const StartPoint& start, const Settings& now,
                            const optim::Optimizer& optimizer) {
  if (!start.record || now.allow_changes) return;
  std::string changes;
  const StateDict before = checkpoint_section(*start.from, "optimizer");
  const StateDict here = optimizer.state_dict();
  for (size_t g = 0; g < optimizer.num_groups(); ++g) {
    const std::string group = formatted("group.{}.", g);
    for (const auto& [name, value] : here.section(group)) {
      const Tensor* const saved = before.find(group + name);
      if (is_of_group(name) || find_setting(name) != nullptr || saved == nullptr) continue;
      const double then = saved->item<double>(), wanted = value.item<double>();
      if (then == wanted) continue;
      changes += formatted("{}{} {} → {}", changes.empty() ? "" : ", ", name, number_text(then),
                           number_text(wanted));
    }
  }
  if (changes.empty()) return;
  throw UsageError(
      formatted("--resume: {} was made with hyper-parameters that have no flag ({}); "
                "--allow-changes resumes it anyway",
                start.file.string(), changes));
}

}  // namespace lathe::cli
