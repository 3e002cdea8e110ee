// The exit codes of `lathe`, and the exception that carries one. run.cpp maps all other
// exceptions.
#pragma once

#include <stdexcept>
#include <string>

namespace lathe::cli {

enum class ExitCode : int {
  kDone = 0,
  kError = 1,          // anything without a code of its own: a full disk, a closed stdout
  kUsage = 2,          // a flag, an environment variable, a config file
  kData = 3,           // a data set or weights file that is missing, unreadable or wrong
  kDevice = 4,         // a device or driver that is missing, not supported or has failed
  kOutOfMemory = 5,    // of any kind
  kDiverged = 6,       // the loss is no longer a number
  kCheckFailed = 7,    // data verify, a target accuracy
  kRanks = 8,          // the ranks of a training did not meet, or another rank has failed
  kHungUp = 129,       // SIGHUP, after saving
  kInterrupted = 130,  // SIGINT, after saving
  kQuit = 131,         // SIGQUIT, of `lathe launch`
  kTerminated = 143,   // SIGTERM, after saving
};

/// Ends the command with `code`. what() becomes the one line on stderr.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// A mistake in how the command was called.
class UsageError : public CommandError {
 public:
  explicit UsageError(const std::string& message) : CommandError(ExitCode::kUsage, message) {}
};

}  // namespace lathe::cli
