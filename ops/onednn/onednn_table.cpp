// Loads oneDNN and the OpenMP that it brings along; see onednn_table.h.
#include "lathe/ops/onednn/onednn_table.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/core/shared_library.h"
#include "lathe/core/start_thread.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {
namespace {

thread_local bool came_through_fork = false;  // see Note [OpenMP's threads]

/// While it lives, a library that is loaded finds OMP_WAIT_POLICY=passive in the environment,
/// unless the user has set the variable. OpenMP's threads would otherwise spin between two
/// operations and take the processor from other work on the machine and from our own threads.
///
/// It does not use setenv, which may move the variables while another thread reads one.
class PassiveWaiting {
 public:
  PassiveWaiting() {
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
    static char policy[] = "OMP_WAIT_POLICY=passive";
    // Never freed, because a thread that has begun to read it may still do so.
    static auto& kept = *new std::vector<std::vector<char*>>;
    std::vector<char*>& variables = kept.emplace_back();
    for (char** each = environ; each && *each; ++each) variables.push_back(*each);
    variables.insert(variables.end(), {policy, nullptr});
    before_ = environ;
    ours_ = environ = variables.data();
  }
  ~PassiveWaiting() {
    if (ours_ && environ == ours_) environ = before_;
  }
  PassiveWaiting(const PassiveWaiting&) = delete;
  PassiveWaiting& operator=(const PassiveWaiting&) = delete;

 private:
  char **before_ = nullptr, **ours_ = nullptr;
};

SharedLibrary& library() {
  static SharedLibrary& the_library =
      *new SharedLibrary({.name = "oneDNN",
                          .file = LATHE_LIBRARY_FILE,
                          .folder = LATHE_LIBRARY_FOLDER,
                          .built = {DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH},
                          .advice = "install it, or build with LATHE_ONEDNN=OFF",
                          .of_gpu = false});
  return the_library;
}

OneDnn load() {
  const PassiveWaiting waiting;
  OneDnn table = {};
#define LATHE_ONEDNN_FIND(name) table.name = library().find(#name);
  LATHE_ONEDNN_FUNCTIONS(LATHE_ONEDNN_FIND)
  LATHE_ONEDNN_VERSION_FUNCTIONS(LATHE_ONEDNN_FIND)
#undef LATHE_ONEDNN_FIND
  table.omp_get_max_threads = library().find_optional("omp_get_max_threads");
  table.omp_set_num_threads = library().find_optional("omp_set_num_threads");
  // LLVM's OpenMP reads the environment in the first call.
  if (table.omp_get_max_threads) table.omp_get_max_threads();
  pthread_atfork(nullptr, nullptr, [] { came_through_fork = true; });
  return table;
}

/// Waits until the system no longer counts an ended thread, for 0.1 s at most.
void wait_until_gone(pid_t thread) {
  const std::string folder = concat("/proc/self/task/", thread);
  for (int i = 0; i < 100 && ::access(folder.c_str(), F_OK) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Starts wanted - 1 threads at once and ends them.
/// → how many threads ran together, including the caller's
int threads_to_be_had(int wanted) {
  std::vector<pid_t> numbers(static_cast<size_t>(wanted - 1), 0);
  std::vector<std::thread> tried;
  tried.reserve(numbers.size());
  std::latch over(1);
  std::string problem;
  try {
    for (pid_t& number : numbers) {
      tried.push_back(start_thread("oneDNN", [&] {
        number = ::gettid();
        over.wait();
      }));
    }
  } catch (const ThreadError& error) {
    problem = error.message();
  } catch (const std::bad_alloc&) {
    problem = "out of memory";
  }
  over.count_down();
  for (std::thread& thread : tried) thread.join();
  for (size_t i = 0; i < tried.size(); ++i) wait_until_gone(numbers[i]);
  const int had = static_cast<int>(tried.size()) + 1;
  if (!problem.empty()) {
    warn_once("oneDNN: threads", concat("matrix products and convolutions run on ", had, " of ",
                                        wanted, " threads: ", problem));
  }
  return had;
}

}  // namespace

// Note [OpenMP's threads]
// OpenMP keeps the threads of a parallel region for the caller's next region. GNU's OpenMP fails in
// two situations, which this library avoids:
// - The child of a fork() does not have these threads. A region of several threads waits for them
//   for ever. So the thread that called fork() computes alone in the child. Threads that the child
//   starts get OpenMP threads of their own.
// - If the system cannot start a thread, OpenMP ends the process. So this library tries how many
//   threads the system gives before a region becomes larger.
int dnnl_threads() {
  thread_local int asked = 1, had = 1;
  onednn();
  const int wanted = num_threads();
  if (wanted == 1 || came_through_fork) return 1;
  if (wanted > had && wanted != asked) {
    had = threads_to_be_had(wanted);
    asked = wanted;
  }
  return std::min(wanted, had);
}

const OneDnn& onednn() {
  static const OneDnn table = load();
  return table;
}

}  // namespace lathe::cpu
