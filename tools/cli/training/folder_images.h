// The user's own images, for --dataset folder (data/images/image_folders.h), and the checks of
// flags that concern them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lathe/data/images/image_folders.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

using data::Part, data::FolderLayout, data::ImageFolders, data::look_into;

/// "; --val-split 0.2 …": advice for training images that come without test images.
std::string way_without_test_images();

/// Checks that `run_folder` does not lie among the class folders of a data set at `root`: it would
/// count as a class when the images are next opened. Accepts every `root` that is not such a data
/// set.
/// throws: UsageError if `run_folder` lies there.
void refuse_among_classes(const std::filesystem::path& root,
                          const std::filesystem::path& run_folder);

/// Opens one part of the images as it is stored. With --val-split, kVal opens the images of kTrain;
/// the caller splits them.
/// throws: UsageError without --data-root; FileError, DataError naming the layout that is wanted.
std::shared_ptr<data::ImageDataset> open_folder(const Settings& settings, Part part,
                                                data::BrokenImage broken);

/// The number of training images for Machine::folder_images. With --val-split it is about as many
/// as that leaves. 0 if --dataset is not folder, or the folder has none or cannot be read.
int64_t count_folder_images(const Settings& settings);

/// The path for people: relative to the working directory if the file lies in or below it,
/// otherwise unchanged.
std::string shown_path(const std::string& file);

}  // namespace lathe::cli
