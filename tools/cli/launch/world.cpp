// World: one loop that waits for output, ends and signals. Contract: world.h.
#include "lathe/tools/cli/launch/world.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/launch/rank_output.h"
#include "lathe/tools/cli/output.h"
#include "lathe/train/append_file.h"

namespace lathe::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kOneRequest = 1;  // seconds in which signals to stop are one request
constexpr double kUntilTerm = 3;   // seconds in which ranks may say what they lost
constexpr size_t kQuoted = 500;    // of a rank's last line

/// A file that is closed with its rank.
class LogFile {
 public:
  explicit LogFile(int descriptor) : descriptor_(descriptor) {}
  LogFile(LogFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~LogFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct Rank {
  int64_t number;
  LogFile log;
  RankOutput out, err;
  ChildProcess process;
  bool seen_to_end = false;

  /// Takes a part of what can be read now, if it can be passed on; `all`: in any case, of a rank
  /// that has ended. Closes streams that have ended.
  void read_output(bool all) {
    read_stream(process.standard_output(), out, all);
    read_stream(process.standard_error(), err, all);
  }

 private:
  void read_stream(int descriptor, RankOutput& to, bool all) {
    if (descriptor < 0) return;
    // Whoever writes faster than this reads would keep it from the other ranks and from signals.
    constexpr size_t kAtOnce = 1 << 16;
    // More than a pipe holds: others that the rank has started may write into it for ever.
    constexpr size_t kLast = 1 << 20;
    char bytes[1 << 16];
    size_t taken = 0;
    while (all ? taken < kLast : taken < kAtOnce && !to.is_full()) {
      const ssize_t count = ::read(descriptor, bytes, sizeof bytes);
      if (count > 0) {
        taken += static_cast<size_t>(count);
        to.add({bytes, static_cast<size_t>(count)});
        continue;
      }
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      to.end();
      return process.close_output(descriptor);
    }
  }
};

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    throw CommandError(
        ExitCode::kError,
        formatted("launch: --log-dir {}: cannot make this folder: {}", path, error.message()));
}

class World {
 public:
  World(const WorldOptions& options, const SignalInput& signals)
      : options_(options), signals_(signals) {
    if (!options.log_dir.empty()) make_folder(options.log_dir);
    ranks_.reserve(static_cast<size_t>(options.ranks));
    for (int64_t local = 0; local < options.ranks; ++local) ranks_.push_back(start(local));
  }

  WorldEnd run() {
    while (std::ranges::any_of(ranks_, [](const Rank& r) { return !r.seen_to_end; })) {
      wait();
      while (const int number = signals_.next()) take(number);
      pass_on_output();
      look_for_ends();
      act_on_deadlines();
    }
    pass_on_the_rest();
    if (!problem_.empty() && !end_.stopped && !end_.failure)
      throw CommandError(ExitCode::kError, problem_);
    // A rank that misses one that has stopped ends because of it.
    if (end_.stopped && end_.failure && nearness(end_.failure->end) == 0) end_.failure.reset();
    return end_;
  }

 private:
  Rank start(int64_t local) {
    const int64_t number = options_.first_rank + local;
    auto variables = options_.variables;
    const auto add = [&](const char* name, int64_t value) {
      variables.emplace_back(name, std::to_string(value));
    };
    add("RANK", number);
    add("WORLD_SIZE", options_.world_size);
    add("LOCAL_RANK", local);
    add("LOCAL_WORLD_SIZE", options_.ranks);
    const std::string prefix = options_.world_size > 1 ? formatted("[{}] ", number) : std::string();
    LogFile log(options_.log_dir.empty()
                    ? -1
                    : train::open_to_append(formatted("{}/rank-{}.log", options_.log_dir, number)));
    const int file = log.descriptor();
    return {.number = number,
            .log = std::move(log),
            .out = {stdout_, prefix, file},
            .err = {stderr_, prefix, file},
            .process = {options_.program, variables}};
  }

  /// Until something has happened, or a deadline has passed.
  void wait() const {
    std::vector<pollfd> entries = {{signals_.descriptor(), POLLIN, 0}};
    for (const OutputQueue* queue : {&stdout_, &stderr_}) {
      if (queue->waits()) entries.push_back({queue->descriptor(), POLLOUT, 0});
    }
    for (const Rank& rank : ranks_) {
      const int out = rank.out.is_full() ? -1 : rank.process.standard_output();
      const int err = rank.err.is_full() ? -1 : rank.process.standard_error();
      for (const int stream : {out, err}) {
        if (stream >= 0) entries.push_back({stream, POLLIN, 0});
      }
    }
    int milliseconds = -1;
    if (deadline_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
      milliseconds = static_cast<int>(std::max<int64_t>(0, left.count()));
    }
    ::poll(entries.data(), entries.size(), milliseconds);
  }

  /// When some of it cannot be written any more, the ranks are asked to end.
  void pass_on_output() {
    stdout_.write();
    stderr_.write();
    for (Rank& rank : ranks_) {
      rank.read_output(false);
      for (const RankOutput* output : {&rank.out, &rank.err}) {
        if (problem_.empty() && !output->problem().empty()) {
          problem_ = output->problem();
          ask_to_end();
        }
      }
    }
  }

