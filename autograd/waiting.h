// For an op that computes the sum of its own gradient and the one that came to its input before.
#pragma once

#include <cstddef>

#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// The gradient that other ops have already sent to input `input` of the op whose gradients this
/// thread computes. Undefined:
///   - outside of a backward pass, or if no gradient waits there, or more than one
///   - if anything else looks at the sum of the gradients: a hook, retain_grad(), a watcher, or a
///     pass that records gradients
LATHE_API Tensor waiting_gradient(size_t input);
/// Removes that gradient: the op returns the sum of both for the input.
LATHE_API void take_waiting_gradient(size_t input);

}  // namespace lathe::autograd
