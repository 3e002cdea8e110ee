#include "lathe/tools/cli/datasets.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "lathe/core/device.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/image_folder.h"
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

bool is_folder(const Settings& settings) { return *settings.dataset == "folder"; }

/// Are images made --image-size large, where others are padded to it?
bool is_resized(const Settings& settings) {
  const auto names = split_list(settings.augment.value_or("none"));
  return is_folder(settings) ||
         std::find(names.begin(), names.end(), "resized-crop") != names.end();
}

std::shared_ptr<data::ImageDataset> open_folder(const Settings& settings, Part part) {
  namespace fs = std::filesystem;
  const fs::path root = settings.data_root;
  if (root.empty())
    throw UsageError(
        "--dataset folder: name it with --data-root DIR; DIR/train and DIR/test (or DIR/val) hold "
        "one folder per class");
  auto train = std::make_shared<data::ImageFolder>(root / "train");
  if (part == Part::kTrain) return train;
  const fs::path path = fs::exists(root / "test") ? root / "test" : root / "val";
  auto test = std::make_shared<data::ImageFolder>(path);
  LATHE_CHECK(DataError, test->class_names() == train->class_names(), path.string(), ": has ",
              test->classes(), " classes that are not the ", train->classes(), " of ",
              (root / "train").string());
  return test;
}

std::shared_ptr<data::ImageDataset> open_bytes(const Settings& settings, Part part) {
  if (is_folder(settings)) return open_folder(settings, part);
  if (*settings.dataset == "synthetic") {
    return std::make_shared<data::Synthetic>(synthetic_options(settings, part));
  }
  return std::make_shared<data::StoredImages>(
      *settings.dataset, settings.data_root,
      data::ImageOptions{.train = part == Part::kTrain,
                         .pad_to = is_resized(settings) ? 0 : settings.image_size.value_or(32)});
}

/// What brings images to one size: a part of them that is drawn, or all or the middle.
data::Transform sized(const Settings& settings, bool augmented) {
  const int64_t side = settings.image_size.value_or(32);
  const auto names = split_list(settings.augment.value_or("none"));
  if (augmented && std::find(names.begin(), names.end(), "resized-crop") != names.end())
    return data::random_resized_crop(side);
  if (is_folder(settings))  // 256 for 224, as is usual for ImageNet
    return compose(data::resize(side * 8 / 7), data::center_crop(side));
  return data::resize(side, side);
}

data::Transform transform_for(const data::ImageDataset& images, const Settings& settings,
                              bool augmented) {
  const bool resized = is_resized(settings);
  data::Transform transform = resized ? sized(settings, augmented) : data::Transform();
  const std::string augment = settings.augment.value_or("none");
  for (const std::string& name : split_list(augment)) {
    if (name != "none" && name != "crop" && name != "flip" && name != "resized-crop")
      throw UsageError(fmt::format(
          "--augment: expected none, or some of crop, flip, resized-crop, got \"{}\"", augment));
    if (!augmented) continue;
    const int64_t side = resized ? settings.image_size.value_or(32) : images.height();
    if (name == "crop") transform = transform.then(data::pad_crop(side, kCropPad));
    if (name == "flip") transform = transform.then(data::hflip());
  }
  return transform.then(data::normalize(images.mean(), images.std()));
}

bool is_here(const Settings& settings) {
  return *settings.dataset == "synthetic" || is_folder(settings) ||
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
  if (!settings.download || *settings.dataset == "synthetic" || is_folder(settings)) return;
  const data::DatasetSource& source = data::dataset_source(*settings.dataset);
  if (!data::find_dataset(source, settings.data_root)) fetch_dataset_shown(source, settings);
}

std::shared_ptr<data::ImageDataset> open_dataset(const Settings& settings, Part part,
                                                 bool augmented) try {
  auto images = open_bytes(settings, part);
  images->set_transform(transform_for(*images, settings, augmented));
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
