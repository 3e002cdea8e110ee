// Completion scripts of bash, zsh and fish, and the manual page.
#include "lathe/tools/cli/settings/completions.h"

#include <algorithm>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/help.h"

namespace lathe::cli {
namespace {

std::string replaced(std::string_view text, char what, std::string_view by) {
  std::string out;
  for (const char c : text) out += c == what ? std::string(by) : std::string(1, c);
  return out;
}

// 'It is a text' for a shell.
std::string shell_quoted(std::string_view text) {
  return formatted("'{}'", replaced(text, '\'', "'\\''"));
}

std::vector<const Setting*> settings_of(const Command& command) {
  std::vector<const Setting*> out;
  for (const Setting& setting : all_settings()) {
    if (command.takes.has(setting)) out.push_back(&setting);
  }
  return out;
}

std::string spaced(std::string_view choices) { return replaced(choices, '|', " "); }

// The values to complete, with blanks between them: all that are allowed, or the usual ones.
std::string values_of(const Setting& setting) {
  return setting.key == "device" ? "auto cpu cuda" : spaced(setting.choices);
}

// Whether a value may also be the name of a file.
bool takes_files(const Setting& setting) { return setting.key == "model"; }

// What a command that runs another program runs of lathe itself.
constexpr std::string_view kOwnProgram = "train";

// Its flags that take no value, with bars between them.
std::string switches_of(const Command& command) {
  std::string all = "--help|-h";
  for (const Setting* setting : settings_of(command)) {
    if (setting->is_switch()) all += formatted("|--{0}|--no-{0}", setting->key);
  }
  return all;
}

// "train eval data …": the first words of all commands; after "data": "fetch prepare verify".
std::string words_after(std::span<const Command> commands, std::string_view first) {
  std::vector<std::string_view> words;
  for (const Command& command : commands) {
    const size_t space = std::min(command.name.find(' '), command.name.size());
    std::string_view word = command.name.substr(0, space);
    if (!first.empty()) {
      if (word != first || space == command.name.size()) continue;
      word = command.name.substr(space + 1);
    }
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return joined(words, " ");
}

std::vector<std::string_view> first_words_of_two(std::span<const Command> commands) {
  std::vector<std::string_view> words;
  for (const Command& command : commands) {
    const size_t space = command.name.find(' ');
    if (space == command.name.npos) continue;
    const std::string_view word = command.name.substr(0, space);
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return words;
}

/// What bash does behind a command that runs another program with its arguments.
std::string bash_own_program(const Command& command) {
  return formatted(R"(  if [ "$command" = {} ]; then
    local i=2
    while [ "$i" -lt "$at" ]; do
      case ${{typed[i]}} in
        {}) i=$((i + 1)) ;;
        -*) [ "${{typed[i+1]}}" != = ] || i=$((i + 1)); i=$((i + 2)) ;;
        *) break ;;
      esac
    done
    if [ "$i" -eq "$at" ]; then
      more={}
    elif [ "$i" -lt "$at" ] && [ "${{typed[i]}}" = {} ]; then
      command={}
    fi
  fi
)",
                   command.name, switches_of(command), kOwnProgram, kOwnProgram, kOwnProgram);
}

std::string bash_script(std::span<const Command> commands) {
  const std::string names = words_after(commands, "");
  std::string groups = formatted("    help) words={} ;;\n", shell_quoted(names)), values, flags,
              programs;
  for (const std::string_view word : first_words_of_two(commands)) {
    groups += formatted("    {}) words={} ;;\n", word, shell_quoted(words_after(commands, word)));
  }
  for (const Setting& setting : all_settings()) {
    if (const std::string words = values_of(setting); !words.empty())
      values += formatted("    --{}) words={}{} ;;\n", setting.key, shell_quoted(words),
                          takes_files(setting) ? " files=1" : "");
  }
  for (const Command& command : commands) {
    std::string all = "--help --config";
    for (const Setting* setting : settings_of(command)) {
      if (setting->letter != 0) all += formatted(" -{}", setting->letter);
      all += formatted(" --{}", setting->key);
      if (setting->is_switch()) all += formatted(" --no-{}", setting->key);
    }
    flags += formatted("    {}) words={} plain={} ;;\n", shell_quoted(command.name),
                       shell_quoted(all), shell_quoted(spaced(command.known_words)));
    if (!command.runs_program) continue;
    programs += bash_own_program(command);
  }
  return formatted(R"(# Completes lathe in bash: source <(lathe completion bash)
_lathe() {{
  local at=$COMP_CWORD words= files= plain= more=
  local -a typed=("${{COMP_WORDS[@]}}")
  local current=${{typed[at]}} previous=${{typed[at-1]}} command=${{typed[1]}}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {} -- "$current"))
    return
  fi
  case $command in
{}  esac
  if [ -n "$words" ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  [ -z "$words" ] || command="$command ${{COMP_WORDS[2]}}"
  words=
{}  case $previous in
{}  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"; [ -z "$files" ] || compgen -f -- "$current"))
    return
  fi
  case $command in
{}  esac
  case $previous,$current in
    *,-*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    --*) COMPREPLY=($(compgen -f -- "$current")) ;;
    *) COMPREPLY=($(if [ -n "$plain" ]; then compgen -W "$plain" -- "$current"; else compgen -W "$more" -- "$current"; compgen -f -- "$current"; fi)) ;;
  esac
}}
complete -o filenames -F _lathe lathe
)",
                   shell_quoted(names + " help"), groups, programs, values, flags);
}

