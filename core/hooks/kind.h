// The kinds of ranges.
#pragma once

#include <cstdint>

namespace lathe::profile {

/// What kind of work a range stands for.
enum class Kind : uint8_t {
  kOp,         // an op of ops/
  kView,       // an op that moves no values
  kBackward,   // the gradient of one recorded op
  kOptimizer,  // a step of an optimiser or of a loss scaler
  kUser,       // a Range of the program, or a step of the Profiler
  kData,       // waiting for a batch
  kCopy,       // values between host and GPU
  kSync,       // the host waits for a GPU
  kDevice,     // in tables: a kernel or copy on a GPU, as it saw it itself
};

}  // namespace lathe::profile
