// Random generators; see generator.h.
#include "lathe/core/generator.h"

#include <map>

namespace lathe {

Generator::Block Generator::reserve(uint64_t counters) {
  const std::lock_guard lock(mutex_);
  const Block block = state_;
  state_.offset += counters;
  return block;
}

uint64_t Generator::seed() const { return state().seed; }

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0}); }

Generator::Block Generator::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(Block state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
}

namespace {

struct DefaultGenerators {
  Generator cpu{kDefaultSeed};
  std::mutex mutex;              // guards what follows
  uint64_t seed = kDefaultSeed;  // for devices first used later
  std::map<int8_t, Generator> cuda;
};

// Never destroyed: threads may still draw numbers while the process exits.
DefaultGenerators& defaults() {
  static DefaultGenerators& instance = *new DefaultGenerators;
  return instance;
}

}  // namespace

Generator& default_generator(Device device) {
  DefaultGenerators& all = defaults();
  if (device.is_cpu()) return all.cpu;
  const std::lock_guard lock(all.mutex);
  return all.cuda.try_emplace(device.index, all.seed).first->second;
}

void manual_seed(uint64_t seed) {
  DefaultGenerators& all = defaults();
  const std::lock_guard lock(all.mutex);
  all.seed = seed;
  all.cpu.manual_seed(seed);
  for (auto& [index, generator] : all.cuda) generator.manual_seed(seed);
}

}  // namespace lathe
