// DetectAnomaly: ends a training at the op that made the first NaN or infinity.
//
//   const debug::DetectAnomaly scope;
//   loss = cross_entropy(net(x), y);
//   loss.backward();
//
// docs/debugging.md shows what it says.
#pragma once

#include <memory>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/debug/bad_value.h"
#include "lathe/core/dtype.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/stack.h"

namespace lathe::debug {

/// Where a NaN or infinity came up first. Its base CallPlace says where the forward op was called.
struct Anomaly : profile::CallPlace {
  std::string op;      // the op that the program called; backward: the op whose gradient it is
  std::string inside;  // the op inside `op` that made the value, if it was another one
  bool backward = false;
  int input = -1;        // backward: the input whose gradient it is
  bool came_in = false;  // the value came in with an input (backward: the gradient of the output)
  Shape shape;           // of the output, or of the gradient
  DType dtype = DType::kF32;
  BadValue bad;
};

/// The message says all that is in `anomaly`.
class LATHE_API AnomalyError : public Error {
 public:
  AnomalyError(const std::string& message, Anomaly found)
      : Error(message), anomaly(std::move(found)) {}

  Anomaly anomaly;
};

struct DetectAnomalyOptions {
  bool infinity = true;  // also infinities that an op makes of finite numbers; false: only NaN
  bool backward = true;  // also gradients
};

/// While a DetectAnomaly lives, it checks each result of the ops that its thread calls, and each
/// gradient of the backward pass. Throws AnomalyError at the first NaN or infinity: from the op
/// itself, or from backward(). If the op is made of other ops, the next call of any op throws
/// instead. Infinities that a
/// call asks for (full, masked_fill, …) or that came in with an input are allowed. An in-place op
/// has already written its tensor when it throws. For a gradient, the error also names the forward
/// call, if a DetectAnomaly was alive during that call.
/// Not checked:
///   - ops that are captured into a CUDA graph
///   - results of ops that run inside an optimiser's step(), even in the closure of LBFGS;
///     gradients are checked there, too
///   - ops that a data loader runs, such as transforms
/// Cost: each op reads its result and its call stack once more, and an in-place op also reads its
/// tensor before it writes. On a GPU each read is a copy, for which the host waits.
class LATHE_API DetectAnomaly {
 public:
  [[nodiscard]] explicit DetectAnomaly(DetectAnomalyOptions options = {});
  /// The destructor must run on the thread of the constructor. It warns of an anomaly that was
  /// found but not thrown yet.
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

  /// Throws an anomaly that was found but not thrown yet. Call it after the last op of a step: an
  /// anomaly in an op may be thrown only by the next op.
  void check();

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace lathe::debug
