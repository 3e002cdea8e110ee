// Checks of class numbers and class weights, and the range check on the CPU. Contracts:
// class_targets.h; the range check on a GPU: index_kernels/index_check_cuda.cu.
#include "lathe/ops/losses/class_targets.h"

#include "lathe/core/dispatch.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/lines.h"

namespace lathe {

Tensor check_class_weight(const char* op, const Tensor& x, const Tensor& weight, int64_t classes) {
  if (!weight.defined()) return {};
  LATHE_CHECK(DTypeError, is_floating(weight.dtype()), op,
              ": weight must be floating (weight: ", weight, ")");
  LATHE_CHECK(ShapeError, weight.shape() == Shape{classes}, op,
              ": weight must hold one number per class, ", classes, " (x: ", x,
              ", weight: ", weight, ")");
  LATHE_CHECK(DeviceError, weight.device() == x.device(), op,
              ": scores and weight are on different devices (x: ", x, ", weight: ", weight, ")");
  return contiguous(cast(weight.detach(), loss_dtype(x.dtype())));
}

ClassTargets check_class_targets(const char* op, const Tensor& x, const Tensor& target,
                                 const Tensor& weight, int64_t ignore_index) {
  LATHE_CHECK(DTypeError, is_floating(x.dtype()), op, ": scores must be floating (x: ", x, ")");
  LATHE_CHECK(DTypeError, is_integer(target.dtype()), op,
              ": targets must be integers (target: ", target, ")");
  LATHE_CHECK(ShapeError, x.ndim() >= 2, op,
              ": scores must be [N,C] or [N,C,d1,...], or [C] for one target (x: ", x,
              ", target: ", target, ")");
  Shape expected = x.shape();
  expected.erase(1);
  LATHE_CHECK(ShapeError, target.shape() == expected, op, ": targets of these scores must be ",
              expected, " (x: ", x, ", target: ", target, ")");
  LATHE_CHECK(DeviceError, target.device() == x.device(), op,
              ": scores and targets are on different devices (x: ", x, ", target: ", target, ")");
  ClassTargets t;
  const Lines lines = lines_of(x.shape(), 1);
  t.classes = lines.n;
  t.inner = lines.inner;
  t.ignore_index = ignore_index;
  t.index = contiguous(cast(target, kI64));
  t.weight = check_class_weight(op, x, weight, t.classes);
  LATHE_DISPATCH(x.device(), check_class_range(op, t));
  return t;
}

void cpu::check_class_range(const char* op, const ClassTargets& targets) {
  if (targets.rows() == 0) return;
  const int64_t* index = targets.index.data<int64_t>();
  for (int64_t i = 0; i < targets.rows(); ++i) {
    const bool in_range = index[i] >= 0 && index[i] < targets.classes;
    LATHE_CHECK(IndexError, in_range || index[i] == targets.ignore_index, op, ": target ", i,
                " is ", index[i], ", outside [0, ", targets.classes, ") and not ignore_index ",
                targets.ignore_index, " (target: ", targets.index, ")");
  }
}

}  // namespace lathe
