// The texts of --help: two columns, flags and what they mean, wrapped to the width.
#include "lathe/tools/cli/settings/help.h"
#include "lathe/core/text/terminal.h"

#include <unistd.h>

#include <algorithm>

#include "lathe/core/text/formatted.h"
#include "lathe/core/text/wrapping.h"

namespace lathe::cli {
namespace {

constexpr int kNarrowestHelp = 60, kWidest = 100;
constexpr size_t kColumn = 26;  // where the meanings begin

// "  --lr NUMBER              What it means", with the meaning below where the flag is long.
void append_flag(std::string& out, const std::string& flag, std::string_view meaning, int width) {
  const std::string left = "  " + flag;
  if (columns_of(left) + 1 < kColumn) {
    out += left + std::string(kColumn - columns_of(left), ' ');
  } else {
    append_wrapped(out, left, 0, 6, width);
    out += std::string(kColumn, ' ');
  }
  append_wrapped(out, meaning, kColumn, kColumn, width);
}

// What says these is the run or the checkpoint, where a command looks at one.
constexpr std::string_view kOfRun[] = {"dataset", "model", "stem", "image-size", "val-split"};

std::string meaning_of(const Setting& setting, const Settings& defaults, bool reads_run) {
  std::string text(setting.help);
  if (reads_run && std::ranges::find(kOfRun, setting.key) != std::end(kOfRun))
    return text + " [as the run or checkpoint]";
  const std::string value = value_text(defaults, setting);
  if (!setting.automatic.empty()) {
    text += formatted(" [auto: {}]", setting.automatic);
  } else if (!value.empty() && !(setting.is_switch() && value == "false")) {
    text += formatted(" [{}]", value);
  }
  return text;
}

}  // namespace

std::string flag_of(const Setting& setting) {
  if (setting.is_switch()) return formatted("--[no-]{}", setting.key);
  const std::string letter = setting.letter == 0 ? "" : formatted("-{}, ", setting.letter);
  return formatted("{}--{} {}", letter, setting.key,
                   setting.unit.empty() ? setting.choices : setting.unit);
}

int help_width() {
  const int width = terminal_width(STDOUT_FILENO);
  return width > 0 ? std::clamp(width, kNarrowestHelp, kWidest) : kWidest;
}

std::string overview(std::span<const Command> commands, std::string_view prefix, int width) {
  const std::string first = prefix.empty() ? "" : formatted("{} ", prefix);
  std::string out = prefix.empty() ? "Train, evaluate and inspect neural networks.\n\n" : "";
  out += formatted("Usage: lathe {}COMMAND [flags]\n\nCommands:\n", first);
  for (const Command& command : commands) {
    if (!command.name.starts_with(first)) continue;
    out += formatted("  {:<20}", command.name);
    append_wrapped(out, command.help, 22, 22, width);
    if (command.example.empty()) continue;
    out += std::string(22, ' ');
    append_wrapped(out, command.example, 22, 24, width);
  }
  out += '\n';
  append_wrapped(out,
                 "`lathe help COMMAND` lists a command's flags, `lathe --version` the version.", 0,
                 0, width);
  return out;
}

std::string help_text(const Command& command, int width) {
  std::string out = formatted("Usage: lathe {} [flags]", command.name);
  if (command.max_words > 0) {
    out += command.min_words > 0 ? " " : " [";
    append_wrapped(out, formatted("{}{}", command.words, command.min_words > 0 ? "" : "]"),
                   out.size(), 7, width);
  } else {
    out += '\n';
  }
  out += '\n';
  append_wrapped(out, command.help, 0, 0, width);
  if (!command.example.empty()) {
    out += "  ";
    append_wrapped(out, command.example, 2, 4, width);
  }
  const Settings defaults;
  const bool reads_run = command.reads_run != ReadsRun::kNo;
  std::string_view heading;
  for (const Setting& setting : all_settings()) {
    if (!command.takes.has(setting)) continue;
    if (setting.heading != heading) out += formatted("\n{}:\n", setting.heading);
    heading = setting.heading;
    append_flag(out, flag_of(setting), meaning_of(setting, defaults, reads_run), width);
  }
  out += "\nOther:\n";
  append_flag(out, "--config FILE",
              "File with `key = value` lines. It overrides a recipe; flags and LATHE_<KEY> "
              "variables override it",
              width);
  append_flag(out, "-h, --help", "This text", width);
  return out;
}

}  // namespace lathe::cli
