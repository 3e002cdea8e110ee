// Opening of data sets from settings, and their transforms; look_around() for settings/defaults.h.
#include "lathe/tools/cli/training/datasets.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string_view>

#include "lathe/core/device.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/dataset_parts.h"
#include "lathe/data/images/cached_images.h"
#include "lathe/data/images/image_folder.h"
#include "lathe/data/images/image_subset.h"
#include "lathe/data/images/packed_images.h"
#include "lathe/data/images/published_datasets.h"
#include "lathe/data/images/record_images.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/fetch.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {
namespace {

constexpr int64_t kCropPad = 4;
constexpr int64_t kLargestChange = 4096;  // as --image-size

data::SyntheticOptions synthetic_options(const Settings& settings, Part part) {
  const int64_t side = settings.image_size.value_or(32);
  const auto seed = static_cast<uint64_t>(settings.seed);
  // Its own seed gives the test part other images of the same kind.
  if (part == Part::kTest)
    return {.size = std::max<int64_t>(settings.synthetic_size / 5, 1),
            .height = side,
            .width = side,
            .seed = seed ^ 0x7e57};
  return {.size = settings.synthetic_size, .height = side, .width = side, .seed = seed};
}

bool is_image_folder(const Settings& settings) { return settings.dataset == "folder"; }
bool is_packed(const Settings& settings) { return settings.dataset == "packed"; }

/// Whether the name is a published set with official files, which can be downloaded.
bool is_published(const Settings& settings) {
  return !is_image_folder(settings) && !is_packed(settings) && settings.dataset != "synthetic";
}

/// A random change of --augment. `size`, in pixels, is of shift and cutout: "cutout:12".
struct Augmentation {
  std::string_view name;
  int64_t size = 0;
};
constexpr Augmentation kAugmentations[] = {{"none"},
                                           {"crop"},
                                           {"flip"},
                                           {"resized-crop"},
                                           {"shift", 2},
                                           {"cutout", 8},
                                           {"alternating-flip"}};

/// One word of --augment.
/// throws: UsageError for an unknown name, and for a size that does not belong there.
Augmentation augmentation_of(std::string_view word) {
  const size_t colon = word.find(':');
  const auto* const found =
      std::ranges::find(kAugmentations, word.substr(0, colon), &Augmentation::name);
  if (found == std::end(kAugmentations)) {
    throw UsageError(
        formatted("--augment: expected none, or some of crop, flip, resized-crop, shift, "
                  "alternating-flip, cutout, got \"{}\"",
                  word));
  }
  Augmentation change = *found;
  if (colon == std::string_view::npos) return change;
  if (change.size == 0)
    throw UsageError(formatted("--augment: only shift and cutout have a size, got \"{}\"", word));
  change.size = parse_integer("--augment", word.substr(colon + 1), 1, kLargestChange);
  return change;
}

bool draws_crops(const Settings& settings) {
  const auto names = split_list(settings.augment.value_or("none"));
  return std::find(names.begin(), names.end(), "resized-crop") != names.end();
}

/// Whether images differ from --image-size and are not padded to it.
bool has_other_sizes(const data::ImageDataset& images, const Settings& settings) {
  const int64_t side = settings.image_size.value_or(32);
  const data::ImageSpec& spec = images.stored_spec();
  if (is_packed(settings))
    return !images.has_one_size() || spec.height != side || spec.width != side;
  return is_image_folder(settings);
}

std::shared_ptr<data::ImageDataset> open_packed(const Settings& settings, Part part) {
  if (settings.data_root.empty())
    throw UsageError(
        "--dataset packed: name the file with --data-root FILE; `lathe data prepare` writes one");
  if (part == Part::kTest && !has_part(settings, part))
    LATHE_FAIL(DataError, settings.data_root, ": has no test images", way_without_test_images());
  return std::make_shared<data::PackedImages>(settings.data_root, part != Part::kTest);
}

/// The shorter side before the middle is taken: 256 for 224, as is usual for ImageNet.
int64_t resized_side(int64_t side) { return side * 8 / 7; }

/// The transform that brings images to one size: a random part, the middle part, or the whole
/// image.
data::Transform sized(const data::ImageDataset& images, const Settings& settings, bool augmented) {
  const int64_t side = settings.image_size.value_or(32);
  if (augmented && draws_crops(settings)) return data::random_resized_crop(side);
  if (has_other_sizes(images, settings))
    return compose(data::resize(resized_side(side)), data::center_crop(side));
  return data::resize(side, side);
}

data::Transform transform_for(const data::ImageDataset& images, const Settings& settings,
                              bool augmented) {
  const bool resized = has_other_sizes(images, settings) || draws_crops(settings);
  data::Transform transform = resized ? sized(images, settings, augmented) : data::Transform();
  const std::string augment = settings.augment.value_or("none");
  int64_t cutout = 0;
  for (const std::string& word : split_list(augment)) {
    const auto [name, size] = augmentation_of(word);
    if (!augmented) continue;
    const int64_t side = resized ? settings.image_size.value_or(32) : images.height();
    if (name == "crop") transform = transform.then(data::pad_crop(side, kCropPad));
    if (name == "shift")
      transform = compose(transform, data::reflect_pad(size), data::pad_crop(side, 0));
    if (name == "flip") transform = transform.then(data::hflip());
    if (name == "alternating-flip") transform = transform.then(data::alternating_hflip());
    if (name == "cutout") {
      if (size > side) {
        throw UsageError(formatted("--augment: cutout:{} is larger than the images ({} x {})", size,
                                   side, side));
      }
      cutout = size;
    }
  }
  transform = transform.then(data::normalize(images.mean(), images.std()));
  // The mean pixel is 0 now.
  return cutout > 0 ? transform.then(data::cutout(cutout)) : transform;
}

bool is_here(const Settings& settings) {
  return !is_published(settings) ||
         data::find_dataset(data::dataset_source(*settings.dataset), settings.data_root);
}

std::string how_to_get(const data::DatasetSource& source, const std::string& root) {
  return formatted(
      "; get it with `{}`{}, name its place with --data-root, or use --dataset synthetic",
      fetch_command(source.name, root),
      source.debian_package.empty() ? ""
                                    : formatted(" or `apt-get install {}`", source.debian_package));
}

std::shared_ptr<data::ImageDataset> open_images(const Settings& settings, Part part,
                                                data::BrokenImage broken) {
  if (is_image_folder(settings)) return open_folder(settings, part, broken);
  if (is_packed(settings)) return open_packed(settings, part);
  if (*settings.dataset == "synthetic") {
    return std::make_shared<data::Synthetic>(synthetic_options(settings, part));
  }
  const data::ImageOptions options{
      .train = part != Part::kTest,
      .pad_to = draws_crops(settings) ? 0 : settings.image_size.value_or(0)};
  if (settings.data_cache == "none")
    return std::make_shared<data::RecordImages>(*settings.dataset, settings.data_root, options);
  return std::make_shared<data::StoredImages>(*settings.dataset, settings.data_root, options);
}

/// Of the images those that --val-split takes from them, or the others. `seed_of`: of equal images
/// another one takes others.   `what_for`: what they are taken for.
std::shared_ptr<data::ImageDataset> divided(std::shared_ptr<data::ImageDataset> images,
                                            const Settings& settings, bool taken, uint64_t seed_of,
                                            const char* what_for) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < images->size(); ++i) labels.push_back(images->label(i));
  const std::string fraction = number_text(settings.val_split);
  if (settings.val_split >= 1)
    throw UsageError(formatted("--val-split {} leaves no image to train on", fraction));
  data::StratifiedSplit split = data::stratified_split(
      labels, settings.val_split, static_cast<uint64_t>(settings.seed) ^ seed_of);
  if (split.part.empty()) {
    throw UsageError(
        formatted("--val-split {}: {} training images of {} classes are too few: none would be "
                  "left to {} (every class keeps one)",
                  fraction, images->size(), images->classes(), what_for));
  }
  std::vector<int64_t>& chosen = taken ? split.part : split.rest;
  if (auto* const folder = dynamic_cast<data::ImageFolder*>(images.get())) {
    folder->keep(chosen);  // so that no file of the other part takes the place of a broken one
    return images;
  }
  return std::make_shared<data::ImageSubset>(std::move(images), std::move(chosen));
}

