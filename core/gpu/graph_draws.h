// GraphDraws: the random numbers of a cuda::Graph. Contract: core/capture/cuda_graph.h.
#pragma once

#include <vector>

#include "lathe/core/random/random_start.h"
#include "lathe/core/stream.h"

namespace lathe::cuda {

/// The generators that a capture draws from, and how far each launch moves them on.
///
/// While work is recorded, its draws move the generator on as without a capture, so that a state
/// saved and restored in between means what it means otherwise. A draw is recorded as its distance
/// from the generator's first draw in the capture. When the capture ends, the generators go back to
/// there, because nothing has run.
class GraphDraws {
 public:
  /// Takes counters for a draw in a capture. `outside` is a stream that is not captured, on which
  /// memory for the generator's state is taken at its first draw.
  /// throws: StateError as reserve_words(), with nothing taken; OutOfMemoryError.
  RandomStart reserve(Generator& generator, uint64_t counters, Stream outside);
  /// Notes how far the recorded work moved the generators.
  /// throws: StateError for one that was seeded or set back to before its first draw.
  void finish();
  /// Sets each generator back to its first draw.
  void rewind() const;
  /// Takes the numbers of a launch from the generators, and queues on `stream` what tells the
  /// graph where they start.
  void start_launch(Stream stream) const;
  /// Where the generators are: for set_states(), if a launch comes to nothing.
  std::vector<Generator::State> states() const;
  void set_states(const std::vector<Generator::State>& states) const;

 private:
  struct Source {
    Generator* generator;
    Generator::State first;
    Tensor base;            // of this graph alone: others may run at the same time
    uint64_t counters = 0;  // of a launch
  };

  std::vector<Source> sources_;
};

/// Queues on `stream` that base, i64 [2] on its device, holds a seed and an offset.
void set_random_base(const Tensor& base, Generator::State state, Stream stream);

}  // namespace lathe::cuda
