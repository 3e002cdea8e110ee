#include "lathe/tools/cli/datasets.h"

#include <fmt/format.h>

#include "lathe/core/device.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/sources.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/fetch.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {
namespace {

constexpr int64_t kCropPad = 4;

data::SyntheticOptions synthetic_options(const Settings& settings, Part part) {
  const int64_t side = settings.image_size.value_or(32);
  const auto seed = static_cast<uint64_t>(settings.seed);
  // Its own seed makes the test part other images of the same kind.
  if (part == Part::kTest)
    return {.size = std::max<int64_t>(settings.synthetic_size / 5, 1),
            .height = side,
            .width = side,
            .seed = seed ^ 0x7e57};
  return {.size = settings.synthetic_size, .height = side, .width = side, .seed = seed};
}

std::shared_ptr<data::ImageDataset> open_bytes(const Settings& settings, Part part) {
  if (*settings.dataset == "synthetic") {
    return std::make_shared<data::Synthetic>(synthetic_options(settings, part));
  }
  return std::make_shared<data::StoredImages>(
      *settings.dataset, settings.data_root,
      data::ImageOptions{.train = part == Part::kTrain,
                         .pad_to = settings.image_size.value_or(32)});
}

data::Transform transform_for(const data::ImageDataset& images, const std::string& augment) {
  data::Transform transform;
  for (const std::string& name : split_list(augment)) {
    if (name == "crop") {
      transform = transform.then(data::pad_crop(images.height(), kCropPad));
    } else if (name == "flip") {
      transform = transform.then(data::hflip());
    } else if (name != "none") {
      throw UsageError(
          fmt::format("--augment: expected none, crop, flip or crop,flip, got \"{}\"", augment));
    }
  }
  return transform.then(data::normalize(images.mean(), images.std()));
}

bool is_here(const Settings& settings) {
  return *settings.dataset == "synthetic" ||
         data::find_dataset(data::dataset_source(*settings.dataset), settings.data_root);
}

std::string how_to_get(const data::DatasetSource& source) {
  return fmt::format(
      "; get it with `lathe data fetch {}`{}, name its place with --data-root, or use --dataset "
      "synthetic",
      source.name,
      source.debian_package.empty()
          ? ""
          : fmt::format(" or `apt-get install {}`", source.debian_package));
}

}  // namespace

Machine look_around(const Settings& settings) {
  const auto found = [&](const char* name) {
    return data::find_dataset(data::dataset_source(name), settings.data_root).has_value();
  };
  return {.has_cuda = settings.device != "cpu" && cuda_is_available(),
          .usable_cpus = usable_cpus(),
          .cifar10_found = found("cifar10"),
          .fashion_mnist_found = found("fashion-mnist")};
}

void fetch_if_asked(const Settings& settings) {
  if (!settings.download || *settings.dataset == "synthetic") return;
  const data::DatasetSource& source = data::dataset_source(*settings.dataset);
  if (!data::find_dataset(source, settings.data_root)) fetch_dataset_shown(source, settings);
}

std::shared_ptr<data::ImageDataset> open_dataset(const Settings& settings, Part part,
                                                 bool augmented) try {
  auto images = open_bytes(settings, part);
  images->set_transform(
      transform_for(*images, augmented ? settings.augment.value_or("none") : "none"));
  return images;
} catch (const DataError& e) {
  if (is_here(settings)) throw;
  throw CommandError(ExitCode::kData,
                     e.message() + how_to_get(data::dataset_source(*settings.dataset)));
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
} catch (const ValueError& e) {
  throw UsageError(e.message());
}

data::DataLoader make_loader(std::shared_ptr<const data::Dataset> dataset, const Settings& settings,
                             bool training) {
  return data::DataLoader(std::move(dataset), {.batch_size = *settings.batch_size,
                                               .shuffle = training,
                                               .num_workers = *settings.workers,
                                               .pin_memory = settings.pin_memory.value_or(false),
                                               .drop_last = training && settings.drop_last,
                                               .seed = static_cast<uint64_t>(settings.seed),
                                               .prefetch_factor = settings.prefetch_factor});
}

}  // namespace lathe::cli
