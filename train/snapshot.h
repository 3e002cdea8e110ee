// Snapshot: a copy of a checkpoint, to be written later or gone back to.
#pragma once

#include <optional>

#include "lathe/core/config.h"
#include "lathe/core/stream.h"
#include "lathe/nn/checkpoint.h"

namespace lathe::train {

/// The copy lies in host memory: it survives a failure of the GPU and takes none of the GPU's
/// memory. For tensors from a GPU the memory is page-locked if possible. Such memory is handed out
/// in powers of two and at least 512 bytes, so a tensor may take up to twice its bytes, a small one
/// more.
class LATHE_API Snapshot {
 public:
  /// Copies the values into memory of this object, which the next copy of the same shapes uses
  /// again: row-major from the host, in their own memory order from a GPU. When it returns, the
  /// copy is complete and training may go on writing. It waits for the first GPU once, after all
  /// copies are queued, and for any other GPU after each copy.
  /// throws: OutOfMemoryError, CudaError. The copy is then not usable, and nothing is left queued.
  void take(const Checkpoint& checkpoint);

  /// take() without a wait, if the tensors lie on one GPU: their values are copied there, and go to
  /// the host on a stream of their own while what is queued after this call computes. For so long
  /// the state takes its memory on the GPU once more. If there is none, or several GPUs, this is
  /// take(). Leave checkpoint() alone until finish().
  /// throws: as take().
  void begin(const Checkpoint& checkpoint);
  /// Waits until the copy that begin() began is complete.
  /// throws: CudaError. The copy is then not usable.
  void finish();

  const Checkpoint& checkpoint() const { return copy_; }

 private:
  /// Memory for the values of `from`: that of the last copy, if they fit there.
  Tensor room_for(const std::string& name, const Tensor& from) const;

  Checkpoint copy_;
  std::optional<OwnedStream> stream_;  // of the copies that begin() began
  bool begun_ = false;                 // and finish() has not waited for
};

}  // namespace lathe::train
