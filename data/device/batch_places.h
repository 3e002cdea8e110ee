// BatchPlaces: memory of a GPU in which batches arrive again and again, for work that knows them by
// their addresses, as CUDA graphs do.
#pragma once

#include <list>

#include "lathe/core/config.h"
#include "lathe/core/stream.h"
#include "lathe/core/tensor.h"

namespace lathe::data {

/// Two places for batches of each shape, so that one can be filled while the other is read:
///
///   copies    ─ 2 ▶ second place ──────╲─ waits for step 1 ─ 3 ▶ first place ─╲──
///   compute   ─ step on 1, first place ─ waits for 2 ─ step on 2, second place ─ waits for 3 ─
///
/// The copies overwrite a place after the event of the step that read it; a step comes after the
/// event of the copies that filled its place. prefetch() (device_batches.h) fills them. One pass at
/// a time uses them, and its batches are used on one stream. Not thread-safe.
class LATHE_API BatchPlaces {
 public:
  /// Where a batch lies.
  struct Place {
    Tensors tensors;
    Event read;  // when the work on the last batch there is done
  };

  /// A pass begins: its first batch gets the first place. end_use() comes before, for the case that
  /// the pass before was broken off.
  void begin_pass() { latest_ = nullptr; }
  /// A place for tensors of the shapes, strides and dtypes of these. It is not that of the batch
  /// before, and `copies` waits until what was there has been read.
  /// throws: OutOfMemoryError, CudaError.
  Place& take(const Tensors& like, Stream copies);
  /// The user gets the batch that lies there.
  void hand_out(Place& place) {
    latest_ = &place;
    in_use_ = true;
  }
  /// What is queued on `user` by now is all that reads the batch that was handed out.
  /// throws: CudaError.
  void end_use(Stream user);

 private:
  std::list<Place> places_;  // addresses stay
  Place* latest_ = nullptr;  // that was handed out in this pass
  bool in_use_ = false;      // end_use() was not called for it
};

}  // namespace lathe::data
