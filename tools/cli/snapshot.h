// A copy of a checkpoint, to be written later or gone back to.
#pragma once

#include "lathe/nn/checkpoint.h"

namespace lathe::cli {

class Snapshot {
 public:
  enum class Place : uint8_t {
    kHost,    // row-major in host memory
    kDevice,  // each tensor as it lies, on its own device; in host memory where that has no room
  };
  explicit Snapshot(Place place = Place::kHost) : place_(place) {}

  /// Copies the values into memory of this object, which the next copy of the same shapes uses
  /// again. When it returns, training may write on: for the host's memory it waits for a GPU, on a
  /// GPU the copies are queued.   throws: OutOfMemoryError, CudaError.
  void take(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return copy_; }

 private:
  Tensor room_for(const Tensor& from) const;

  Place place_;
  Checkpoint copy_;
};

}  // namespace lathe::cli
