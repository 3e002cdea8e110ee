#include "lathe/tools/cli/input.h"

#include <fmt/format.h>

#include "lathe/data/image_folder.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {

Input make_input(const std::shared_ptr<data::ImageDataset>& images, const Settings& settings,
                 Device device, bool training) {
  const bool resident = settings.data_cache == "gpu";
  if (resident && device.is_cpu())
    throw UsageError("--data-cache gpu needs a GPU; training runs on the CPU");
  // Files of many sizes become one size before they can be a batch, so their transform stays with
  // the workers.
  const bool is_folder = dynamic_cast<const data::ImageFolder*>(images.get()) != nullptr;
  if (device.is_cpu() || (is_folder && !resident))
    return {make_loader(images, settings, training), device};

  data::PrefetchOptions prefetch{.transform = images->transform(),
                                 .format = settings.layout == "nhwc" ? kChannelsLast : kContiguous};
  images->set_transform({});
  if (resident) {
    const auto* stored = dynamic_cast<const data::StoredImages*>(images.get());
    if (stored == nullptr)
      throw UsageError(fmt::format("--data-cache gpu: the images of {} are made as they are read",
                                   *settings.dataset));
    prefetch.resident = std::make_shared<data::ResidentImages>(*stored, device);
  }
  return {make_loader(images, settings, training), device, std::move(prefetch)};
}

}  // namespace lathe::cli
