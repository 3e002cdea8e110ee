// StopSignals: the signal handlers.
#include "lathe/train/stop_signals.h"

#include <atomic>
#include <csignal>
#include <iterator>

#include "lathe/core/error.h"

namespace lathe::train {
namespace {

using Handler = void (*)(int);

constexpr int kHeard[] = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t g_asked = 0, g_save = 0;
std::atomic<bool> g_exists = false;
struct sigaction g_before[std::size(kHeard)];  // what these signals did before

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
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&action.sa_mask, each);
  sigaction(signal, &action, nullptr);
}

void note(int signal);

void give_back() {
  for (size_t s = 0; s < std::size(kHeard); ++s) {
    if (handler_of(kHeard[s]) == note) sigaction(kHeard[s], &g_before[s], nullptr);
  }
}

// A second signal of any kind does what it did before.
void note(int signal) {
  g_asked = signal;
  give_back();
}

void note_save(int) { g_save = 1; }

}  // namespace

StopSignals::StopSignals() {
  LATHE_CHECK(StateError, !g_exists.exchange(true),
              "train::StopSignals: another StopSignals exists, perhaps that of a training in "
              "another thread");
  g_asked = 0;
  for (size_t s = 0; s < std::size(kHeard); ++s) {
    const bool known = sigaction(kHeard[s], nullptr, &g_before[s]) == 0;
    if (known && g_before[s].sa_handler != SIG_IGN) handle(kHeard[s], note);
  }
}

StopSignals::~StopSignals() {
  give_back();
  g_asked = 0;
  g_exists = false;
}

void StopSignals::note_saves() {
  g_save = 0;
  if (handler_of(SIGUSR1) != SIG_IGN) handle(SIGUSR1, note_save);
}

int StopSignals::asked() noexcept { return g_asked; }

bool StopSignals::take_save() noexcept {
  if (g_save == 0) return false;
  g_save = 0;  // one that arrives now is served by the save that follows
  return true;
}

}  // namespace lathe::train
