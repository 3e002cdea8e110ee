// The command line: finding the command, and splitting flags from values.
#include "lathe/tools/cli/settings/command_line.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/machine/info.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/revision.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/settings/help.h"
#include "lathe/tools/cli/settings/other_names.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/settings/training_recipes.h"
#include "lathe/tools/cli/weights_name.h"

namespace lathe::cli {
namespace {

// "lathe 0.1.0 (a1b2c3d4e5f6, Release, GNU 12.2.0; oneDNN 2.6.3, zlib 1.2.13, no CUDA)".
std::string version_text() {
  const BuildInfo build = build_info();
  std::string libraries;
  for (const LibraryInfo& library : build.libraries) {
    if (!library.version.empty()) libraries += formatted("{} {}, ", library.name, library.version);
  }
  return formatted("lathe {} ({}{}{}, {}; {}{})\n", build.version, revision(),
                   revision().empty() ? "" : ", ", build.build_type, build.compiler, libraries,
                   build.cuda ? "CUDA" : "no CUDA");
}

// Finds the command that the first one or two arguments name, and removes these.
const Command* take_command(std::vector<std::string>& arguments,
                            std::span<const Command> commands) {
  for (size_t words = std::min<size_t>(2, arguments.size()); words >= 1; --words) {
    const std::string name = words == 2 ? arguments[0] + " " + arguments[1] : arguments[0];
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const Command& c) { return c.name == name; });
    if (found != commands.end()) {
      arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(words));
      return &*found;
    }
  }
  return nullptr;
}

bool is_prefix(const std::string& word, std::span<const Command> commands) {
  return std::any_of(commands.begin(), commands.end(),
                     [&](const Command& c) { return c.name.starts_with(word + " "); });
}

[[noreturn]] void fail_unknown_command(const std::vector<std::string>& arguments,
                                       std::span<const Command> commands) {
  std::string word = arguments[0];
  std::vector<std::string_view> names;
  for (const Command& c : commands) names.push_back(c.name);
  if (is_prefix(word, commands)) {
    if (arguments.size() == 1 || arguments[1].starts_with("-")) {
      throw UsageError(formatted("{}: which {} command? see lathe {} --help", word, word, word));
    }
    word += " " + arguments[1];
  }
  const std::string_view other = command_for(word);
  std::string hint = other.empty() ? suggestion(word, names, "lathe ")
                                   : formatted("; did you mean lathe {}?", other);
  if (hint.empty()) hint = "; lathe --help lists all";
  throw UsageError(formatted("{}: unknown command{}", word, hint));
}

// The flags of one command. An empty value is not the same as none, so that `--run-dir= --dry-run`
// does not take the second word as the value.
class Flags {
 public:
  /// `command` must outlive it.
  explicit Flags(const Command& command) : command_(command) {
    for (const Setting& setting : all_settings()) {
      if (command.takes.has(setting)) add(setting);
    }
    units_["config"] = "FILE";
  }

  void parse(const std::vector<std::string>& arguments) {
    for (size_t at = 0; at < arguments.size(); ++at) {
      const std::string& argument = arguments[at];
      if (argument == "--") {
        words_.insert(words_.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                      arguments.end());
        break;
      }
      if (argument.size() < 2 || argument[0] != '-') {
        if (command_.runs_program) {
          words_.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
          break;
        }
        words_.push_back(argument);
      } else if (take_flag(argument, at + 1 < arguments.size() ? &arguments[at + 1] : nullptr)) {
        ++at;
      }
    }
  }

  /// Call after parse(). If a flag is given twice, the last one counts.
  SettingSources sources() const {
    SettingSources sources;
    sources.flags = values_;
    if (const auto config = sources.flags.extract("config")) sources.config_path = config.mapped();
    return sources;
  }
  const std::vector<std::string>& words() const { return words_; }

  bool has(const std::string& flag) const {
    const std::string key = flag.substr(std::min<size_t>(2, flag.size()));
    return letters_.contains(flag) ||
           (flag.starts_with("--") && (units_.contains(key) || switches_.contains(key)));
  }

