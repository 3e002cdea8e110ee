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
  kMissing,  // there is no such folder
  kOther,    // none of those below
  kParts,    // DIR/train, DIR/val, DIR/test: each has a folder per class
  kClasses,  // DIR itself has the folders of the classes, as torchvision's ImageFolder reads it
};

/// Where the images of DIR lie. Folders of parts may have other usual names: training, valid,
/// validation, testing, in letters of any case.
struct ImageFolders {
  FolderLayout layout = FolderLayout::kOther;
  std::filesystem::path train = {}, val = {}, test = {};  // kParts; empty: there is none
  std::string problem =
      {};  // of kOther, if it holds images: why they cannot be read, and the remedy

  /// Whether there are images, though perhaps in folders that are not understood.
  bool holds_images() const { return layout > FolderLayout::kOther || !problem.empty(); }
  /// Whether the images are divided into those for training, to choose by, and to test with.
  bool divides_three() const { return !val.empty() && !test.empty(); }
  /// Those to test with; empty if only --val-split makes them.
  const std::filesystem::path& tests() const { return test.empty() ? val : test; }
};

/// kParts if DIR has a folder for training with folders in it. kClasses if it has two folders or
/// more, one of them with an image directly in it, and none is named like a part; beside two other
/// classes, one may be, if it has images and no folders. That needs no reading of images.
/// throws: FileError where a folder cannot be listed.
ImageFolders look_into(const std::filesystem::path& root);

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

/// "left out: 12 .bmp; …": what the folders of these data sets hold besides images. Each
/// folder counts once. "" if there is nothing, or if they are no folders.
std::string left_out_text(const std::vector<const data::ImageDataset*>& sets);

/// The files that these images of a data set were read from; where a broken one was skipped, the
/// one that took its place. Nothing if the images have no files of their own.
std::vector<std::string> files_of(const data::ImageDataset& images,
                                  const std::vector<int64_t>& indices);

/// The path from the working directory if the file lies in or below that, for people; else as it
/// is.
std::string shown_path(const std::string& file);

}  // namespace lathe::cli
