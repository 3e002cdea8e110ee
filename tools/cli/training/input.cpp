// make_input(): decides where images are transformed, on the CPU by workers or on the GPU.
#include "lathe/tools/cli/training/input.h"

#include <utility>

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {

void refuse_resident_images(const Settings& settings) {
  if (settings.data_cache == "gpu")
    throw UsageError(
        "--data-cache gpu: this command times threads that read images, and with gpu there are "
        "none");
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

  // The first layer of a cifarnet is computed in f32 under bf16, which is too coarse for it: so are
  // its images.
  const DType half = settings.amp == "bf16" ? kBF16 : kF16;
  const bool whitens = half == kBF16 && settings.model.value_or("").starts_with("cifarnet");
  data::PrefetchOptions prefetch{.transform = images->transform(),
                                 .dtype = settings.amp == "off" || whitens ? kF32 : half,
                                 .format = settings.layout == "nhwc" ? kChannelsLast : kContiguous};
  images->set_transform({});
  if (resident) {
    if (settings.dataset == "synthetic")
      throw UsageError(
          "--data-cache gpu: synthetic images are made when they are read, so a GPU cannot keep "
          "them");
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