  /// flag_hint() for a flag as it was typed.
  std::string hint(const std::string& flag, std::string_view prefix) const {
    std::vector<std::string_view> keys = {"help"};
    for (const auto& [known, unit] : units_) keys.push_back(known);
    for (const auto& [known, meaning] : switches_) {
      if (meaning.second) keys.push_back(known);
    }
    const std::string word = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    return flag_hint(word, command_.takes, keys, prefix);
  }

 private:
  void add(const Setting& setting) {
    const std::string key(setting.key);
    if (setting.is_switch()) {
      switches_[key] = {key, true};
      switches_["no-" + key] = {key, false};
    } else {
      units_[key] = setting.unit.empty() ? setting.choices : setting.unit;
    }
    if (setting.letter != 0) letters_[formatted("-{}", setting.letter)] = key;
  }

  /// Reads "--lr=0.1", or "--lr" before `next`.   → whether it took `next`
  bool take_flag(const std::string& argument, const std::string* next) {
    const size_t sign = std::min(argument.find('='), argument.size());
    const std::string flag = argument.substr(0, sign);
    const auto letter = letters_.find(flag);
    const std::string key = letter != letters_.end() ? letter->second
                            : flag.starts_with("--") ? flag.substr(2)
                                                     : "";
    std::optional<std::string> value;
    if (sign < argument.size()) value = argument.substr(sign + 1);
    if (const auto found = switches_.find(key); found != switches_.end()) {
      const auto& [name, meaning] = found->second;
      values_[name] = parse_switch(flag, value.value_or("true")) == meaning ? "true" : "false";
      return false;
    }
    const auto unit = units_.find(key);
    if (unit == units_.end()) fail_unknown_flag(flag);
    const bool takes_next = !value && next && !next->starts_with("--");
    if (takes_next) value = *next;
    if (!value && next)
      throw UsageError(
          formatted("{0}: expected {1}, got {2}; a value that begins with -- is "
                    "written {0}={2}",
                    flag, unit->second, *next));
    // An empty value is what a shell makes of a variable that is not set.
    if (value.value_or("").empty())
      throw UsageError(
          formatted("{}: expected {}, got {}", flag, unit->second, value ? "\"\"" : "nothing"));
    values_[key] = *value;
    return takes_next;
  }

  [[noreturn]] void fail_unknown_flag(const std::string& flag) const {
    const std::string meant = hint(flag, "--");
    throw UsageError(
        formatted("{}: unknown flag{}", flag,
                  meant.empty() ? formatted("; lathe help {} lists all", command_.name) : meant));
  }

  const Command& command_;
  std::map<std::string, std::string, std::less<>> units_;    // of flags that have a value
  std::map<std::string, std::string, std::less<>> letters_;  // "-n" → key
  std::map<std::string, std::pair<std::string, bool>, std::less<>> switches_;  // key, value
  std::map<std::string, std::string, std::less<>> values_;                     // key → text
  std::vector<std::string> words_;
};

// The command that may have been meant by a call that begins with a flag: one that follows, or else
// the first one that has the flag.
const Command* command_of_flag(const std::vector<std::string>& arguments, const std::string& flag,
                               std::span<const Command> commands) {
  for (auto at = arguments.begin() + 1; at != arguments.end(); ++at) {
    std::vector<std::string> rest(at, arguments.end());
    if (const Command* const found = take_command(rest, commands)) return found;
  }
  const auto found =
      std::ranges::find_if(commands, [&](const Command& c) { return Flags(c).has(flag); });
  return found == commands.end() ? nullptr : &*found;
}

[[noreturn]] void fail_without_command(const std::vector<std::string>& arguments,
                                       std::span<const Command> commands) {
  const std::string flag = arguments[0].substr(0, arguments[0].find('='));
  const Command* const meant = command_of_flag(arguments, flag, commands);
  const Command& command = meant ? *meant : commands.front();
  const std::string hint = Flags(command).has(flag)
                               ? formatted("; did you mean lathe {} {}?", command.name, flag)
                               : Flags(command).hint(flag, formatted("lathe {} --", command.name));
  throw UsageError(formatted("{}: the command comes first{}", flag,
                             hint.empty() ? "; lathe --help lists all" : hint));
}

