// check_determinism(): whether a step computes the same bits twice, and if not, which op differs
// first.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/dtype.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/shape.h"

namespace lathe::debug {

/// The first result in which two runs of a step differ, in the order of computation.
struct Difference : profile::CallPlace {
  std::string op;      // the op that the program called; backward: the op whose gradient it is
  std::string inside;  // the op inside `op` that differs, if it is another one
  bool backward = false;
  int input = -1;     // of a gradient that no op computed: the input whose gradient it is
  int64_t place = 0;  // how many results before it were equal
  std::string was;    // another op or another shape in the first run: "relu f32[4]"; else empty
  Shape shape;
  DType dtype = DType::kF32;
};

/// What check_determinism() compared, and the first difference.
struct LATHE_API DeterminismReport {
  int64_t results = 0;  // of ops and gradients that were compared
  std::optional<Difference> difference = {};

  bool ok() const { return !difference; }
  /// "396 results of ops and gradients are equal in both runs", or what differs and where.
  std::string text() const;
};

/// Runs `step` twice and compares the results of all ops that its thread calls, forward and
/// backward, by checksums of their bits. `step` must first restore the state from which it starts:
/// parameters, buffers, random numbers. On a GPU the host copies each result and waits for it,
/// which hides races between streams.
/// Not compared: views, steps of optimisers, and ops that are captured into a CUDA graph.
/// throws: what `step` throws.
LATHE_API DeterminismReport check_determinism(const std::function<void()>& step);

}  // namespace lathe::debug
