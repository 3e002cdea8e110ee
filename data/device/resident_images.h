// ResidentImages: a data set of images that lies on a device, from which prefetch() takes batches.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/tensor.h"
#include "lathe/data/images/image_datasets.h"

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

}  // namespace lathe::data
