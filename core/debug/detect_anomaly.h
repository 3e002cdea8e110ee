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

/// Where a bad value came up first. The place is that of the forward op.
struct Anomaly : profile::CallPlace {
  std::string op;      // the op that the program called; in the backward pass that of the gradient
  std::string inside;  // the op within it that made the value, if another one
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

/// While it lives, the ops that its thread calls look at each of their results, and the backward
/// pass at each gradient. What is wrong is thrown as AnomalyError: by the op, by the next op if it
/// is made of others, or by backward(). An infinity that a call asks for (full, masked_fill, …) or
/// that came in with an input is none. An op in place has written x already.
/// A gradient's forward call is known if it was made while such a scope was there.
/// Each op costs another look at its result and its call stack, one in place also a look at x
/// before; on a GPU each is a copy and a wait. Ops that are captured into a graph are not looked
/// at. Of what an optimiser calls, the closure of LBFGS too, only gradients are looked at, and
/// nothing of what a loader does.
class LATHE_API DetectAnomaly {
 public:
  [[nodiscard]] explicit DetectAnomaly(DetectAnomalyOptions options = {});
  /// On the same thread. What was found and not thrown yet becomes a warning.
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

  /// Throws what the last op has left. Only for the end of a program's step.
  void check();

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace lathe::debug
