// make_input(): decides where images are transformed, on the CPU by workers or on the GPU.
#include "lathe/tools/cli/training/input.h"

#include <tuple>
#include <utility>

#include "lathe/core/text/formatted.h"
#include "lathe/data/transforms/augment_rows.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {

void Input::keep_places() {
  prefetch.places = std::make_shared<data::BatchPlaces>();
  prefetch.drawn_only = prefetch.resident && data::has_only_pixel_stages(prefetch.transform);
}

void Input::make_batch(Tensor& x, Tensor& y) const {
  if (prefetch.drawn_only) std::tie(x, y) = data::make_batch(prefetch, x, y);
}

namespace {

class InputPass : public train::Pass {
 public:
  explicit InputPass(data::DeviceBatches batches)
      : batches_(std::move(batches)), at_(batches_.begin()) {}

  bool next(Tensors& batch) override {
    batch.clear();  // frees its memory for the next one
    if (begun_) ++at_;
    begun_ = true;
    if (at_ == batches_.end()) return false;
    batch = {at_->x, at_->y};
    return true;
  }

 private:
  data::DeviceBatches batches_;
  data::DeviceBatches::Iterator at_;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<train::Pass> InputBatches::begin(int64_t epoch, int64_t first) {
  input_.loader.set_epoch(epoch, first);
  return std::make_unique<InputPass>(input_.batches());
}

void refuse_resident_images(const Settings& settings) {
  if (settings.data_cache == "gpu")
    throw UsageError("--data-cache gpu: images that lie on the GPU are not read in batches");
}

Input make_input(const std::shared_ptr<data::ImageDataset>& images, const Settings& settings,
                 Device device, bool training, Share share) {
  const bool resident = settings.data_cache == "gpu";
  if (resident && device.is_cpu())
    throw UsageError("--data-cache gpu needs a GPU; training runs on the CPU");
  // Images of many sizes must have one size before they can be a batch, so their transform stays
  // with the workers.
  if (device.is_cpu() || (!images->has_one_size() && !resident))
    return {make_loader(images, settings, training, share), device};

  const DType half = settings.amp == "bf16" ? kBF16 : kF16;
  data::PrefetchOptions prefetch{.transform = images->transform(),
                                 .dtype = settings.amp == "off" ? kF32 : half,
                                 .format = settings.layout == "nhwc" ? kChannelsLast : kContiguous};
  images->set_transform({});
  if (resident) {
    if (settings.dataset == "synthetic")
      throw UsageError("--data-cache gpu: the images of synthetic are made as they are read");
    if (!images->has_one_size())
      throw UsageError(formatted(
          "--data-cache gpu: the images of {} have many sizes; `lathe data prepare FILE --dataset "
          "{} --image-size N` makes a packed file of one size",
          settings.data_root, *settings.dataset));
    prefetch.resident =
        reading_data([&] { return std::make_shared<data::ResidentImages>(*images, device); });
  }
  return {make_loader(images, settings, training, share), device, std::move(prefetch)};
}

}  // namespace lathe::cli
