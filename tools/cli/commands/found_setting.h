// FoundSetting: what find-lr, find-batch and find-workers write into --write-config FILE.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// A setting whose value a search finds, and the config file into which the value is written.
class FoundSetting {
 public:
  /// Checks the file of --write-config, and changes nothing. `path` is the value of the flag; with
  /// "" nothing is ever written.
  /// throws: UsageError if the existing file is not a config file; FileError if the file cannot be
  /// written.
  FoundSetting(std::string path, std::string_view key);

  /// Sets `key = value` in the config file and keeps all other bytes of the file. A new file has
  /// only this line. Reads an existing file again first, because somebody may have changed the file
  /// since the constructor read it.
  /// → one line that says what was written; "" if nothing was
  /// throws: what the constructor throws.
  std::string write(std::string_view value) const;
  /// Ends the command if the search has found no value, because a script must not go on without it.
  /// Does nothing if no file is to be written.
  /// throws: CommandError (kCheckFailed) with `reason`, saying that the file is unchanged.
  void fail_without_value(std::string_view reason) const;

 private:
  std::string present() const;

  std::string path_, key_;
};

}  // namespace lathe::cli
