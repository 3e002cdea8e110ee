// FoundSetting: what find-lr, find-batch and find-workers write into --write-config FILE.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// A setting whose value a search is to find, in the config file that will hold it.
class FoundSetting {
 public:
  /// `path` is that of --write-config; "": none is written. Nothing changes yet.
  /// throws: UsageError if a file is there that is no config file; FileError if it cannot be
  /// written, also where there is no such folder.
  FoundSetting(std::string path, std::string_view key);

  /// Puts `key = value` into the file, and says so in one line: "" if none is written. The file is
  /// read anew, because a search may take long; all other bytes of it stay. A new file has this one
  /// line.
  /// throws: as the constructor.
  std::string write(std::string_view value) const;
  /// throws: CommandError (kCheckFailed) saying that the file did not change, because of `reason`,
  /// unless none is written. A script must not go on without the value.
  void fail_without_value(std::string_view reason) const;

 private:
  std::string present() const;

  std::string path_, key_;
};

}  // namespace lathe::cli