bool asks_for_help(const std::vector<std::string>& arguments, const Command& command) {
  const auto is_end = [&](const std::string& argument) {
    return argument == "--" || (command.runs_program && !argument.starts_with('-'));
  };
  const auto end = std::ranges::find_if(arguments, is_end);
  return std::any_of(arguments.begin(), end, [](const std::string& argument) {
    return argument == "--help" || argument == "-h";
  });
}

// What may have been meant by an argument that is no flag: files that lie there.
std::string hint_for(const std::string& word, const Command& command) {
  if (!command.words.empty()) return formatted("; expected {}", command.words);
  std::error_code unreadable;  // then there is no hint
  const std::filesystem::path config = std::filesystem::path(word) / "config.toml";
  if (std::filesystem::exists(config, unreadable)) {
    if (command.takes.has(*find_setting("run-dir")))
      return formatted("; did you mean --run-dir {}?", word);
    if (command.takes.has(*find_setting("model")))
      return formatted("; did you mean --config {}?", config.string());
  }
  if (names_weights(word) && command.takes.has(*find_setting("weights")))
    return formatted("; did you mean --weights {}?", word);
  const bool is_data = command.takes.has(*find_setting("data-root"));
  return is_data ? data_root_hint(word) : "";
}

void check_words(const std::vector<std::string>& words, const Command& command) {
  if (words.size() < command.min_words) throw UsageError(formatted("expected {}", command.words));
  if (words.size() > command.max_words) {
    const std::string& word = words[command.max_words];
    throw UsageError(formatted("unexpected argument \"{}\"{}", word, hint_for(word, command)));
  }
  if (!command.runs_program && std::find(words.begin(), words.end(), "") != words.end())
    throw UsageError(formatted("expected {}, got \"\"", command.words));
}

}  // namespace

CommandLine parse_command_line(std::vector<std::string> arguments,
                               std::span<const Command> commands,
                               const char* (*environment)(const char*)) {
  if (arguments.empty())
    return {nullptr, {}, overview(commands, "", help_width()), ExitCode::kUsage};
  if (arguments[0] == "--version") return {nullptr, {}, version_text()};
  if (arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  if (arguments[0] == "--help" || arguments[0] == "-h")
    return {nullptr, {}, overview(commands, "", help_width())};
  const std::string first = arguments[0];
  const Command* const command = take_command(arguments, commands);
  if (!command) {
    const bool help = arguments.size() == 2 && (arguments[1] == "--help" || arguments[1] == "-h");
    if (help && is_prefix(first, commands))
      return {nullptr, {}, overview(commands, first, help_width())};
    if (first.starts_with("-")) fail_without_command(arguments, commands);
    fail_unknown_command(arguments, commands);
  }
  if (asks_for_help(arguments, *command)) return {nullptr, {}, help_text(*command, help_width())};
  Flags flags(*command);
  flags.parse(arguments);
  check_words(flags.words(), *command);
  SettingSources sources = flags.sources();
  sources.environment = environment;
  sources.config = config_of(sources);
  Settings settings = merge_settings(sources, command->takes);
  if (settings.recipe == kListRecipes) return {nullptr, {}, recipe_list(help_width())};
  const bool reads_run = command->reads_run != ReadsRun::kNo && !settings.run_dir.empty();
  if (reads_run && sources.config_path.empty()) {
    sources.config_path = config_of_run(settings.run_dir, command->reads_run, command->name);
    if (!sources.config_path.empty()) sources.config = read_config(sources.config_path);
    sources.of_finished_run = true;
    settings = merge_settings(sources, command->takes);
  }
  return {command, {std::move(settings), flags.words(), std::move(sources)}, {}};
}

}  // namespace lathe::cli
