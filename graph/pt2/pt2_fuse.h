// Fusions: steps that one op of the library computes, as in the layers of nn/: a batch norm, the
// relu behind it, and the residual between the two or the convolution behind them.
// Internal: program.h is what others use.
#pragma once

#include <array>
#include <vector>

#include "lathe/graph/pt2/pt2_call.h"

namespace lathe::jit::pt2 {

class Memory;
struct Step;
struct Steps;

/// relu(norm(x)), relu(norm(x) + residual) or conv(relu(norm(x))): the numbers of the steps, in
/// this order; -1 for a step that is not there. Nothing else needs the values that one step passes
/// to the next.
struct Fusion {
  int norm = -1;
  int add = -1;
  int relu = -1;
  int conv = -1;

  std::array<int, 4> steps() const { return {norm, add, relu, conv}; }
  /// The step in which all of them run.
  int last() const { return conv >= 0 ? conv : relu; }
};

/// The fusions in a program. Their steps can wait for the last one:
///   - no step in between writes what they read
///   - no step in between reads or writes the statistics of the norm
///   - all run in one scope
std::vector<Fusion> find_fusions(const Steps& steps, Memory& memory);

/// Runs a fusion as one op, as far as the tensors allow.   → the first step that is left: the norm,
/// the convolution, or the one after the last
/// throws: what the norm throws.
int run_fused(const Fusion& fusion, const std::vector<Step>& steps, std::vector<Held>& held,
              const Setting& setting);

}  // namespace lathe::jit::pt2
