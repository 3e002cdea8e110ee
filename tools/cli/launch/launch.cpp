// `lathe launch`: starts the ranks of a job on this machine, and starts them again when one fails.
// world.h has their life; distributed/group_options.h reads the variables that they get.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>

#include "lathe/core/device.h"
#include "lathe/core/files/scratch_folder.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/thread_pool.h"
#include "lathe/distributed/process_group.h"
#include "lathe/tools/cli/launch/signal_input.h"
#include "lathe/tools/cli/launch/world.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/command_line.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/shared_config.h"
#include "lathe/tools/cli/signals.h"

namespace lathe::cli {
namespace {

std::string variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? "" : value;
}

/// 128 random bits.
std::string new_token() {
  std::random_device random;
  std::string out;
  for (int i = 0; i < 4; ++i) out += formatted("{:08x}", random());
  return out;
}

/// `launch train …` starts this program. What is wrong with its flags is said here, once, instead
/// of by each rank.
void check_training(const LaunchSettings& s, const std::vector<std::string>& words) {
  const CommandLine line = parse_command_line(
      words, commands(), [](const char* name) -> const char* { return ::getenv(name); });
  if (line.command == nullptr) return;  // --help
  const Settings& training = line.invocation.settings;
  check_shared_config(line.invocation.sources.config_path);
  const int64_t ranks = s.nodes * s.ranks;
  if (ranks > 1 && !distributed::is_available()) {
    throw UsageError(
        "launch: this build cannot join several processes, because it was built without Gloo "
        "(libgloo-dev)");
  }
  if (training.batch_size) {
    batch_of_rank(*training.batch_size, ranks);
  } else if (training.resume.empty()) {  // else the run may say it, which ranks find
    // Without a data set the ranks choose one: what can share its batch can share the largest.
    const bool has_cuda = training.device != "cpu" && cuda_is_available();
    batch_of_rank(usual_batch(training.dataset.value_or("folder"), has_cuda), ranks);
  }
  if (s.max_restarts > 0 && (training.resume != "auto" || training.run_dir.empty())) {
    throw UsageError(
        "--max-restarts needs --resume auto and --run-dir DIR, so that a restarted training "
        "continues its run");
  }
}

/// The program to start, with its arguments.
std::vector<std::string> program_of(const Invocation& call) {
  std::vector<std::string> words = call.words;
  if (words[0] == "train") {
    check_training(call.settings, words);
    words.insert(words.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  }
  return words;
}

void check(const LaunchSettings& s) {
  if (s.node_rank >= s.nodes) {
    throw UsageError(formatted("--node-rank: must be from 0 to {}, one less than --nodes, got {}",
                               s.nodes - 1, s.node_rank));
  }
  if (s.nodes > 1 && s.rendezvous.empty()) {
    throw UsageError(
        formatted("--nodes {}: needs --rendezvous, where ranks of several machines meet: "
                  "tcp://HOST:PORT or file:///PATH",
                  s.nodes));
  }
  const bool known = s.rendezvous.empty() || s.rendezvous.starts_with("tcp://") ||
                     s.rendezvous.starts_with("file:///");
  if (!known) {
    throw UsageError(formatted("--rendezvous: must be tcp://HOST:PORT or file:///PATH, got \"{}\"",
                               s.rendezvous));
  }
}

/// Where the ranks of one attempt meet and what proves that they belong to it. Both differ from
/// those of the attempt before, of which a rank may still live elsewhere.
class Meeting {
 public:
  explicit Meeting(const LaunchSettings& settings)
      : place_(settings.rendezvous.empty() ? formatted("file://{}/place", folder_.path().string())
                                           : settings.rendezvous),
        token_(variable("LATHE_JOB_TOKEN")) {
    if (token_.empty() && settings.nodes == 1) token_ = new_token();
  }

  std::vector<std::pair<std::string, std::string>> variables(int64_t restart) const {
    const std::string suffix = restart == 0 ? "" : formatted(".{}", restart);
    const bool is_file = place_.starts_with("file://");
    std::vector<std::pair<std::string, std::string>> out = {
        {"LATHE_RENDEZVOUS", is_file ? place_ + suffix : place_},
        {"LATHE_RESTARTS", std::to_string(restart)}};
    if (!(token_ + suffix).empty()) out.emplace_back("LATHE_JOB_TOKEN", token_ + suffix);
    return out;
  }

 private:
  ScratchFolder folder_{"launch"};  // only this user can enter it
  std::string place_, token_;
};

/// The processors are shared by the ranks, unless someone has said how many threads each has.
void share_processors(WorldOptions& world) {
  if (!variable("OMP_NUM_THREADS").empty() || world.ranks == 1) return;
  const int64_t threads = std::max<int64_t>(1, usable_cpus() / world.ranks);
  world.variables.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
}

constexpr std::chrono::seconds kBetweenStarts{1};  // at least, where ranks fail at once

ExitCode stopped(int signal) {
  write_stderr_line(formatted("lathe: launch: stopped by {}", name_of_signal(signal)));
  return exit_code_of_signal(signal);
}

}  // namespace

ExitCode run_launch(const Invocation& call) {
  const Settings& s = call.settings;
  check(s);
  const SignalInput
      signals;  // before the folder of the job, which is removed before they are let go
  const Meeting meeting(s);
  WorldOptions world = {.program = program_of(call),
                        .ranks = s.ranks,
                        .first_rank = s.node_rank * s.ranks,
                        .world_size = s.nodes * s.ranks,
                        .log_dir = s.log_dir,
                        .grace_seconds = s.grace};
  for (int64_t restart = 0;; ++restart) {
    world.variables = meeting.variables(restart);
    share_processors(world);
    const auto began = std::chrono::steady_clock::now();
    const WorldEnd end = run_world(world, signals);
    if (!end.failure) return end.stopped ? stopped(end.asked) : ExitCode::kDone;
    write_stderr_line(formatted("lathe: launch: {}", printable(end.failure->text())));
    const int asked = end.failure->end.exit_code() - 128;  // a rank was asked to stop
    if (asked == SIGINT || asked == SIGTERM || asked == SIGHUP) return stopped(asked);
    if (restart == s.max_restarts || end.asked != 0)
      return static_cast<ExitCode>(end.failure->end.exit_code());
    write_stderr_line(formatted("lathe: launch: all ranks start again, restart {} of {}",
                                restart + 1, s.max_restarts));
    if (const int stop = signals.wait_until(began + kBetweenStarts)) return stopped(stop);
  }
}

}  // namespace lathe::cli
