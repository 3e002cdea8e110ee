// StopRequests and CleanEnd: the signal handlers, and the names and exit codes of signals.
#include "lathe/tools/cli/signals.h"

#include <csignal>

#include "lathe/core/temporary_files.h"

namespace lathe::cli {
namespace {

using Handler = void (*)(int);

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kEndings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile std::sig_atomic_t g_asked = 0, g_save = 0, g_cleans = 0;

// The signal is held back while its handler runs, and then ends the process in the usual way.
void end_cleanly(int signal) {
  remove_temporary_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// What a signal does where no request is waited for.
Handler usual() { return g_cleans != 0 ? end_cleanly : SIG_DFL; }

Handler handler_of(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 ? now.sa_handler : SIG_IGN;
}

// One handler at a time: with two signals at once the second one finds what the first has set.
void handle(int signal, Handler handler) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int each : kEndings) sigaddset(&action.sa_mask, each);
  sigaction(signal, &action, nullptr);
}

// A second signal of any kind ends the process.
void note(int signal) {
  g_asked = signal;
  for (const int each : kSignals) {
    if (handler_of(each) == note) handle(each, usual());
  }
}

void note_save(int) { g_save = 1; }

// If the command was started with the signal ignored (nohup, a background job), it stays ignored.
void handle_unless_ignored(int signal, Handler handler) {
  if (handler_of(signal) != SIG_IGN) handle(signal, handler);
}

}  // namespace

CleanEnd::CleanEnd() {
  g_cleans = 1;
  for (const int signal : kEndings) {
    if (handler_of(signal) == SIG_DFL) handle(signal, end_cleanly);
  }
}

CleanEnd::~CleanEnd() {
  g_cleans = 0;
  for (const int signal : kEndings) {
    if (handler_of(signal) == end_cleanly) handle(signal, SIG_DFL);
  }
}

StopRequests::StopRequests() {
  g_asked = 0;
  for (const int signal : kSignals) handle_unless_ignored(signal, note);
}

StopRequests::~StopRequests() {
  for (const int signal : kSignals) handle_unless_ignored(signal, usual());
}

void StopRequests::note_saves() {
  g_save = 0;
  handle_unless_ignored(SIGUSR1, note_save);
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
