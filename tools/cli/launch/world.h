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

/// The options with which all ranks of this machine are started.
struct WorldOptions {
  std::vector<std::string> program;  // with its arguments
  int64_t ranks = 1;                 // on this machine
  int64_t first_rank = 0, world_size = 1;
  std::string log_dir;        // "": no logs
  double grace_seconds = 10;  // from SIGTERM, after a rank has failed, to SIGKILL
  // Environment variables, the same for every rank.
  std::vector<std::pair<std::string, std::string>> variables = {};
};

/// Why a world ended before its work was done.
struct RankFailure {
  int64_t rank = 0;
  pid_t pid = 0;
  ProcessEnd end;
  std::string last_line;  // of its stderr

  /// "rank 2 (process 4711) was ended by signal 9 (Killed)", followed by the last output of this
  /// rank.
  std::string text() const;
};

struct WorldEnd {
  std::optional<RankFailure> failure = {};  // the first one; absent if no rank has failed
  int asked = 0;                            // the signal that asked to stop, or 0
  bool stopped = false;  // a rank ended with exit code 128 + `asked`, or by the signal itself
};

/// Starts the ranks, passes on their output, and passes arriving signals to them. Returns when all
/// ranks have ended.
///   - A rank fails: the other ranks have 3 s, or grace_seconds if that is less, to end by
///     themselves. Then they get SIGTERM, and SIGKILL grace_seconds later.
///   - SIGINT, SIGTERM or SIGHUP: each rank, and every process that it started, gets the signal
///     once. A rank that ends because of the signal has not failed, and the other ranks have
///     unlimited time to save.
///   - A second such signal, a second or more later: kills the ranks.
///   - SIGUSR1: each rank gets it, but not what the rank started.
///   - stdout or a log cannot be written any more: the ranks get SIGTERM, and SIGKILL grace_seconds
///     later.
///   - The reader of stdout has stopped: the ranks wait; signals still arrive.
/// throws: UsageError if the program cannot be started; FileError if a log cannot be opened;
/// CommandError (kError) after the end, if stdout or a log could not be written, unless a rank
/// failed or a signal stopped the ranks.
WorldEnd run_world(const WorldOptions& options, const SignalInput& signals);

}  // namespace lathe::cli