// In a description of _arguments a colon and brackets mean something else.
std::string zsh_text(std::string_view text) {
  return replaced(replaced(replaced(text, '[', "("), ']', ")"), ':', "\\:");
}

std::string zsh_flag(const Setting& setting) {
  const std::string help = zsh_text(setting.help);
  if (setting.is_switch()) {
    return formatted(" {} {}", shell_quoted(formatted("--{}[{}]", setting.key, help)),
                     shell_quoted(formatted("--no-{}[{}]", setting.key, help)));
  }
  const std::string values = values_of(setting);
  const std::string how = values.empty()         ? "_files"
                          : takes_files(setting) ? formatted("{{compadd {}; _files}}", values)
                                                 : formatted("({})", values);
  // Without a text between the colons the value would be one that may be missing.
  const std::string_view what = setting.unit.empty() ? setting.key : setting.unit;
  const std::string value = formatted("[{}]:{}:{}", help, zsh_text(what), how);
  const std::string letter =
      setting.letter == 0 ? "" : " " + shell_quoted(formatted("-{}{}", setting.letter, value));
  return letter + " " + shell_quoted(formatted("--{}={}", setting.key, value));
}

/// The same as bash_own_program().
std::string zsh_own_program(const Command& command) {
  return formatted(R"(  if [[ $command = {} ]]; then
    local -i at=3
    while (( at < CURRENT )); do
      case $words[at] in
        (--*=*|{}) (( at += 1 )) ;;
        (-*) (( at += 2 )) ;;
        (*) break ;;
      esac
    done
    if (( at < CURRENT )) && [[ $words[at] = {} ]]; then
      shift $(( at - 2 )) words; (( CURRENT -= at - 2 ))
      command={}
    fi
  fi
)",
                   command.name, switches_of(command), kOwnProgram, kOwnProgram);
}

/// The flags and words of a command.
std::string zsh_case(const Command& command) {
  std::string text = formatted("    {})\n      _arguments", shell_quoted(command.name));
  for (const Setting* setting : settings_of(command)) text += zsh_flag(*setting);
  text += " '--config=[config file]:FILE:_files' '--help[flags]'";
  if (!command.known_words.empty()) {
    text += " " + shell_quoted(formatted("*:word:({})", spaced(command.known_words)));
  } else if (command.runs_program) {
    text += " " + shell_quoted(formatted("*:program:{{compadd {}; _files}}", kOwnProgram));
  } else if (command.max_words > 0) {
    text += " '*:file:_files'";
  }
  text += "\n      ;;\n";
  return text;
}

