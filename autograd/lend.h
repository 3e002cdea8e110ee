// Lent: a tensor that shows another tensor for a while.
#pragma once

#include <vector>

#include "lathe/autograd/saved.h"
#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// { Lent scope(target, shown); … }: in the scope all handles to `target` show the values and the
/// history of `shown`, as a view of it would: gradients go to `shown`, in-place writes change it.
/// Ops that save `target` meanwhile keep what it shows. Results that may be `target` itself must
/// pass through lasting() (saved.h). No other thread may use `target` meanwhile.
/// throws: ShapeError, DeviceError if the two differ; StateError if `target` is lent already.
class LATHE_API Lent {
 public:
  Lent(const Tensor& target, const Tensor& shown);
  ~Lent();
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  void exchange() noexcept;

  Tensor target_;
  Tensor other_;  // in the scope it has what belongs to the target
};

/// What the open Lent scopes of this thread were made of.
struct Loan {
  Tensor target, shown;
};
LATHE_API const std::vector<Loan>& current_loans() noexcept;

}  // namespace lathe::autograd