  /// Unless they were asked, or will be because one has failed.
  void ask_to_end() {
    if (end_.asked != 0 || end_.failure) return;
    to_all(SIGTERM);
    asked_to_end_ = true;
    deadline_ = after(options_.grace_seconds);
    asked_again_from_ = after(kOneRequest);  // a terminal that is closed sends SIGHUP, too
  }

  /// Of ranks that have ended. After a request to stop nobody may be reading it: then it is not
  /// waited for.
  void pass_on_the_rest() {
    deadline_.reset();
    while (stdout_.waits() || stderr_.waits()) {
      if (end_.asked != 0 && !deadline_) deadline_ = after(kOneRequest);
      if (deadline_ && Clock::now() >= *deadline_) {
        end_.stopped = true;
        return;
      }
      wait();
      while (const int number = signals_.next()) take(number);
      stdout_.write();
      stderr_.write();
    }
  }

  static Clock::time_point after(double seconds) {
    return Clock::now() +
           std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void take(int number) {
    if (number == SIGCHLD) return;
    if (number == SIGUSR1) {  // a message: it would end what a rank has started
      for (const Rank& rank : ranks_) rank.process.signal(number);
      return;
    }
    // timeout(1), for one, signals a process and then its group: that is one request.
    if (Clock::now() < asked_again_from_) return;
    killed_ = end_.asked != 0;
    to_all(killed_ ? SIGKILL : number);
    if (killed_) return;
    end_.asked = number;
    asked_again_from_ = after(kOneRequest);
  }

  void to_all(int number) const {
    for (const Rank& rank : ranks_) rank.process.signal_all(number);
  }

  /// Whether a rank has ended as it was asked to: with the signal's code, or by the signal.
  bool has_stopped(const ProcessEnd& end) const {
    return end_.asked != 0 &&
           (end.exit_code() == 128 + end_.asked || (killed_ && end.signal == SIGKILL));
  }

  /// How near an end is to the cause. A rank that a signal ended had no time to tell the others
  /// why; one that ended because of another rank says so by its exit code.
  static int nearness(const ProcessEnd& end) {
    return end.signal != 0 ? 2 : end.code == static_cast<int>(ExitCode::kRanks) ? 0 : 1;
  }

  /// Of ranks that ended at the same moment, the nearest one is the cause; later, until the others
  /// are told to end, only one that is nearer than those that ended because of another rank.
  /// Who has stopped as asked has not failed, and leaves the others their time to save.
  void look_for_ends() {
    const bool had_failed = end_.failure.has_value();
    for (Rank& rank : ranks_) {
      if (rank.seen_to_end || rank.process.look()) continue;
      rank.read_output(true);
      finish(rank);
      const ProcessEnd& end = rank.process.end();
      if (end.good() || asked_to_end_) continue;
      if (has_stopped(end)) {
        end_.stopped = true;
        continue;
      }
      if (!end_.failure || (nearness(end) > nearness(end_.failure->end) &&
                            (!had_failed || nearness(end_.failure->end) == 0))) {
        end_.failure = RankFailure{rank.number, rank.process.pid(), end, rank.err.last_line()};
      }
    }
    if (end_.failure && !had_failed)
      deadline_ = after(std::min(kUntilTerm, options_.grace_seconds));
  }

  /// A rank's output ends with it, even if a program that it started holds the pipes open.
  static void finish(Rank& rank) {
    rank.out.end();
    rank.err.end();
    rank.process.close_output(rank.process.standard_output());
    rank.process.close_output(rank.process.standard_error());
    rank.seen_to_end = true;
  }

  void act_on_deadlines() {
    if (!deadline_ || Clock::now() < *deadline_) return;
    to_all(asked_to_end_ ? SIGKILL : SIGTERM);
    deadline_ = after(options_.grace_seconds);
    asked_to_end_ = true;
  }

  const WorldOptions& options_;
  const SignalInput& signals_;
  OutputQueue stdout_{STDOUT_FILENO, "stdout"}, stderr_{STDERR_FILENO, ""};
  std::string problem_;  // of the first output that cannot be written any more
  std::vector<Rank> ranks_;
  WorldEnd end_;
  std::optional<Clock::time_point> deadline_;  // for the ranks that outlive a failure
  bool asked_to_end_ = false;                  // by SIGTERM
  bool killed_ = false;                        // by a second request to stop
  Clock::time_point asked_again_from_ = {};    // signals before it belong to the first request
};

}  // namespace

std::string RankFailure::text() const {
  std::string out = formatted("rank {} (process {}) {}", rank, pid, end.text());
  if (!last_line.empty()) {
    out += formatted("; its last line on stderr: {}", last_line.substr(0, kQuoted));
  }
  return out;
}

WorldEnd run_world(const WorldOptions& options, const SignalInput& signals) {
  return World(options, signals).run();
}

}  // namespace lathe::cli
