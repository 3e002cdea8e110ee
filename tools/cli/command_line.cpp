#include "lathe/tools/cli/command_line.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "lathe/core/info.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/revision.h"
#include "lathe/tools/cli/settings_sources.h"

namespace lathe::cli {
namespace {

std::string overview(std::span<const Command> commands, std::string_view prefix) {
  std::string text = prefix.empty() ? "Train, evaluate and inspect neural networks.\n\n" : "";
  text += fmt::format("Usage: lathe {}COMMAND [flags]\n\nCommands:\n",
                      prefix.empty() ? "" : fmt::format("{} ", prefix));
  for (const Command& c : commands) {
    if (prefix.empty() || c.name.starts_with(fmt::format("{} ", prefix))) {
      text += fmt::format("  {:<13} {}\n", c.name, c.help);
    }
  }
  text +=
      "\nlathe help COMMAND (or lathe COMMAND --help) lists a command's flags; lathe --version.\n";
  return text;
}

// "lathe 0.1.0 (a1b2c3d4e5f6, Release, GNU 12.2.0; oneDNN 2.6.3, zlib 1.2.13, no CUDA)".
std::string version_text() {
  const BuildInfo build = build_info();
  std::string libraries;
  for (const LibraryInfo& library : build.libraries) {
    if (!library.version.empty())
      libraries += fmt::format("{} {}, ", library.name, library.version);
  }
  return fmt::format("lathe {} ({}{}{}, {}; {}{})\n", build.version, revision(),
                     revision().empty() ? "" : ", ", build.build_type, build.compiler, libraries,
                     build.cuda ? "CUDA" : "no CUDA");
}

// The command named by the first one or two arguments, which are removed.
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
  if (word.starts_with("-")) {
    throw UsageError(fmt::format("{}: the command comes first; see lathe --help", word));
  }
  std::vector<std::string_view> names;
  for (const Command& c : commands) names.push_back(c.name);
  if (is_prefix(word, commands)) {
    if (arguments.size() == 1 || arguments[1].starts_with("-")) {
      throw UsageError(fmt::format("{}: which one? see lathe {} --help", word, word));
    }
    word += " " + arguments[1];
  }
  throw UsageError(fmt::format("{}: unknown command{}", word, suggestion(word, names, "lathe ")));
}

std::string describe(const Setting& setting, const Settings& defaults) {
  std::string text(setting.help);
  const std::string value = value_text(defaults, setting);
  if (!setting.automatic.empty()) {
    text += fmt::format(" [auto: {}]", setting.automatic);
  } else if (!value.empty() && !(setting.is_switch() && value == "false")) {
    text += fmt::format(" [{}]", value);
  }
  return text;
}

// Shows a switch as --[no-]json.
class HelpFormatter final : public CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    const bool is_switch = option->get_expected_max() == 0 && name.starts_with("--");
    return is_switch ? "--[no-]" + name.substr(2) : name;
  }
};

// One CLI11 application per command: it splits the arguments and writes the help; values stay text.
class Flags {
 public:
  explicit Flags(const Command& command)
      : app_(std::string(command.help), fmt::format("lathe {}", command.name)) {
    app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app_.set_help_flag("-h,--help", "This text")->group("Other");
    const auto formatter = std::make_shared<HelpFormatter>();
    formatter->column_width(36);
    app_.formatter(formatter);
    const Settings defaults;
    for (const Setting& setting : all_settings()) {
      if ((setting.takes & command.takes) == 0) continue;
      const std::string key(setting.key);
      const std::string help = describe(setting, defaults);
      if (setting.is_switch()) {
        add_switch(key, help)->group(std::string(setting.group));
        continue;
      }
      CLI::Option* const option = app_.add_option("--" + key, texts_[key], help);
      option->type_name(std::string(setting.choices.empty() ? setting.unit : setting.choices));
      option->group(std::string(setting.group));
      options_[key] = option;
    }
    config_option_ =
        app_.add_option("--config", config_,
                        "File with `key = value` lines; flags and LATHE_<KEY> come first")
            ->type_name("FILE")
            ->group("Other");
    if (command.max_words > 0) {
      app_.add_option("words", words_, std::string(command.words))->type_name("")->expected(0, 64);
    }
    app_.allow_extras();
  }

