// Ranks: processes made by fork(), and by execve() where there are real GPUs; their results through
// pipes.
#include "ranks.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "../emulated_count.h"
#include "lathe/core/config.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/thread_pool.h"

namespace lathe::test {

namespace {

Device g_device;  // of this process, which is one rank

// How long a rank may take: a sanitizer slows the emulated GPU down.
#if defined(LATHE_ASAN)
constexpr int kMinutes = 4;
#else
constexpr int kMinutes = 2;
#endif

void choose_device(int rank) {
  if (!on_gpus()) return;
  setenv("LATHE_EMULATED_DEVICES", "4", 0);
  g_device = Device(DeviceType::kCUDA, static_cast<int8_t>(rank));
}

std::string result_of(const Ranks::Body& body, const distributed::GroupOptions& options) {
  try {
    return body(options);
  } catch (const Error& error) {
    return "error: " + error.message();
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
}

// What a process is that begins as a rank: of which Ranks of its case, and where its result goes.
struct Role {
  int place, rank, pipe;
  std::string folder;
};
constexpr const char* kRole = "LATHE_TEST_RANK";

std::optional<Role> role_of_process() {
  const char* const text = getenv(kRole);
  if (text == nullptr) return std::nullopt;
  Role role;
  std::istringstream(text) >> role.place >> role.rank >> role.pipe >> role.folder;
  return role;
}

// How many Ranks the case has had before.
int place_in_case() {
  static const doctest::detail::TestCase* of_case = nullptr;
  static int next = 0;
  const auto* const now = doctest::getContextOptions()->currentTest;
  if (std::exchange(of_case, now) != now) next = 0;
  return next++;
}

// LATHE_TEST_RANKS_ANEW=1: on an emulated GPU, too.
bool begins_anew() {
  return cuda_is_available() && (!kEmulated || getenv("LATHE_TEST_RANKS_ANEW") != nullptr);
}

[[noreturn]] void begin_as(const Role& role) {
  std::ostringstream text;
  text << role.place << ' ' << role.rank << ' ' << role.pipe << ' ' << role.folder;
  setenv(kRole, text.str().c_str(), 1);
  std::string filter = "--test-case=";  // a list with commas between
  for (const char* c = doctest::getContextOptions()->currentTest->m_name; *c != 0; ++c) {
    if (*c == ',' || *c == '\\') filter += '\\';
    filter += *c;
  }
  dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
  execl("/proc/self/exe", "rank", filter.c_str(), static_cast<char*>(nullptr));
  _exit(1);
}

[[noreturn]] void end_with(const std::string& result, int pipe) {
  [[maybe_unused]] const auto written = write(pipe, result.data(), result.size());
  _exit(0);
}

}  // namespace

Device device() { return g_device; }
bool on_gpus() {
  const char* const wanted = getenv("LATHE_TEST_DEVICE");
  return wanted != nullptr && std::string(wanted) == "cuda";
}

std::vector<int> worlds(std::vector<int> all, [[maybe_unused]] bool have_gpus) {
#if defined(LATHE_ASAN)
  if (have_gpus) return {2};
#endif
  return all;
}

Ranks::Ranks(int n, double timeout_seconds, const Body& body, bool uses_gpus) {
  const int place = place_in_case();
  const auto run = [&](int rank) {
    alarm(60 * kMinutes + 60);  // a child outlives no test
    set_num_threads(1);
    setenv("TMPDIR", folder_.c_str(), 1);  // goes with the folder, however the rank ends
    choose_device(rank);
    distributed::GroupOptions options;
    options.rank = options.local_rank = rank;
    options.world_size = options.local_world_size = n;
    options.rendezvous = "file://" + folder_ + "/place";
    options.token = "test";
    options.timeout_seconds = timeout_seconds;
    return result_of(body, options);
  };
  if (const std::optional<Role> role = role_of_process()) {
    if (role->place != place) return;
    folder_ = role->folder;
    end_with(run(role->rank), role->pipe);
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "lathe-ranks-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  for (int rank = 0; rank < n; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = fork();
    if (pid == 0) {
      if (uses_gpus && begins_anew()) begin_as({place, rank, ends[1], folder_});
      end_with(run(rank), ends[1]);
    }
    close(ends[1]);
    children_.push_back({pid, ends[0]});
  }
}

Ranks::~Ranks() {
  for (const Child& child : children_) {
    if (child.pid > 0) {
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
    close(child.pipe);
  }
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

void Ranks::signal(int rank, int number) const {
  if (role_of_process()) return;
  kill(children_.at(static_cast<size_t>(rank)).pid, number);
}

std::string Ranks::result(int rank) {
  if (role_of_process()) return "";
  Child& child = children_.at(static_cast<size_t>(rank));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(kMinutes);
  while (!child.has_result) {
    pollfd entry = {child.pipe, POLLIN, 0};
    if (std::chrono::steady_clock::now() > deadline) return "no result in time";
    if (poll(&entry, 1, 1000) <= 0) continue;
    char bytes[4096];
    const ssize_t count = read(child.pipe, bytes, sizeof bytes);
    if (count > 0) {
      child.result.append(bytes, static_cast<size_t>(count));
    } else {
      child.has_result = true;
      if (!child.result.empty()) continue;
      int status = 0;
      waitpid(child.pid, &status, 0);
      child.pid = 0;
      child.result = "killed by signal " + std::to_string(WTERMSIG(status));
    }
  }
  return child.result;
}

std::vector<std::string> Ranks::results() {
  std::vector<std::string> out;
  for (size_t rank = 0; rank < children_.size(); ++rank)
    out.push_back(result(static_cast<int>(rank)));
  return out;
}

}  // namespace lathe::test