/// The part of the images, as --val-split divides those for training. Where there are no test
/// images it takes them, too, before those to choose by: as if they had lain apart from the start.
std::shared_ptr<data::ImageDataset> open_divided(const Settings& settings, Part part,
                                                 data::BrokenImage broken) {
  constexpr uint64_t kTestSeed = 0x7e57;
  const bool makes_test = makes_test_part(settings), is_test = part == Part::kTest;
  auto images = open_images(settings, makes_test ? Part::kTrain : part, broken);
  if (makes_test) images = divided(std::move(images), settings, is_test, kTestSeed, "test with");
  if (settings.val_split == 0 || is_test) return images;
  return divided(std::move(images), settings, part == Part::kVal, 0, "choose the best by");
}

/// The name of the file that --data-root is, if it is one.
std::optional<PackedKind> packed_kind(const Settings& settings) {
  const bool asked = !settings.dataset || is_packed(settings);
  return reading_data([&]() -> std::optional<PackedKind> {
    if (!asked || !is_file(settings.data_root)) return {};
    const data::PackedImages images(settings.data_root);
    const data::ImageSpec& spec = images.stored_spec();
    const bool one_square = images.has_one_size() && spec.height == spec.width;
    return PackedKind{spec.channels, one_square ? spec.height : 0};
  });
}

