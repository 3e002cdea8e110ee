// World: the ranks of one machine, from their start until all have ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tools/cli/launch/child_process.h"
#include "lathe/tools/cli/launch/signal_input.h"

namespace lathe::cli {

/// What all ranks of this machine are started with.
struct WorldOptions {
  std::vector<std::string> program;  // with its arguments
  int64_t ranks = 1;                 // on this machine
  int64_t first_rank = 0, world_size = 1;
  std::string log_dir;        // "": no logs
  double grace_seconds = 10;  // from SIGTERM, after a rank has failed, to SIGKILL
  std::vector<std::pair<std::string, std::string>> variables = {};  // the same for every rank
};

/// Why a world ended before its work was done.
struct RankFailure {
  int64_t rank = 0;
  pid_t pid = 0;
  ProcessEnd end;
  std::string last_line;  // of its stderr

  /// "rank 2 (process 4711) was ended by signal 9 (Killed)", and what it said last.
  std::string text() const;
};

struct WorldEnd {
  std::optional<RankFailure> failure = {};  // the first one; absent if no rank has failed
  int asked = 0;                            // the signal that asked to stop, or 0
  bool stopped = false;                     // a rank has ended with 128 + `asked`, or by it
};

/// Starts the ranks, passes their output on, and signals to them. Returns when all have ended.
///
/// When a rank ends badly, the others learn it from their process group and may say what they lost;
/// those that still run 3 s later, or grace_seconds if that is less, get SIGTERM, and grace_seconds
/// after that SIGKILL. SIGINT, SIGTERM, SIGHUP and SIGUSR1 go to all ranks, once each; a request to
/// stop that comes a second or more after the first one kills them. SIGUSR1 does not go to what the
/// ranks have started. A rank that ends as it was asked to has not failed: the others have as long
/// as they need, to save.
///
/// When stdout or a log cannot be written any more, the ranks get SIGTERM, and grace_seconds after
/// that SIGKILL. A reader that has stopped makes the ranks wait, but no signal.
/// throws: UsageError if the program cannot be started; CommandError (kError), when the ranks have
/// ended, if stdout or a log could not be written, unless one has failed or stopped as asked;
/// FileError for a log that cannot be opened.
WorldEnd run_world(const WorldOptions& options, const SignalInput& signals);

}  // namespace lathe::cli
