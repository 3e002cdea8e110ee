// Config files: the part of TOML that settings need. One `key = value` per line and `#` comments;
// values are "basic strings", 'literal strings', bare words and numbers, and flat [lists] of them.
// This is our own parser, because a complete TOML library would accept tables and dates, which no
// setting can have. Errors name file and line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/takes.h"

namespace lathe::cli {

struct ConfigEntry {
  int line;
  std::string key;
  std::string value;  // without quotes; a list as "a,b"
  size_t begin, end;  // where the value stands in the text, with its quotes
};

/// Parses a text. Messages call the file `name`.   → the entries, in order
/// throws: UsageError naming file and line if the text is not of this form or a key comes twice.
std::vector<ConfigEntry> parse_config(std::string_view text, std::string_view name);

/// Reads a config file, or an unnamed pipe.
/// throws: UsageError
///   - if the file cannot be read or has more than 1 MiB;
///   - for a named pipe, because opening it might block for ever;
///   - for a pipe or device that gives nothing, except for /dev/null by this name.
std::string read_config_text(const std::filesystem::path& path);

/// Calls read_config_text(), then parse_config().
/// throws: what these two throw.
std::vector<ConfigEntry> read_config(const std::filesystem::path& path);

/// Returns the text with `value`, a bare word or a number, as the value of `key`. All other bytes
/// stay, comments too. If the text lacks the key, a line is added at its end. Messages call the
/// file `name`.
/// throws: as parse_config.
std::string with_value(std::string_view text, std::string_view name, std::string_view key,
                       std::string_view value);

/// Writes a text as a value of a config file: in quotes, with the escapes that it needs.
std::string config_string(std::string_view text);

/// Writes the settings that a command takes as a config file. Reading this file gives the same
/// settings.
std::string config_text(const Settings& settings, const Takes& takes);

}  // namespace lathe::cli
