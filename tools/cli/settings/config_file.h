// Config files: the part of TOML that settings need. One `key = value` per line, `#` comments;
// values are "basic strings", 'literal strings', bare words and numbers, and flat [lists] of them.
// Our own parser, because CLI11's reads into flags at once (and puts the file above the
// environment), and a complete TOML library would accept tables and dates that no setting can mean;
// an error names file and line either way.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct ConfigEntry {
  int line;
  std::string key;
  std::string value;  // without quotes; a list as "a,b"
};

/// The entries of a text in order. `name` stands for the file in messages.
/// throws: UsageError naming file and line for what is not of this form, and for a key given twice.
std::vector<ConfigEntry> parse_config(std::string_view text, std::string_view name);

/// Reads and parses a file, or what a pipe without a name brings.
/// throws: UsageError if it cannot be read, also for a named pipe, which might wait for ever.
std::vector<ConfigEntry> read_config(const std::filesystem::path& path);

/// The settings that the commands `takes` know, as a config file that gives the same settings
/// again.
std::string config_text(const Settings& settings, unsigned takes);

}  // namespace lathe::cli
