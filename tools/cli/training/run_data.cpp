// RunData: opening the parts of a data set, and naming the one that chooses the best.
#include "lathe/tools/cli/training/run_data.h"

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/training/folder_images.h"

namespace lathe::cli {

RunImages RunData::images(const Settings& settings) const {
  const std::string_view of = !test ? "test" : settings.val_split > 0 ? "train" : "val";
  return {train_set->size(), train.loader.size(),
          formatted("{} images of {}", val_set->size(), of)};
}

RunData open_data(const Settings& settings, Device device, const Ranks& ranks) {
  const Share share{ranks.rank(), ranks.size()};
  const bool splits = has_part(settings, Part::kVal);
  const auto train = open_dataset(settings, Part::kTrain, true);
  const auto test = open_dataset(settings, Part::kTest, false);
  const auto val = splits ? open_dataset(settings, Part::kVal, false) : test;
  RunData out{train,
              val,
              test,
              make_input(train, settings, device, true, share),
              make_input(val, settings, device, false, share),
              std::nullopt};
  if (splits) out.test.emplace(make_input(test, settings, device, false, share));
  return out;
}

std::string choice_of_best(const Settings& settings, const RunData& data) {
  const int64_t images = data.val_set->size();
  if (!data.test) {
    ImageFolders found;
    if (settings.dataset == "folder") found = look_into(settings.data_root);
    return formatted(
        "the best checkpoint is chosen on the {} {}, so its accuracy is optimistic; "
        "--val-split 0.1 avoids that",
        images, !found.val.empty() ? "images of " + found.val.filename().string() : "test images");
  }
  if (makes_test_part(settings)) {
    const int64_t tests = data.test_set->size();
    return formatted(
        "{} has no test images: {} of its {} become the test set, evaluated once at the end; the "
        "best checkpoint is chosen on {} others",
        settings.data_root, tests, data.train_set->size() + images + tests, images);
  }
  if (settings.val_split > 0)
    return formatted("the best checkpoint is chosen on {} of the training images", images);
  const ImageFolders found = look_into(settings.data_root);
  return formatted(
      "the best checkpoint is chosen on the {} images of {}; those of {} are evaluated once, at "
      "the end",
      images, found.val.filename().string(), found.test.filename().string());
}

}  // namespace lathe::cli
