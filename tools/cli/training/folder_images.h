// Images of one's own for --dataset folder: which layouts of folders are understood, and what is
// said of all others.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lathe/data/images/image_folder.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/datasets.h"

namespace lathe::cli {

enum class FolderLayout {
  kOther,    // none of these
  kParts,    // DIR/train, DIR/val, DIR/test: each has a folder per class
  kClasses,  // DIR itself has the folders of the classes, as torchvision's ImageFolder reads it
};

/// kParts if DIR has a folder train. kClasses if it has two folders or more, one of them with an
/// image directly in it, and none is named like a part (train, Testing, valid, …). That needs no
/// reading of images.
FolderLayout layout_of(const std::filesystem::path& root);

/// Whether the images of DIR are divided: false if it has a folder train and neither test nor val,
/// or is of kClasses. True for kOther, too: opening says what is wrong.
bool has_test_images(const std::filesystem::path& root);

/// "; --val-split 0.2 …": the way on for training images that come without test images.
std::string way_without_test_images();

/// For a data set of images in folders below `root`; any other root is right.
/// throws: UsageError if `run_folder` is or lies in a folder of classes: it would be one of them
/// when the images are next opened.
void refuse_among_classes(const std::filesystem::path& root,
                          const std::filesystem::path& run_folder);

/// Opens one part as it is stored. Of kClasses all images are the part kTrain. kVal is kTrain if
/// --val-split is given: who asks divides it.
/// throws: UsageError without --data-root; FileError, DataError naming the layout that is wanted.
std::shared_ptr<data::ImageDataset> open_folder(const Settings& settings, Part part,
                                                data::BrokenImage broken);

/// The files that these images of a data set were read from; where a broken one was skipped, the
/// one that took its place. Nothing if the images have no files of their own.
std::vector<std::string> files_of(const data::ImageDataset& images,
                                  const std::vector<int64_t>& indices);

/// The path from the working directory if the file lies in or below that, for people; else as it
/// is.
std::string shown_path(const std::string& file);

}  // namespace lathe::cli