DataRoot kind_of_data_root(const std::filesystem::path& root) {
  const ImageFolders found = reading_data([&] { return look_into(root); });
  return found.layout == FolderLayout::kMissing ? DataRoot::kMissing
         : found.holds_images()                 ? DataRoot::kImageFolder
                                                : DataRoot::kOther;
}

}  // namespace

bool has_part(const Settings& settings, Part part) {
  if (is_image_folder(settings)) {
    const ImageFolders found = reading_data([&] { return look_into(settings.data_root); });
    if (part == Part::kVal) return settings.val_split > 0 || found.divides_three();
    return part == Part::kTrain || found.layout == FolderLayout::kOther || !found.tests().empty();
  }
  if (part == Part::kVal) return settings.val_split > 0;
  if (!is_packed(settings) || settings.data_root.empty()) return true;
  const data::PackedFile file(settings.data_root);
  return part == Part::kTrain ? file.train_images() > 0 : file.train_images() < file.size();
}

bool makes_test_part(const Settings& settings) {
  return settings.val_split > 0 && !has_part(settings, Part::kTest);
}

std::shared_ptr<data::ImageDataset> open_all_images(Settings settings, Part part) {
  if (*settings.dataset != "synthetic") settings.image_size.reset();
  return open_images(settings, part, data::BrokenImage::kRefuseWhenRead);
}

std::shared_ptr<data::ImageDataset> open_class_folders(const std::filesystem::path& root) {
  return std::make_shared<data::ImageFolder>(
      root, data::ImageFolderOptions{.broken = data::BrokenImage::kRefuseWhenRead});
}

Machine look_around(const Settings& settings) {
  const auto found = [&](const char* name) {
    return data::find_dataset(data::dataset_source(name), settings.data_root).has_value();
  };
  Machine machine{
      .has_cuda = settings.device != "cpu" && cuda_is_available(),
      .usable_cpus = num_threads(),  // fewer where OMP_NUM_THREADS says so, as lathe launch does
      .cifar10_found = found("cifar10"),
      .fashion_mnist_found = found("fashion-mnist"),
      .packed = packed_kind(settings)};
  if (settings.dataset || machine.packed || machine.cifar10_found || machine.fashion_mnist_found)
    return machine;
  reading_data([&] {
    for (const char* const name : {"cifar10", "cifar100"}) {
      if (machine.other_form.empty())
        machine.other_form = data::other_form_of(data::dataset_source(name), settings.data_root);
    }
    if (!settings.data_root.empty()) machine.data_root = kind_of_data_root(settings.data_root);
  });
  return machine;
}

