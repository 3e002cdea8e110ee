// The random numbers of a cuda::Graph. Contract: graph_draws.h.
#include <algorithm>

#include "lathe/core/gpu/graph_draws.h"

namespace lathe::cuda {

namespace {

/// Counters from `first` to `now`.
/// throws: StateError if now does not come after it.
uint64_t distance(Generator::State first, Generator::State now) {
  LATHE_CHECK(StateError, now.seed == first.seed && now.offset >= first.offset,
              "cuda::Graph: a generator was at seed ", first.seed, ", offset ", first.offset,
              " when the work that is recorded first drew from it, and then was set to seed ",
              now.seed, ", offset ", now.offset, "; a launch can only go on from where it starts");
  return now.offset - first.offset;
}

}  // namespace

RandomStart GraphDraws::reserve(Generator& generator, uint64_t counters, Stream outside) {
  auto source = std::ranges::find(sources_, &generator, &Source::generator);
  if (source == sources_.end()) {
    const StreamScope on(outside);
    Tensor base = empty({2}, {.dtype = kI64, .device = outside.device});
    sources_.push_back({&generator, generator.state(), std::move(base)});
    source = sources_.end() - 1;
  }
  distance(source->first, generator.state());
  return {source->base, distance(source->first, generator.reserve(counters))};
}

void GraphDraws::finish() {
  for (Source& source : sources_)
    source.counters = distance(source.first, source.generator->state());
}

void GraphDraws::rewind() const {
  for (const Source& source : sources_) source.generator->set_state(source.first);
}

void GraphDraws::start_launch(Stream stream) const {
  for (const Source& source : sources_)
    set_random_base(source.base, source.generator->reserve(source.counters), stream);
}

std::vector<Generator::State> GraphDraws::states() const {
  std::vector<Generator::State> out;
  for (const Source& source : sources_) out.push_back(source.generator->state());
  return out;
}

void GraphDraws::set_states(const std::vector<Generator::State>& states) const {
  for (size_t i = 0; i < sources_.size(); ++i) sources_[i].generator->set_state(states[i]);
}

}  // namespace lathe::cuda
