// The data sets that --dataset names, with the settings applied: padded, normalised, augmented.
#pragma once

#include <filesystem>
#include <memory>

#include "lathe/data/data_loader.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/images/image_folders.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/model_input.h"

namespace lathe::cli {

/// The parts of a data set.
///   - kVal: the part of the training images that --val-split sets aside; without --val-split, the
///     folder val/ if there is also a folder test/.
///   - kTest: the test images. If a folder or packed file has no test images, --val-split first
///     takes kTest from the training images, and then kVal.
using data::Part;

/// Finds what this machine has: a GPU, processors, data sets (looks only at the names of their
/// files).
Machine look_around(const Settings& settings);

/// Downloads the data set if --download asks for it and it is missing, with progress on stderr.
/// throws: UsageError for the synthetic set's name; FileError, DataError.
void fetch_if_asked(const Settings& settings);

/// True if the stored data set has `part`. That includes kVal if --val-split makes it. A packed
/// file may lack kTrain or kTest, a folder kTest.
/// throws: DataError, FileError or CommandError (kData) if the data set cannot be read.
bool has_part(const Settings& settings, Part part);
/// True if --val-split takes kTest from the training images.
/// throws: as has_part().
bool makes_test_part(const Settings& settings);

/// All images of one part as they are stored, for commands that check each image. Reading a broken
/// image throws.
/// throws: UsageError, DataError, FileError.
std::shared_ptr<data::ImageDataset> open_all_images(Settings settings, Part part);
/// Like open_all_images(), for a folder that directly contains the classes' folders.
std::shared_ptr<data::ImageDataset> open_class_folders(const std::filesystem::path& root);

/// Opens one part of the data set. `augmented`: with the random changes of settings.augment.
/// throws: UsageError if --augment or --image-size does not fit, or --val-split leaves a part
/// without images; CommandError (kData) if a file cannot be read; DataError.
std::shared_ptr<data::ImageDataset> open_dataset(const Settings& settings, Part part,
                                                 bool augmented);

/// How evaluation prepares the images of a part from open_dataset(), written for images of any
/// size, and the names of the classes.
ModelInput model_input(const Settings& settings, const data::ImageDataset& images);

/// The part of the samples that a process reads: its rank, and the number of ranks.
struct Share {
  int64_t rank = 0, ranks = 1;
};

/// Makes the loader of a data set. For `training` the samples are shuffled. Otherwise they come
/// from the first to the last, including a short last batch. A request to stop (StopRequests) ends
/// a pass over the batches after the sample that is being read, except in training with
/// --accumulate. With several ranks, each rank reads its share of every batch, because --batch-size
/// is for all ranks together. In training the shares are equal, and no request to stop ends a pass
/// over the batches: the ranks stop together. In evaluation each sample is in one share.
/// throws: UsageError for fewer samples than ranks.
data::DataLoader make_loader(std::shared_ptr<const data::Dataset> dataset, const Settings& settings,
                             bool training, Share share = {});

}  // namespace lathe::cli
