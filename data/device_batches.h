// Batches on a device: copied ahead on a stream of their own, while the GPU computes.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"
#include "lathe/data/batch.h"
#include "lathe/data/data_loader.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// All images of a data set on a device, as bytes: CIFAR-10 takes 184 MB.
class LATHE_API ResidentImages {
 public:
  /// Copies them, as they are before the transform, and waits for that.
  /// throws: ValueError unless they have one size; what reading them throws; NoCudaError,
  /// OutOfMemoryError.
  ResidentImages(const ImageDataset& images, Device device);

  const Tensor& images() const { return images_; }  // u8 [N,C,H,W]
  const Tensor& labels() const { return labels_; }  // i64 [N]

 private:
  Tensor images_, labels_;
};

struct PrefetchOptions {
  // Applied on the device to batch.x, which must be bytes [N,C,H,W]: a quarter of the traffic of
  // floats, and no work for the processors. The numbers are those that the loader's workers make of
  // the same transform: see augment.h.
  Transform transform = {};
  DType dtype = kF32;                 // of a float result of the transform
  MemoryFormat format = kContiguous;  // likewise
  // Where the images come from instead of the loader, which then says only which come when. Made of
  // the loader's data set, on the same device.
  std::shared_ptr<const ResidentImages> resident = {};
};

/// What prefetch returns: a loader whose batches are on a device.
///
/// On a GPU there is one stream for copies and transforms. While the caller works on batch k, batch
/// k+1 is copied:
///
///   host      take k+1, queue its copy │ queue the step on batch k │ take k+2 …
///   copies    ───────── k+1 ▶ event    │                           │ ── k+2 ▶ event
///   compute   ── step on k-1 ──────────│── waits for k's event, step on k ──
///
/// The host waits for nothing but the loader. Pinned memory (DataLoaderOptions::pin_memory) is read
/// by the GPU after the host has let go of it; its allocator does not hand it out again before the
/// copy is done. Batch k+1 is taken early only if the loader has it ready: a GPU is not kept
/// waiting for work that could start. The loader's state is that of the batch handed out, not of
/// the one copied ahead.
class LATHE_API DeviceBatches {
 public:
  using Iterator = BatchIterator<Batch>;

  DeviceBatches(DataLoader& loader, Device device, PrefetchOptions options);
  /// throws: what the loader throws, CudaError, OutOfMemoryError; DTypeError, ShapeError if the
  /// transform does not fit.
  Iterator begin();
  std::default_sentinel_t end() const { return std::default_sentinel; }
  int64_t size() const { return loader_->size(); }

 private:
  DataLoader* loader_;
  Device device_;
  PrefetchOptions options_;
};

/// The batches of `loader`, on `device`: `for (auto& [x, y] : prefetch(loader, device))`. On the
/// CPU they are the loader's own, transformed if so asked; its workers read ahead.
/// throws: NoCudaError; DeviceError if options.resident is elsewhere.
LATHE_API DeviceBatches prefetch(DataLoader& loader, Device device, PrefetchOptions options = {});

}  // namespace lathe::data
