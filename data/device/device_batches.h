// prefetch(): batches on a device, copied ahead on a stream of their own while the GPU computes.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"
#include "lathe/data/batch.h"
#include "lathe/data/data_loader.h"
#include "lathe/data/device/batch_places.h"
#include "lathe/data/device/resident_images.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

struct PrefetchOptions {
  // Applied on the device to batch.x, which must be bytes [N,C,H,W]. Bytes are a quarter of the
  // traffic of floats, and the processors have no work with them. The results are those that the
  // loader's workers make with the same transform: see transforms/augment.h.
  Transform transform = {};
  DType dtype = kF32;                 // of the transform's result, if it is floating
  MemoryFormat format = kContiguous;  // likewise
  // If set, batches take their images and labels from here, and the loader decides only their
  // order. Must be made from the loader's data set, on the same device.
  std::shared_ptr<const ResidentImages> resident = {};
  // If set, the tensors of every batch on a GPU are in this memory, which later batches overwrite.
  // A batch is then valid until the next batch is requested, or the next pass over the batches
  // begins. Before that, queue all work on the batch, on the stream that was current when it was
  // requested. Ignored on the CPU.
  std::shared_ptr<BatchPlaces> places = {};
};

/// A batch of prefetch_drawn(): the random numbers that were drawn for the samples, and the
/// samples' rows in options.resident. A few bytes per sample. make_batch() makes the images and
/// labels from these tensors, on the stream that uses the batch. make_batch() can be captured into
/// a CUDA graph.
struct DrawnBatch {
  Tensor windows;  // as draw_windows() gives them: transforms/augment_rows.h
  Tensor rows;     // i64 [n], of the samples in the resident images
};

/// The images and labels of a batch that prefetch_drawn() with these options has handed out. On a
/// GPU make_batch() launches two kernels, and the host computes nothing per batch.
/// throws: what augment_rows() throws.
LATHE_API std::pair<Tensor, Tensor> make_batch(const PrefetchOptions& options,
                                               const DrawnBatch& drawn);

/// What prefetch() and prefetch_drawn() return: a loader whose batches are on a device.
///   B  Batch for prefetch(); DrawnBatch for prefetch_drawn()
///
/// A GPU has one stream for copies and transforms. While the caller works on batch k, batch k+1 is
/// copied:
///
///   host      take k+1, queue its copy │ queue the step on batch k │ take k+2 …
///   copies    ───────── k+1 ▶ event    │                           │ ── k+2 ▶ event
///   compute   ── step on k-1 ──────────│── waits for k's event, step on k ──
///
/// The host waits only for the loader. The host may release pinned memory
/// (DataLoaderOptions::pin_memory) while the GPU still reads it: the allocator does not hand the
/// block out again before the copy is done. Batch k+1 is taken early only if the loader has it
/// ready, so that the host never waits for batch k+1 before it queues the step on batch k. The
/// loader's state_dict() belongs to the batch that was handed out, not to the batch that was copied
/// ahead.
template <class B>
class LATHE_API Prefetched {
 public:
  using Iterator = BatchIterator<B>;

  Prefetched(DataLoader& loader, Device device, PrefetchOptions options);
  /// throws: what the loader throws; CudaError, OutOfMemoryError; DTypeError, ShapeError if the
  /// transform does not fit the batches.
  Iterator begin();
  std::default_sentinel_t end() const { return std::default_sentinel; }
  int64_t size() const { return loader_->size(); }

 private:
  DataLoader* loader_;
  Device device_;
  PrefetchOptions options_;
};
using DeviceBatches = Prefetched<Batch>;
using DrawnBatches = Prefetched<DrawnBatch>;
extern template class Prefetched<Batch>;
extern template class Prefetched<DrawnBatch>;

/// The batches of `loader` on `device`: `for (auto& [x, y] : prefetch(loader, device))`. On the CPU
/// these are the loader's own batches, with options.transform applied; only the loader's workers
/// read ahead.
/// throws: NoCudaError if `device` is a GPU and there is none; DeviceError if options.resident is
/// on another device.
LATHE_API DeviceBatches prefetch(DataLoader& loader, Device device, PrefetchOptions options = {});

/// Like prefetch(), but a batch holds only the random numbers that were drawn for it (DrawnBatch).
/// make_batch() makes the images and labels.
/// throws: what prefetch() throws; ValueError without options.resident, or for a transform that
/// resizes images or changes colours.
LATHE_API DrawnBatches prefetch_drawn(DataLoader& loader, Device device, PrefetchOptions options);

}  // namespace lathe::data
