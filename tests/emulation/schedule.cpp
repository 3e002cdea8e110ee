// See schedule.h.
#include "schedule.h"

#include <cstdlib>

namespace lathe::emulation {
namespace {

uint64_t number_of(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct State {
  Schedule wanted;
  uint64_t drawn;

  State() {
    wanted.seed = number_of("LATHE_EMULATED_SEED", wanted.seed);
    wanted.resident = static_cast<unsigned>(number_of("LATHE_EMULATED_RESIDENT", wanted.resident));
    wanted.early = static_cast<unsigned>(number_of("LATHE_EMULATED_EARLY", wanted.early));
    drawn = wanted.seed;
  }
};
State& state() {
  static State the_state;
  return the_state;
}

}  // namespace

const Schedule& schedule() { return state().wanted; }

void set_schedule(const Schedule& schedule) {
  state().wanted = schedule;
  state().drawn = schedule.seed;
}

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t draw(uint64_t limit) {
  uint64_t z = state().drawn += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % limit;
}

}  // namespace lathe::emulation
