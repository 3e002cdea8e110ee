// A copy of a checkpoint, to be written later or gone back to.
#pragma once

#include "lathe/nn/checkpoint.h"

namespace lathe::cli {

/// Lies in host memory, out of reach of what may happen to a GPU, and takes none of its memory. It
/// is page-locked for what comes from a GPU, as long as there is such memory; that is handed out in
/// powers of two, 512 bytes at least: up to twice the bytes of a tensor, or more of a small one.
class Snapshot {
 public:
  /// Copies the values into memory of this object, which the next copy of the same shapes uses
  /// again: from the host row-major, from a GPU as they lie there. When it returns, the copy is
  /// whole and training may write on; it waits for the first GPU once, after queueing all copies,
  /// and for another one after each copy.
  /// throws: OutOfMemoryError, CudaError; the copy is of no use then, and nothing is left queued.
  void take(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return copy_; }

 private:
  Checkpoint copy_;
};

}  // namespace lathe::cli
