// CleanEnd: the signal handlers; the names and exit codes of signals.
#include "lathe/tools/cli/signals.h"

#include <csignal>

#include "lathe/core/files/temporary_files.h"

namespace lathe::cli {
namespace {

using Handler = void (*)(int);

constexpr int kEndings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// The signal is held back while its handler runs, and then ends the process in the usual way.
void end_cleanly(int signal) {
  remove_temporary_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

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

}  // namespace

CleanEnd::CleanEnd() {
  for (const int signal : kEndings) {
    if (handler_of(signal) == SIG_DFL) handle(signal, end_cleanly);
  }
}

CleanEnd::~CleanEnd() {
  for (const int signal : kEndings) {
    if (handler_of(signal) == end_cleanly) handle(signal, SIG_DFL);
  }
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
