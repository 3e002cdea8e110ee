// --augment: the transforms that its words stand for, and the words that it refuses.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "lathe/data/data_loader.h"
#include "lathe/data/transforms/transforms.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/training/datasets.h"

using namespace lathe;
using namespace lathe::cli;

namespace {

std::shared_ptr<data::ImageDataset> opened(const char* augment) {
  const auto settings = std::make_unique<Settings>();
  settings->dataset = "synthetic";
  settings->synthetic_size = 12;
  settings->image_size = 16;
  settings->augment = augment;
  return open_dataset(*settings, Part::kTrain, true);
}

/// The images of two epochs.
std::vector<float> images_of(const std::shared_ptr<data::ImageDataset>& dataset) {
  data::DataLoader loader(dataset, {.batch_size = 12, .num_workers = 0});
  std::vector<float> all;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const data::Batch& batch : loader) {
      const auto images = batch.x.to_vector<float>();
      all.insert(all.end(), images.begin(), images.end());
    }
  }
  return all;
}

/// The same by these transforms around the data set's normalisation.
std::vector<float> images_by(const data::Transform& before, const data::Transform& after) {
  const auto dataset = opened("none");
  dataset->set_transform(compose(before, data::normalize(dataset->mean(), dataset->std()), after));
  return images_of(dataset);
}

std::string message_of(const char* augment) {
  try {
    opened(augment);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("--augment: shift and cutout have a size") {
  using namespace lathe::data;
  CHECK(images_of(opened("shift")) == images_by(compose(reflect_pad(2), pad_crop(16, 0)), {}));
  CHECK(images_of(opened("shift:4")) == images_by(compose(reflect_pad(4), pad_crop(16, 0)), {}));
  CHECK(images_of(opened("cutout")) == images_by({}, cutout(8)));
  CHECK(images_of(opened("cutout:12")) == images_by({}, cutout(12)));
  CHECK(images_of(opened("shift:4,alternating-flip,cutout:12")) ==
        images_by(compose(reflect_pad(4), pad_crop(16, 0), alternating_hflip()), cutout(12)));
  CHECK(images_of(opened("shift:4")) != images_of(opened("shift")));
}

TEST_CASE("--augment: a word that it does not know, and a size that does not fit") {
  CHECK(message_of("crop,fli") ==
        "--augment: expected none, or some of crop, flip, resized-crop, shift, alternating-flip, "
        "cutout, got \"fli\"");
  CHECK(message_of("flip:3") == "--augment: only shift and cutout have a size, got \"flip:3\"");
  CHECK(message_of("cutout:0") == "--augment: expected 1 to 4096, got 0");
  CHECK(message_of("cutout:17") == "--augment: cutout:17 is larger than the images (16 x 16)");
  CHECK(message_of("shift:") == "--augment: expected a whole number, got \"\"");
  CHECK(message_of("shift:16") ==
        "--augment shift:16: reflect_pad: an image of 16x16 is too small for a border of 16");
}
