// Input: what a loop over batches reads, a loader and the way of its batches to the device.
#pragma once

#include <memory>

#include "lathe/data/device/device_batches.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/train/batches.h"

namespace lathe::cli {

struct Input {
  data::DataLoader loader;
  Device device;
  data::PrefetchOptions prefetch = {};

  data::DeviceBatches batches() { return data::prefetch(loader, device, prefetch); }

  /// Batches on a GPU lie in two places from now on, for graphs that read them there. A batch is
  /// then for what is queued before the next one is asked for. If the images lie on the GPU, it may
  /// be only drawn: then make_batch() comes first.
  void keep_places();
  bool keeps_places() const { return prefetch.places != nullptr; }

  /// Makes the images and labels of what batches() handed out, unless they are there. Work on the
  /// device that can be captured.
  void make_batch(Tensor& x, Tensor& y) const;
};

/// An input as train::Trainer takes it. Refers to the input, which must outlive it.
class InputBatches : public train::Batches {
 public:
  explicit InputBatches(Input& input) : input_(input) {}

  int64_t size() const override { return input_.loader.size(); }
  std::unique_ptr<train::Pass> begin(int64_t epoch, int64_t first) override;
  void keep_places() override { input_.keep_places(); }
  bool keeps_places() const override { return input_.keeps_places(); }
  void make(Tensors& batch) const override { input_.make_batch(batch[0], batch[1]); }
  double wait_seconds() const override { return input_.loader.stats().wait_seconds; }

 private:
  Input& input_;
};

/// On a CPU the loader's workers transform the images. A GPU gets bytes and transforms them itself,
/// with the same results, in the layout that the model needs and, with --amp, rounded to its half
/// type; with --data-cache gpu the images are on the GPU from the start. In these cases the
/// transform is taken out of `images`. Images of many sizes are always transformed by the workers.
/// throws: UsageError for a data cache that is not possible; CommandError (kData), DataError if its
/// images cannot be read.
Input make_input(const std::shared_ptr<data::ImageDataset>& images, const Settings& settings,
                 Device device, bool training, Share share = {});

/// For commands that time the reading of batches.
/// throws: UsageError for --data-cache gpu.
void refuse_resident_images(const Settings& settings);

}  // namespace lathe::cli
