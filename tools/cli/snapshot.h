// A copy of a checkpoint in host memory, to be written later or gone back to.
#pragma once

#include "lathe/nn/checkpoint.h"

namespace lathe::cli {

class Snapshot {
 public:
  /// Copies the values, row-major, into memory of this object, which the next copy of the same
  /// shapes uses again. Waits for a GPU: when it returns, training may write on.   throws:
  /// OutOfMemoryError, CudaError.
  void take(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return copy_; }

 private:
  Checkpoint copy_;
};

}  // namespace lathe::cli
