// lathe ckpt verify-resume: runs the same training twice, once in one process and once interrupted
// and resumed in a new one. Everything in the checkpoints, and the losses, must have the same bits.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/hash.h"
#include "lathe/core/files/scratch_folder.h"
#include "lathe/core/json.h"
#include "lathe/core/process_limits.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/train/checkpoint_hashes.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// The environment without LATHE_ variables: they would override the config file.
std::vector<char*> environment_without_settings() {
  std::vector<char*> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    const auto is_it = [&](const Setting& setting) { return environment_name(setting) == name; };
    if (std::ranges::none_of(all_settings(), is_it)) out.push_back(*variable);
  }
  out.push_back(nullptr);
  return out;
}

// While it exists, SIGINT, SIGTERM, SIGHUP and the end of a child stay pending until they are asked
// for.
class HeldSignals {
 public:
  HeldSignals() {
    std::signal(SIGCHLD, SIG_DFL);  // if the parent ignores it, the child cannot be waited for
    sigemptyset(&held_);
    sigaddset(&held_, SIGCHLD);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      const bool ignored = sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
      if (!ignored) sigaddset(&held_, signal);  // under nohup SIGHUP stays ignored
    }
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { let_go(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Waits for the next signal.
  int next() const {
    int signal = 0;
    sigwait(&held_, &signal);
    return signal;
  }
  /// throws: CommandError with the code of a signal that has arrived, other than SIGCHLD.
  void check() const {
    constexpr timespec kNow{};
    for (int signal; (signal = sigtimedwait(&held_, nullptr, &kNow)) > 0;) fail_if_stop(signal);
  }
  static void fail_if_stop(int signal) {
    if (signal == SIGCHLD || signal == 0) return;
    throw CommandError(exit_code_of_signal(signal),
                       formatted("verify-resume: stopped by {}", name_of_signal(signal)));
  }
  void let_go() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t held_{}, before_{};
};

// What the child of `parent` does. It must not outlive `parent`.
[[noreturn]] void become_self(pid_t parent, const HeldSignals& signals, char** argv,
                              char** environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  const int nowhere = open("/dev/null", O_WRONLY);
  if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
  signals.let_go();
  execve("/proc/self/exe", argv, environment);
  _exit(127);
}

// Runs this program again and waits for it. Its stderr is shown. A signal is passed on to it, and
// ends this command when the child has ended.
void run_self(std::vector<std::string> arguments, const HeldSignals& signals) {
  arguments.insert(arguments.begin(), "lathe");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment = environment_without_settings();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    const std::string cause = std::strerror(errno);  // EAGAIN most often: a limit on tasks
    throw CommandError(ExitCode::kError,
                       formatted("verify-resume: cannot start a process: {}; limits: {}", cause,
                                 thread_limits_text()));
  }
  if (child == 0) become_self(parent, signals, argv.data(), environment.data());
  int status = 0, stopped_by = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const int signal = signals.next();
    if (signal == SIGCHLD) continue;
    stopped_by = signal;
    kill(child, signal);
  }
  HeldSignals::fail_if_stop(stopped_by);
  signals.check();  // a signal that both got, as from Ctrl-C
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code != 0) {
    throw CommandError(code <= 7 ? static_cast<ExitCode>(code) : ExitCode::kError,
                       formatted("verify-resume: a training ended with exit code {}", code));
  }
}

// The rows of metrics without what depends on time, and on what memory a process has used before.
std::string losses_of(const fs::path& run) {
  std::istringstream text(read_file((run / "metrics.jsonl").string(), INT64_MAX));
  std::string out;
  for (std::string line; std::getline(text, line);) {
    auto row = nlohmann::ordered_json::parse(line);
    for (auto at = row.begin(); at != row.end();) {
      const std::string& key = at.key();
      const bool differs =
          key == "images_per_second" || key == "time" || key.starts_with("memory_");
      at = differs ? row.erase(at) : std::next(at);
    }
    out += row.dump() + "\n";
  }
  return out;
}

}  // namespace

ExitCode run_ckpt_verify_resume(const Invocation& call) {
  const Output out(call.settings.json);
  Settings settings = call.settings;
  const int64_t steps = settings.steps;
  const int64_t at = settings.interrupt_at > 0 ? settings.interrupt_at : (steps + 1) / 2;
  if (at >= steps)
    throw UsageError(formatted("--interrupt-at {}: expected less than --steps {}", at, steps));
  const HeldSignals signals;  // until the folder is removed
  const ScratchFolder scratch("verify-resume");
  settings.run_dir.clear();
  settings.resume.clear();
  settings.dry_run = false;
  settings.max_steps = steps;
  settings.target_acc = settings.time_limit = 0;
  const std::string config = (scratch.path() / "config.toml").string();
  write_file_atomic(config, config_text(settings, kTrain));
  const fs::path whole = scratch.path() / "whole", resumed = scratch.path() / "resumed";
  const auto train = [&](const fs::path& run, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"train",      "--quiet",     "--no-json", "--run-dir",
                                          run.string(), "--log-every", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    run_self(std::move(arguments), signals);
  };
  train(whole, {"--config", config, "--stop-after", "0"});
  train(resumed, {"--config", config, "--stop-after", std::to_string(at)});
  train(resumed, {"--resume", "auto", "--stop-after", "0"});

  const auto hashes = [](const fs::path& run) {
    std::vector<train::PartHash> parts = train::hash_parts(
        train::hash_entries(read_checkpoint((run / "last.safetensors").string())));
    parts.push_back({.part = "losses", .entries = 1, .sha256 = sha256_hex(losses_of(run))});
    return parts;
  };
  const std::vector<train::PartHash> a = hashes(whole), b = hashes(resumed);
  LATHE_CHECK(DataError, a.size() == b.size(),
              "verify-resume: the checkpoint of the whole run has ", a.size(),
              " parts, that of the interrupted one ", b.size());
  signals.check();
  std::string different;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i].part == b[i].part && a[i].sha256 == b[i].sha256;
    if (!same) different += formatted("{}{}", different.empty() ? "" : ", ", a[i].part);
    out.text(formatted("{:<10} {:<9} {:>5} entries  sha256 {}", a[i].part,
                       same ? "identical" : "differs", a[i].entries, a[i].sha256));
    out.row(Row()
                .add("event", "part")
                .add("part", a[i].part)
                .add("identical", same)
                .add("entries", a[i].entries)
                .add("sha256", a[i].sha256)
                .add("sha256_resumed", b[i].sha256));
  }
  if (!different.empty()) {
    throw CommandError(ExitCode::kCheckFailed,
                       formatted("after {} steps, the training interrupted at {} differs in: {}",
                                 steps, at, different));
  }
  out.sentence(
      formatted("identical after {} steps, with one training interrupted at {}", steps, at));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
