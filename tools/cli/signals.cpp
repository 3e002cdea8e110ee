// StopRequests: the signal handlers, and the names and exit codes of signals.
#include "lathe/tools/cli/signals.h"

#include <csignal>

namespace lathe::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t g_asked = 0, g_save = 0;

// SA_RESETHAND has restored the default for this signal. Here the other signals get it too, so that
// a second signal of any kind ends the process.
void note(int signal) {
  g_asked = signal;
  for (const int each : kSignals) {
    struct sigaction before {};
    if (sigaction(each, nullptr, &before) == 0 && before.sa_handler == note)
      std::signal(each, SIG_DFL);
  }
}

void note_save(int) { g_save = 1; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  // If the command was started with the signal ignored (nohup, a background job), it stays ignored.
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  action.sa_handler = handler;
  action.sa_flags = handler == note ? static_cast<int>(SA_RESETHAND | SA_RESTART) : SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequests::StopRequests() {
  g_asked = 0;
  for (const int signal : kSignals) handle(signal, note);
}

StopRequests::~StopRequests() {
  for (const int signal : kSignals) handle(signal, SIG_DFL);
}

void StopRequests::note_saves() {
  g_save = 0;
  handle(SIGUSR1, note_save);
}

int StopRequests::asked() noexcept { return g_asked; }

bool StopRequests::take_save() noexcept {
  if (g_save == 0) return false;
  g_save = 0;  // one that arrives now is served by the save that follows
  return true;
}

ExitCode exit_code_of_signal(int signal) {
  return signal == SIGINT    ? ExitCode::kInterrupted
         : signal == SIGQUIT ? ExitCode::kQuit
         : signal == SIGHUP  ? ExitCode::kHungUp
                             : ExitCode::kTerminated;
}

const char* name_of_signal(int signal) {
  return signal == SIGINT    ? "Ctrl-C"
         : signal == SIGQUIT ? "SIGQUIT"
         : signal == SIGHUP  ? "SIGHUP"
                             : "SIGTERM";
}

}  // namespace lathe::cli