void fetch_if_asked(const Settings& settings) {
  if (!settings.download || !is_published(settings)) return;
  const data::DatasetSource& source = data::dataset_source(*settings.dataset);
  if (!data::find_dataset(source, settings.data_root)) fetch_dataset_shown(source, settings);
}

std::shared_ptr<data::ImageDataset> open_dataset(const Settings& settings, Part part,
                                                 bool augmented) try {
  auto images = open_divided(
      settings, part, settings.skip_broken ? data::BrokenImage::kSkip : data::BrokenImage::kRefuse);
  // Before the cache: a folder leaves out images that the transform does not fit.
  images->set_transform(transform_for(*images, settings, augmented));
  if (settings.data_cache == "ram" && !is_published(settings))
    images = std::make_shared<data::CachedImages>(std::move(images));
  return images;
} catch (const DataError& e) {
  if (is_here(settings)) throw;
  throw CommandError(
      ExitCode::kData,
      e.message() + how_to_get(data::dataset_source(*settings.dataset), settings.data_root));
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
} catch (const ValueError& e) {
  throw UsageError(e.message());
} catch (const ShapeError& e) {  // such as images that are too small for a change
  const std::string changes = settings.augment.value_or("none");
  throw UsageError(changes == "none" ? e.message()
                                     : formatted("--augment {}: {}", changes, e.message()));
}

ModelInput model_input(const Settings& settings, const data::ImageDataset& images) {
  const bool other_sizes = has_other_sizes(images, settings), crops = draws_crops(settings);
  const int64_t side = other_sizes || crops ? settings.image_size.value_or(32) : images.height();
  // A published set's images are padded: an image gets their size first, and then the border.
  const int64_t whole =
      is_published(settings) && !crops ? data::dataset_info(*settings.dataset).side : side;
  return {.class_names = images.class_names(),
          .channels = images.channels(),
          .side = side,
          .resize = other_sizes ? resized_side(side) : whole,
          .keeps_ratio = other_sizes,
          .mean = images.mean(),
          .std = images.std()};
}

namespace {

// In training a rank's last batch is as long as the others'.
std::shared_ptr<const data::Sampler> sampler_of(const Share& share, int64_t samples,
                                                const Settings& settings, bool training) {
  if (share.ranks == 1) return {};
  if (samples < share.ranks)
    throw UsageError(formatted("{} images are fewer than {} ranks", samples, share.ranks));
  const data::DistributedSampler::Options options{
      .shuffle = training, .drop_last = training && settings.drop_last, .pad = training};
  return std::make_shared<data::DistributedSampler>(samples, share.rank, share.ranks, options);
}

}  // namespace

data::DataLoader make_loader(std::shared_ptr<const data::Dataset> dataset, const Settings& settings,
                             bool training, Share share) {
  // A signal stops the wait for a batch, which may be long. Among the batches of one step it must
  // not: without the others there is no state to save.
  std::function<bool()> stop;
  if (!training || (settings.accumulate == 1 && share.ranks == 1))
    stop = [] { return StopRequests::asked() != 0; };
  auto sampler = sampler_of(share, dataset->size(), settings, training);
  const int64_t batch_size = std::max<int64_t>(1, *settings.batch_size / share.ranks);
  return data::DataLoader(std::move(dataset), {.batch_size = batch_size,
                                               .shuffle = training && !sampler,
                                               .num_workers = *settings.workers,
                                               .pin_memory = settings.pin_memory.value_or(false),
                                               .drop_last = training && settings.drop_last,
                                               .seed = static_cast<uint64_t>(settings.seed),
                                               .prefetch_factor = settings.prefetch_factor,
                                               .sampler = sampler,
                                               .stop = stop});
}

}  // namespace lathe::cli
