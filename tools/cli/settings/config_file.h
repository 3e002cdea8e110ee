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

/// The entries of a text, in order. Messages call the file `name`.
/// throws: UsageError naming file and line for what is not of this form, and for a key given twice.
std::vector<ConfigEntry> parse_config(std::string_view text, std::string_view name);

/// The text of a file, or of an unnamed pipe.
/// throws: UsageError if it cannot be read or has more than 1 MiB, for a named pipe, which might
/// wait for ever, and for what is neither a file nor /dev/null by that name and gives nothing.
std::string read_config_text(const std::filesystem::path& path);

/// Reads and parses such a text.
/// throws: as the two above.
std::vector<ConfigEntry> read_config(const std::filesystem::path& path);

/// The text of a config file with another value of `key`: a bare word or a number, in place of the
/// old value. Everything else keeps its bytes, comments too. A key that the text lacks gets a line
/// at its end. Messages call the file `name`.
/// throws: as parse_config.
std::string with_value(std::string_view text, std::string_view name, std::string_view key,
                       std::string_view value);

/// A text as a value of a config file: in quotes, with escapes where it needs them.
std::string config_string(std::string_view text);

/// The settings that a command takes, as a config file that gives the same settings
/// again.
std::string config_text(const Settings& settings, const Takes& takes);

}  // namespace lathe::cli
