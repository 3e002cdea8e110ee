// A copy of a checkpoint, to be written later or gone back to.
#pragma once

#include "lathe/nn/checkpoint.h"

namespace lathe::cli {

/// Lies in host memory, out of reach of what may happen to a GPU, and takes none of its memory. It
/// is page-locked for what comes from a GPU, as long as there is such memory; that is handed out in
/// powers of two, so a copy takes up to twice the bytes of the state.
class Snapshot {
 public:
  /// Copies the values into memory of this object, which the next copy of the same shapes uses
  /// again: from the host row-major, from a GPU as they lie there. When it returns, the copy is
  /// whole and training may write on; it waits for a GPU once, after queueing all copies.
  /// throws: OutOfMemoryError, CudaError; the copy is of no use then.
  void take(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return copy_; }

 private:
  Checkpoint copy_;
};

}  // namespace lathe::cli
