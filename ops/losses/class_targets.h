// Class numbers as targets of cross_entropy and nll_loss: their checks, and their layout relative
// to the scores. class_targets.cpp: the checks; class_targets.cuh: how kernels read them.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/core/visit.h"

namespace lathe {

/// Checked targets. The scores are [outer, classes, inner], the targets [outer, inner].
struct ClassTargets {
  Tensor index;   // i64, contiguous; each in [0, classes) or ignore_index
  Tensor weight;  // [classes] in the compute dtype of the scores, contiguous; undefined: all 1
  int64_t classes = 0, inner = 1, ignore_index = -100;

  int64_t rows() const { return index.numel(); }
};

/// Checks the targets and converts them to what the kernels read.
///   x  scores [N,C] or [N,C,d1,…]   target  integers [N] or [N,d1,…]   weight  [C] or undefined
/// throws: ShapeError, DTypeError, DeviceError naming `op`; IndexError with the value and position
/// of the first target that is neither in [0, C) nor ignore_index.
ClassTargets check_class_targets(const char* op, const Tensor& x, const Tensor& target,
                                 const Tensor& weight, int64_t ignore_index);

/// Checks the weights of the classes of scores x. Returns them contiguous, in x's compute dtype and
/// without history; undefined if `weight` is.
/// throws: as check_class_targets.
Tensor check_class_weight(const char* op, const Tensor& x, const Tensor& weight, int64_t classes);

/// The dtype in which losses of scores of type `dtype` are computed: f32 for half types.
constexpr DType loss_dtype(DType dtype) { return compute_dtype(dtype); }

namespace cpu {
void check_class_range(const char* op, const ClassTargets& targets);
}  // namespace cpu
namespace cuda {
/// Does not wait for the device. A bad target sets the device's error flag, and the next call that
/// waits throws the IndexError. The kernels give that target a NaN loss and gradients of 0.
void check_class_range(const char* op, const ClassTargets& targets);
}  // namespace cuda

}  // namespace lathe
