// Entry point of `lathe`.
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <iterator>

#include "lathe/trainer.h"

namespace {

constexpr int kSignals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
bool g_ignored[std::size(kSignals)];  // by whom the command was started

// Libraries may take signals when they are loaded: UCX, which Gloo brings along on some systems,
// takes SIGHUP to wait for a debugger. This runs before them. It asks the kernel itself, since the
// functions around that call may not be ready yet.
void look_at_signals(int, char**, char**) {
  for (size_t s = 0; s < std::size(kSignals); ++s) {
    struct {
      void (*handler)(int);
      uint64_t others[3];
    } action{};
    const long failed = syscall(SYS_rt_sigaction, kSignals[s], nullptr, &action, sizeof(uint64_t));
    g_ignored[s] = failed == 0 && action.handler == SIG_IGN;
  }
}

[[gnu::section(".preinit_array"), gnu::used]] void (*g_look)(int, char**, char**) = look_at_signals;

// What a process has after exec: signals are ignored or end it.
void give_signals_back() {
  for (size_t s = 0; s < std::size(kSignals); ++s)
    std::signal(kSignals[s], g_ignored[s] ? SIG_IGN : SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  give_signals_back();
  return lathe::trainer::run(argc, argv);
}