  /// The help text if that was asked for.
  std::optional<std::string> parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      return app_.help();
    } catch (const CLI::ParseError& e) {
      throw UsageError(e.what());
    }
    bool words_follow = false;
    for (const std::string& extra : app_.remaining()) {
      if (!words_follow && extra == "--") {
        words_follow = true;
      } else {
        fail_extra(extra, words_follow);
      }
    }
    if (config_option_->count() > 0 && config_.empty())
      throw UsageError("--config: expected a file, got \"\"");
    return std::nullopt;
  }

  SettingSources sources() const {
    SettingSources sources;
    for (const auto& [key, option] : options_) {
      if (option->count() > 0) sources.flags[key] = option->results().back();
    }
    for (const CLI::Option* option : app_.parse_order()) {  // the last one wins
      const auto found = switches_.find(option);
      if (found == switches_.end()) continue;
      const auto& [key, meaning] = found->second;
      const std::string name = fmt::format("--{}{}", meaning ? "" : "no-", key);
      const bool given = parse_switch(name, option->results().back());
      sources.flags[key] = given == meaning ? "true" : "false";
    }
    sources.config_path = config_;
    return sources;
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  // --json and --no-json are two options to CLI11: of one that is both it would take the value of
  // the second for a number, of any size, and negate it.
  CLI::Option* add_switch(const std::string& key, const std::string& help) {
    CLI::Option* const on = app_.add_flag("--" + key, help);
    CLI::Option* const off = app_.add_flag("--no-" + key)->group("");  // not in the help
    switches_[on] = {key, true};
    switches_[off] = {key, false};
    return on;
  }

  [[noreturn]] void fail_extra(const std::string& extra, bool is_word) const {
    if (is_word || !extra.starts_with("-")) {
      throw UsageError(fmt::format("unexpected argument \"{}\"", extra));
    }
    const std::string flag = extra.substr(0, extra.find('='));
    std::vector<std::string_view> keys = {"config", "help"};
    for (const auto& [key, option] : options_) keys.push_back(key);
    for (const auto& [option, meaning] : switches_) keys.push_back(meaning.first);
    const size_t dashes = flag.find_first_not_of('-');
    const std::string word = dashes == std::string::npos ? "" : flag.substr(dashes);
    throw UsageError(fmt::format("{}: unknown flag{}", flag, suggestion(word, keys, "--")));
  }

  CLI::App app_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::map<std::string, CLI::Option*, std::less<>> options_;             // that take a value
  std::map<const CLI::Option*, std::pair<std::string, bool>> switches_;  // key, what it sets it to
  std::string config_;
  CLI::Option* config_option_ = nullptr;
  std::vector<std::string> words_;
};

void check_words(const std::vector<std::string>& words, const Command& command) {
  if (words.size() < command.min_words) throw UsageError(fmt::format("expected {}", command.words));
  if (words.size() > command.max_words) {
    throw UsageError(fmt::format("unexpected argument \"{}\"; expected {}",
                                 words[command.max_words], command.words));
  }
  if (std::find(words.begin(), words.end(), "") != words.end())
    throw UsageError(fmt::format("expected {}, got \"\"", command.words));
}

}  // namespace

CommandLine parse_command_line(std::vector<std::string> arguments,
                               std::span<const Command> commands,
                               const char* (*environment)(const char*)) {
  if (arguments.empty()) throw UsageError("no command given; see lathe --help");
  if (arguments[0] == "--version") return {nullptr, {}, version_text()};
  if (arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  if (arguments[0] == "--help" || arguments[0] == "-h")
    return {nullptr, {}, overview(commands, "")};
  const std::string first = arguments[0];
  const Command* const command = take_command(arguments, commands);
  if (!command) {
    const bool help = arguments.size() == 2 && (arguments[1] == "--help" || arguments[1] == "-h");
    if (help && is_prefix(first, commands)) return {nullptr, {}, overview(commands, first)};
    fail_unknown_command(arguments, commands);
  }
  Flags flags(*command);
  if (auto help = flags.parse(std::move(arguments))) return {nullptr, {}, std::move(*help)};
  check_words(flags.words(), *command);
  SettingSources sources = flags.sources();
  sources.environment = environment;
  Settings settings = merge_settings(sources, command->takes);
  if (command->reads_run && sources.config_path.empty() && !settings.run_dir.empty()) {
    sources.config_path = settings.run_dir + "/config.toml";
    sources.of_finished_run = true;
    settings = merge_settings(sources, command->takes);
  }
  return {command, {std::move(settings), flags.words(), std::move(sources)}, {}};
}

}  // namespace lathe::cli
