// Generators, the default generators of all devices, those of one thread (own_generators.h), and
// their state for checkpoints (random_state.h).
#include "lathe/core/random/generator.h"

#include <bit>
#include <charconv>
#include <map>
#include <optional>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/random/own_generators.h"
#include "lathe/core/random/random_start.h"
#include "lathe/core/random/random_state.h"

namespace lathe {

// Of all devices: those that default_generator() returns, or what a thread has in their place.
struct OwnGenerators::All {
  Generator cpu{kDefaultSeed};
  std::mutex mutex;              // guards what follows
  uint64_t seed = kDefaultSeed;  // for devices first used later
  std::map<int8_t, Generator> cuda;

  Generator& of(Device device) {
    if (device.is_cpu()) return cpu;
    const std::lock_guard lock(mutex);
    return cuda.try_emplace(device.index, seed).first->second;
  }
  /// The device whose generator this is, if it is one of these.
  std::optional<Device> device_of(const Generator& generator) {
    if (&generator == &cpu) return kCPU;
    const std::lock_guard lock(mutex);
    for (const auto& [index, own] : cuda) {
      if (&generator == &own) return Device(DeviceType::kCUDA, index);
    }
    return std::nullopt;
  }
};

namespace {

using DefaultGenerators = OwnGenerators::All;

thread_local DefaultGenerators* own_generators = nullptr;  // null: this thread has none

// Never destroyed: threads may still draw numbers while the process exits.
DefaultGenerators& of_all_threads() {
  static DefaultGenerators& instance = *new DefaultGenerators;
  return instance;
}

/// What this thread draws from.
DefaultGenerators& defaults() {
  return own_generators != nullptr ? *own_generators : of_all_threads();
}

/// What this thread uses in place of `generator`: null unless that is a default one, and the thread
/// has its own.
Generator* stand_in(const Generator* generator) {
  if (own_generators == nullptr) return nullptr;
  const std::optional<Device> device = of_all_threads().device_of(*generator);
  return device ? &own_generators->of(*device) : nullptr;
}

}  // namespace

OwnGenerators::OwnGenerators() : own_(std::make_unique<All>()), before_(own_generators) {
  All& others = defaults();
  const std::lock_guard lock(others.mutex);
  own_->cpu.set_state(others.cpu.state());
  own_->seed = others.seed;
  for (const auto& [index, generator] : others.cuda)
    own_->cuda.try_emplace(index, others.seed).first->second.set_state(generator.state());
  own_generators = own_.get();
}

OwnGenerators::~OwnGenerators() { own_generators = before_; }

Generator::State Generator::reserve(uint64_t counters) {
  if (Generator* const own = stand_in(this)) return own->reserve(counters);
  const std::lock_guard lock(mutex_);
  const State start = state_;
  state_.offset += counters;
  return start;
}

uint64_t Generator::seed() const { return state().seed; }

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0}); }

