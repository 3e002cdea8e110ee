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

/// For a data set of images in folders below `root`; any other root is right.
/// throws: UsageError if `run_folder` is or lies in a folder of classes: it would be one of them
/// when the images are next opened.
void refuse_among_classes(const std::filesystem::path& root,
                          const std::filesystem::path& run_folder);

/// Opens one part as it is stored. kVal is kTrain if --val-split is given: who asks divides it.
/// throws: UsageError without --data-root; FileError, DataError naming the layout that is wanted.
std::shared_ptr<data::ImageDataset> open_folder(const Settings& settings, Part part,
                                                data::BrokenImage broken);

/// The path from the working directory if the file lies in or below that, for people; else as it
/// is.
std::string shown_path(const std::string& file);

}  // namespace lathe::cli
