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
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// All images of a data set on a device, as bytes (CIFAR-10: 184 MB).
class LATHE_API ResidentImages {
 public:
  /// Copies the images as they are before the transform. Waits for the copy.
  /// throws: ValueError unless they have one size; what reading them throws; NoCudaError,
  /// OutOfMemoryError.
  ResidentImages(const ImageDataset& images, Device device);

  const Tensor& images() const { return images_; }  // u8 [N,C,H,W]
  const Tensor& labels() const { return labels_; }  // i64 [N]

 private:
  Tensor images_, labels_;
};

struct PrefetchOptions {
  // Applied on the device to batch.x, which must be bytes [N,C,H,W]. Bytes are a quarter of the
  // traffic of floats, and the processors have no work with them. The results are those that the
  // loader's workers make with the same transform: see transforms/augment.h.
  Transform transform = {};
  DType dtype = kF32;                 // of the transform's result, if it is floating
  MemoryFormat format = kContiguous;  // likewise
  // Takes the images from here; the loader then only says which come when. Must be made of the
  // loader's data set, on the same device.
  std::shared_ptr<const ResidentImages> resident = {};
  // With resident images: a batch is only what was drawn for it. x holds the windows of its
  // samples, y their rows in the resident images. The user makes the batch of them (make_batch), on
  // the stream where it is used, and perhaps as a part of a captured graph. The transform must have
  // only pixel stages (transforms/augment_rows.h).
  bool drawn_only = false;
  // On a GPU x and y of every batch lie here, in memory that later batches get again. A batch is
  // then for what is queued before the next one is asked for, or the next pass is begun, on the
  // stream that is current there. Ignored on the CPU.
  std::shared_ptr<BatchPlaces> places = {};
};

/// The images and labels of a batch that prefetch() with these options, `drawn_only` among them,
/// has handed out. On a GPU: two kernels, and nothing that the host computes for this batch alone.
/// throws: as augment_rows().
LATHE_API std::pair<Tensor, Tensor> make_batch(const PrefetchOptions& options,
                                               const Tensor& windows, const Tensor& rows);

/// What prefetch returns: a loader whose batches are on a device.
///
/// A GPU has one stream for copies and transforms. While the caller works on batch k, batch k+1 is
/// copied:
///
///   host      take k+1, queue its copy │ queue the step on batch k │ take k+2 …
///   copies    ───────── k+1 ▶ event    │                           │ ── k+2 ▶ event
///   compute   ── step on k-1 ──────────│── waits for k's event, step on k ──
///
/// The host waits only for the loader. The GPU may still read pinned memory
/// (DataLoaderOptions::pin_memory) after the host has released it; its allocator does not hand the
/// block out again before the copy is done. Batch k+1 is taken early only if the loader has it
/// ready, so that the GPU never waits for work that could start. The loader's state is that of the
/// batch handed out, not of the one copied ahead.
class LATHE_API DeviceBatches {
 public:
  using Iterator = BatchIterator<Batch>;

  DeviceBatches(DataLoader& loader, Device device, PrefetchOptions options);
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

/// The batches of `loader` on `device`: `for (auto& [x, y] : prefetch(loader, device))`. On the CPU
/// these are the loader's own batches, with options.transform applied; only the loader's workers
/// read ahead.
/// throws: NoCudaError; DeviceError if options.resident is on another device; ValueError if
/// options.drawn_only does not fit the others.
LATHE_API DeviceBatches prefetch(DataLoader& loader, Device device, PrefetchOptions options = {});

}  // namespace lathe::data