Generator::State Generator::state() const {
  if (const Generator* const own = stand_in(this)) return own->state();
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(State state) {
  if (Generator* const own = stand_in(this)) return own->set_state(state);
  const std::lock_guard lock(mutex_);
  state_ = state;
}

Generator& default_generator(Device device) { return of_all_threads().of(device); }

RandomStart::operator Generator::State() const {
  LATHE_CHECK(StateError, !base_.defined(),
              "random numbers of the CPU or of cuRAND cannot be drawn in a CUDA graph: where they "
              "start is set by each launch, in the memory of ",
              base_.device());
  return start_;
}

PhiloxStart RandomStart::in_kernel() const {
  const void* const base = base_.defined() ? base_.raw_data() : nullptr;
  return {start_.seed, start_.offset, static_cast<const Generator::State*>(base)};
}

RandomStart reserve_words(Generator* generator, Device device, int64_t words) {
  Generator& source = generator != nullptr ? *generator : default_generator(device);
  const uint64_t counters = Generator::counters_for(words);
  if (device.is_cuda() && cuda::is_capturing(current_stream(device))) {
    return cuda::reserve_in_capture(source, device, counters);
  }
  return source.reserve(counters);
}

void manual_seed(uint64_t seed) {
  DefaultGenerators& all = defaults();
  const std::lock_guard lock(all.mutex);
  all.seed = seed;
  all.cpu.manual_seed(seed);
  for (auto& [index, generator] : all.cuda) generator.manual_seed(seed);
}

namespace {

constexpr std::string_view kCudaPrefix = "cuda.";

Tensor as_tensor(Generator::State state) {
  const Tensor numbers = empty({2}, {.dtype = kI64});
  numbers.data<int64_t>()[0] = std::bit_cast<int64_t>(state.seed);
  numbers.data<int64_t>()[1] = std::bit_cast<int64_t>(state.offset);
  return numbers;
}

/// The state that a tensor holds; empty if it has another dtype or shape.
std::optional<Generator::State> as_state(const Tensor& t) {
  if (t.dtype() != kI64 || !(t.shape() == Shape{2})) return std::nullopt;
  const std::vector<int64_t> numbers = t.to_vector<int64_t>();
  return Generator::State{std::bit_cast<uint64_t>(numbers[0]), std::bit_cast<uint64_t>(numbers[1])};
}

/// The index in a name such as "cuda.3"; empty if it is no such name.
std::optional<int8_t> cuda_index(std::string_view name) {
  int8_t index = -1;
  if (!name.starts_with(kCudaPrefix)) return std::nullopt;
  name.remove_prefix(kCudaPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size() || index < 0) return std::nullopt;
  return index;
}

}  // namespace

StateDict random_state() {
  DefaultGenerators& all = defaults();
  const std::lock_guard lock(all.mutex);
  StateDict out;
  out.add("cpu", as_tensor(all.cpu.state()));
  const Generator::State unused = {all.seed, 0};
  for (const auto& [index, generator] : all.cuda) {
    const Generator::State state = generator.state();
    if (state != unused) out.add(concat(kCudaPrefix, int{index}), as_tensor(state));
  }
  out.add("unused", as_tensor(unused));
  return out;
}

void set_random_state(const StateDict& state) {
  std::optional<Generator::State> cpu, unused;
  std::map<int8_t, Generator::State> cuda;
  std::string problems;
  const auto complain = [&](const auto&... text) {
    problems += concat(problems.empty() ? "" : "; ", text...);
  };
  for (const auto& [name, tensor] : state) {
    const std::optional<Generator::State> entry = as_state(tensor);
    const std::optional<int8_t> index = cuda_index(name);
    if (!index && name != "cpu" && name != "unused") {
      complain("unexpected ", state.full_name(name));
    } else if (!entry) {
      complain(state.full_name(name), " is ", tensor, " instead of a seed and an offset, i64[2]");
    } else if (name == "unused" && entry->offset != 0) {
      complain(state.full_name(name), " has the offset ", entry->offset, " instead of 0");
    } else if (index) {
      cuda.emplace(*index, *entry);
    } else {
      (name == "cpu" ? cpu : unused) = entry;
    }
  }
  for (const char* name : {"cpu", "unused"}) {
    if (!state.contains(name)) complain("missing ", state.full_name(name));
  }
  LATHE_CHECK(ValueError, problems.empty(), "random state: it does not fit: ", problems);

  DefaultGenerators& all = defaults();
  const std::lock_guard lock(all.mutex);
  for (const auto& [index, entry] : cuda) all.cuda.try_emplace(index, all.seed);
  all.cpu.set_state(*cpu);
  all.seed = unused->seed;
  for (auto& [index, generator] : all.cuda) {
    const auto found = cuda.find(index);
    generator.set_state(found == cuda.end() ? *unused : found->second);
  }
}

}  // namespace lathe
