// Images of one's own for --dataset folder (data/images/image_folders.h), and what the flags have
// to do with them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lathe/data/images/image_folders.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

using data::Part, data::FolderLayout, data::ImageFolders, data::look_into;

/// "; --val-split 0.2 …": the way on for training images that come without test images.
std::string way_without_test_images();

/// Checks that `run_folder` does not lie among the class folders of a data set at `root`: it would
/// be taken for a class when the images are next opened. Accepts any root that is not such a data
/// set.
/// throws: UsageError if it does.
void refuse_among_classes(const std::filesystem::path& root,
                          const std::filesystem::path& run_folder);

/// Opens one part as it is stored. With --val-split, kVal gives kTrain, which the caller divides.
/// throws: UsageError without --data-root; FileError, DataError naming the layout that is wanted.
std::shared_ptr<data::ImageDataset> open_folder(const Settings& settings, Part part,
                                                data::BrokenImage broken);

/// The path from the working directory if the file lies in or below that, for people; else as it
/// is.
std::string shown_path(const std::string& file);

}  // namespace lathe::cli
