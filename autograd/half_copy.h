// Half copies of f32 parameters that an optimiser keeps up to date, and gradients that stay half
// until somebody looks at them: under Autocast a training step then casts neither.
//
// Note [Half copies]
// Under Autocast each step casts every weight to half and every weight's gradient back to f32: two
// launches per weight, and memory read and written that the optimiser touches anyway. After
// keep_half_copy(parameter), which an optimiser calls (Optimizer::set_half_copies),
// - Autocast gets the copy that the last update wrote. A new copy is made if anything else wrote
//   the parameter since (its storage or version differs), or if another stream made it.
// - a backward pass leaves the parameter's gradient half. grad() makes it f32, with the bits that
//   the cast in the backward pass would have given; an optimiser reads it as it is.
// An update writes the copy only if nobody else holds its memory: a copy that an autograd graph has
// saved keeps its values. Otherwise the next cast makes a new copy. A captured CUDA graph reads and
// writes the copy that it found, and before each launch the host makes that copy again if it is not
// the parameter's any more. If a captured update writes the parameter without its copy, the
// parameter has no kept copy from then on.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::amp {

/// Begins to keep a half copy of `parameter`. Does nothing unless it is an f32 leaf on a GPU that
/// is no view. It lasts as long as the parameter.
LATHE_API void keep_half_copy(const Tensor& parameter);

/// The kept copy of t's present values, for reading. Undefined if none is kept: nobody asked for
/// it; a CUDA graph writes t without the copy; a capture is underway and the copy is not of t's
/// present values; or t's dtype, device or memory do not suit it.
/// throws: OutOfMemoryError.
LATHE_API Tensor half_copy(const Tensor& t, DType dtype);

/// The copy that an update of `parameter` writes too. Undefined if there is none of its present
/// values, or if others hold its memory. The elements lie in the parameter's order.
LATHE_API Tensor half_copy_to_write(const Tensor& parameter);

/// Says that an update has raised the parameter's version, and has written `written`, which
/// half_copy_to_write() gave (undefined: nothing). Allocates nothing.
LATHE_API void half_copy_written(const Tensor& parameter, const Tensor& written);

/// Says that t is about to get other memory: its copy is then of no values that there are.
LATHE_API void half_copy_outdated(const Tensor& t);

/// True if a backward pass may leave the gradient of this leaf half.
LATHE_API bool takes_half_gradient(const TensorImpl& leaf) noexcept;

/// Says that a backward pass leaves a half gradient in this leaf, which must take one. In a capture
/// grad() is made f32 at its end, if the gradient is still there. Needs the leaf's lock.
LATHE_API void half_gradient_arrives(const IntrusivePtr<TensorImpl>& leaf);

/// t.grad() as the last backward pass left it: in t's dtype, or half.
/// throws: StateError while a CUDA graph is captured, if it is half and was made before: a launch
/// would read that memory for ever.
LATHE_API Tensor arrived_grad(const Tensor& t);

/// `gradient` in `dtype`: itself, or a copy without history.
LATHE_API Tensor widened(const Tensor& gradient, DType dtype);

/// Makes it so. It may be a gradient that another stream has made, and wrote before.
LATHE_API void widen(Tensor& gradient, DType dtype);

}  // namespace lathe::amp
