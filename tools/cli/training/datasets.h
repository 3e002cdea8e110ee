// The data sets that --dataset names, as settings want them: padded, normalised, augmented.
#pragma once

#include <filesystem>
#include <memory>

#include "lathe/data/data_loader.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/tools/cli/settings/recipe.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

enum class Part { kTrain, kTest };

/// What is here: a GPU, processors, data sets (files' names only).
Machine look_around(const Settings& settings);

/// Fetches the data set if --download asks for it and it is not there, with progress on stderr.
/// throws: UsageError for the synthetic set's name; FileError, DataError.
void fetch_if_asked(const Settings& settings);

/// False for a packed file that holds images of the other part alone.
/// throws: DataError, FileError.
bool has_part(const Settings& settings, Part part);

/// All images of one part as they are stored, for who looks at each: a broken one is an error when
/// it is read.
/// throws: UsageError, DataError, FileError.
std::shared_ptr<data::ImageDataset> open_all_images(Settings settings, Part part);
/// The same of a folder that holds the classes' folders itself.
std::shared_ptr<data::ImageDataset> open_class_folders(const std::filesystem::path& root);

/// Opens one part. `augmented`: with the random changes of settings.augment. An unreadable file is
/// CommandError (kData).
/// throws: UsageError for --augment and --image-size that do not fit; DataError.
std::shared_ptr<data::ImageDataset> open_dataset(const Settings& settings, Part part,
                                                 bool augmented);

/// Training order: shuffled. Otherwise: from the first to the last, the short last batch included.
data::DataLoader make_loader(std::shared_ptr<const data::Dataset> dataset, const Settings& settings,
                             bool training);

}  // namespace lathe::cli
