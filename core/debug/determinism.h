// Whether a step computes the same bits twice, and if not, which op is the first that does not.
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

/// The first result that differs, in the order in which they were computed.
struct Difference : profile::CallPlace {
  std::string op;      // what the program called; in the backward pass the op of the gradient
  std::string inside;  // the op within it that differs, if another one
  bool backward = false;
  int input = -1;     // of a gradient that no op computed: the input whose gradient it is
  int64_t place = 0;  // how many results before it were equal
  std::string was;    // another op or another shape in the first run: "relu f32[4]"; else empty
  Shape shape;
  DType dtype = DType::kF32;
};

struct DeterminismReport {
  int64_t results = 0;  // of ops and gradients that were compared
  std::optional<Difference> difference = {};

  bool ok() const { return !difference; }
  /// "396 results of ops and gradients are equal in both runs", or what differs and where.
  std::string text() const;
};

/// Runs `step` twice and compares the results of all ops that its thread calls, forward and
/// backward, by checksums of their bits. `step` restores first the state from which it starts:
/// parameters, buffers, random numbers. Views and steps of optimisers are not compared. On a GPU
/// each result is copied and waited for, which hides races between streams. Results of ops that are
/// captured into a graph are not compared.
/// throws: what `step` throws.
LATHE_API DeterminismReport check_determinism(const std::function<void()>& step);

}  // namespace lathe::debug