std::string zsh_script(std::span<const Command> commands) {
  std::string cases, programs;
  for (const Command& command : commands) {
    if (command.runs_program) programs += zsh_own_program(command);
    cases += zsh_case(command);
  }
  const std::string names = words_after(commands, "");
  std::string groups = formatted("    help) second=({}) ;;\n", names);
  for (const std::string_view word : first_words_of_two(commands)) {
    groups += formatted("    {}) second=({}) ;;\n", word, words_after(commands, word));
  }
  return formatted(R"(#compdef lathe
# Completes lathe in zsh: source <(lathe completion zsh), after compinit
_lathe() {{
  local command=$words[2]
  local -a names=({} help) second=()
  if (( CURRENT == 2 )); then
    compadd -a names
    return
  fi
  case $command in
{}  esac
  if (( $#second > 0 )); then
    if (( CURRENT == 3 )); then
      compadd -a second
      return
    fi
    command="$command $words[3]"
    shift words; (( CURRENT-- ))
  fi
{}  shift words; (( CURRENT-- ))  # the command takes the place of the program
  case $command in
{}  esac
}}
if [ "$funcstack[1]" = _lathe ]; then  # as a file of $fpath
  _lathe "$@"
else
  compdef _lathe lathe
fi
)",
                   names, groups, programs, cases);
}

std::string fish_flag(const Setting& setting, std::string_view when) {
  const std::string letter = setting.letter == 0 ? "" : formatted(" -s {}", setting.letter);
  const std::string begin = formatted("complete -c lathe -n {}{} -l", when, letter),
                    help = formatted("-d {}", shell_quoted(setting.help));
  if (setting.is_switch())
    return formatted("{0} {1} {2}\n{0} no-{1} {2}\n", begin, setting.key, help);
  const std::string values = values_of(setting);
  if (values.empty()) return formatted("{} {} -r -F {}\n", begin, setting.key, help);
  // The values in a line of their own, or each would have the flag's description.
  return formatted("{0} {1} {4} {2}\n{0} {1} {4} -a {3}\n", begin, setting.key, help,
                   shell_quoted(values), takes_files(setting) ? "-r -F" : "-x");
}

std::string fish_script(std::span<const Command> commands) {
  const std::string names = words_after(commands, "");
  std::string out = "# Completes lathe in fish: lathe completion fish | source\n";
  out += formatted("complete -c lathe -n __fish_use_subcommand -f -a {}\n",
                   shell_quoted(names + " help"));
  const auto add_words = [&](std::string_view word, const std::string& words) {
    out += formatted(
        "complete -c lathe -n '__fish_seen_subcommand_from {}; and not "
        "__fish_seen_subcommand_from {}' -f -a {}\n",
        word, words, shell_quoted(words));
  };
  add_words("help", names);
  for (const std::string_view word : first_words_of_two(commands))
    add_words(word, words_after(commands, word));
  for (const Command& command : commands) {
    const std::string when =
        shell_quoted("__fish_seen_subcommand_from " +
                     replaced(command.name, ' ', "; and __fish_seen_subcommand_from "));
    if (command.runs_program)
      out += formatted("complete -c lathe -n {} -a {}\n", when, kOwnProgram);
    if (command.max_words == 0 || !command.known_words.empty())
      out += formatted("complete -c lathe -n {} -f -a {}\n", when,
                       shell_quoted(spaced(command.known_words)));
    out += formatted("complete -c lathe -n {} -s h -l help -d 'Flags'\n", when);
    out += formatted("complete -c lathe -n {} -l config -r -F -d 'Config file'\n", when);
    for (const Setting* setting : settings_of(command)) out += fish_flag(*setting, when);
  }
  return out;
}

// Text for roff: a hyphen that can be copied, and no request at the beginning of a line.
std::string roff(std::string_view text) {
  std::string out = replaced(replaced(text, '\\', "\\e"), '-', "\\-");
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

// The script of another program than lathe: it and its function have other names.
std::string named(std::string_view script, std::string_view program) {
  constexpr std::string_view kOfFunctions =  // in any locale
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::string function = "_";
  for (const char c : program) function += kOfFunctions.find(c) == kOfFunctions.npos ? '_' : c;
  const bool is_plain = program.find_first_not_of(concat(kOfFunctions, ".-")) == program.npos;
  const std::string name = is_plain ? std::string(program) : shell_quoted(program);
  const std::pair<std::string, std::string> changes[] = {
      {"_lathe lathe\n", function + " " + name + "\n"},  // of complete and compdef
      {"_lathe", function},
      {"#compdef lathe\n", "#compdef " + name + "\n"},
      {"complete -c lathe ", "complete -c " + name + " "},
      {" Completes lathe ", " Completes " + name + " "},
      {"lathe completion ", name + " completion "}};
  // In one pass, because the new names may hold the old ones.
  std::string out;
  for (size_t at = 0; at < script.size();) {
    const auto change = std::ranges::find_if(
        changes, [&](const auto& c) { return script.compare(at, c.first.size(), c.first) == 0; });
    out += change == std::end(changes) ? std::string(1, script[at]) : change->second;
    at += change == std::end(changes) ? 1 : change->first.size();
  }
  return out;
}

std::string script_for(std::span<const Command> commands, std::string_view shell) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  throw UsageError(formatted("completion: expected bash, zsh or fish, got \"{}\"", shell));
}

}  // namespace

std::string completion_script(std::span<const Command> commands, std::string_view shell,
                              std::string_view program) {
  return program == "lathe" ? script_for(commands, shell)
                            : named(script_for(commands, shell), program);
}

std::string manual_page(std::span<const Command> commands, std::string_view version) {
  std::string out = formatted(
      ".TH LATHE 1 \"\" \"lathe {}\"\n.SH NAME\nlathe \\- train, evaluate and inspect neural "
      "networks\n.SH SYNOPSIS\n.B lathe\n.I COMMAND\n.RI [ flags ]\n.SH COMMANDS\n",
      version);
  for (const Command& command : commands) {
    out += formatted(".TP\n.B {}\n{}\n", roff(command.name), roff(command.help));
    if (!command.example.empty()) out += formatted(".br\n{}\n", roff(command.example));
  }
  out +=
      ".SH FLAGS\nA setting is a flag, an environment variable and a key of a config file, in this "
      "order.\n";
  std::string_view heading;
  for (const Setting& setting : all_settings()) {
    if (setting.heading != heading) out += formatted(".SS {}\n", setting.heading);
    heading = setting.heading;
    std::vector<std::string_view> users;
    for (const Command& command : commands) {
      if (command.takes.has(setting)) users.push_back(command.name);
    }
    out += formatted(".TP\n.B {}\n{} ({})\n", roff(flag_of(setting)), roff(setting.help),
                     roff(joined(users, ", ")));
  }
  return out;
}

}  // namespace lathe::cli
