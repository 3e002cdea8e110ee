// Folders of images that are divided into parts: which layouts are understood, and what is said of
// all others.
//
//   const auto train = data::open_image_folder("pets", data::Part::kTrain, {.transform = …});
//   const auto test = data::open_image_folder("pets", data::Part::kTest, {.transform = …});
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_folder.h"

namespace lathe::data {

/// To train with, to choose the best state by, to test with.
enum class Part { kTrain, kVal, kTest };

enum class FolderLayout {
  kMissing,  // there is no such folder
  kOther,    // none of those below
  kParts,    // DIR/train, DIR/val, DIR/test: each has a folder per class
  kClasses,  // DIR itself has the folders of the classes, as torchvision's ImageFolder reads it
};

/// Where the images of DIR lie. Folders of parts may have other usual names: training, valid,
/// validation, eval, dev, testing, in letters of any case.
struct ImageFolders {
  FolderLayout layout = FolderLayout::kOther;
  std::filesystem::path train = {}, val = {}, test = {};  // kParts; empty: there is none
  // Of kOther, if it holds images: why they cannot be read.
  std::string problem = {};
  std::filesystem::path below = {};  // of kOther: a folder in DIR whose layout is understood

  /// True if DIR holds images, though perhaps in folders that are not understood.
  bool holds_images() const { return layout > FolderLayout::kOther || !problem.empty(); }
  /// True if DIR has images to train with, images to choose the best weights by, and images to test
  /// with.
  bool divides_three() const { return !val.empty() && !test.empty(); }
  /// The folder of the images to test with, or else of those to choose by; empty if the data set
  /// has neither.
  const std::filesystem::path& tests() const { return test.empty() ? val : test; }
};

/// kParts if DIR has a folder for training with folders in it. kClasses if it has two folders or
/// more, one of them with an image directly in it, and none is named like a part; beside two other
/// classes, one may be, if it has images and no folders. That needs no reading of images.
/// throws: FileError where a folder cannot be listed.
LATHE_API ImageFolders look_into(const std::filesystem::path& root);

/// What is wanted instead of what lies in DIR: "DIR: has the folder cat; wanted are …".
/// throws: FileError where the folder cannot be listed.
LATHE_API std::string wanted_layout(const std::filesystem::path& root);

/// Opens one part. Of kClasses all images are kTrain. kTest is val/ where there is no test/.
/// throws: FileError; DataError naming the layout that is wanted, if DIR has another one or lacks
/// the part, and for a part whose classes are not those of the training images; as ImageFolder.
LATHE_API std::shared_ptr<ImageFolder> open_image_folder(const std::filesystem::path& root,
                                                         Part part,
                                                         const ImageFolderOptions& options = {});
/// Like open_image_folder() without `found`, for a folder in which look_into() has found this part.
LATHE_API std::shared_ptr<ImageFolder> open_image_folder(const std::filesystem::path& root,
                                                         const ImageFolders& found, Part part,
                                                         const ImageFolderOptions& options = {});

/// "left out: 12 .bmp; …": what the folders of these data sets hold besides images. Each
/// folder counts once. "" if there is nothing, or if they are no folders.
LATHE_API std::string left_out_text(const std::vector<const ImageDataset*>& sets);

/// The files that these images of a data set were read from; where a broken one was skipped, the
/// one that took its place. Nothing if the images have no files of their own.
LATHE_API std::vector<std::string> files_of(const ImageDataset& images,
                                            const std::vector<int64_t>& indices);

}  // namespace lathe::data
