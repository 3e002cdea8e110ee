// FoundSetting: what find-lr, find-batch and find-workers write into --write-config FILE.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// A setting whose value a search is to find, in the config file that will hold it.
class FoundSetting {
 public:
  /// Checks the file of --write-config, and changes nothing. `path` is the value of the flag; with
  /// "" nothing is ever written.
  /// throws: UsageError if the existing file is not a config file; FileError if the file cannot be
  /// written.
  FoundSetting(std::string path, std::string_view key);

  /// Sets `key = value` in the file and keeps all its other bytes. A new file has this one line.
  /// The file is read again, because somebody may have changed it during the search.
  /// → one line that tells of it; "" if nothing is written
  /// throws: as the constructor.
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
