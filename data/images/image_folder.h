// Images in folders, one folder per class:  ROOT/cat/1.jpg  ROOT/cat/more/2.png  ROOT/dog/3.jpeg
//
// Classes are the folders of ROOT in the byte order of their names, numbered from 0. The files of a
// class are sorted by the paths of their folders, then by name. This is torchvision's ImageFolder
// order, so indices and classes mean the same. Names that start with a dot are skipped. Files not
// named .jpg, .jpeg, .png or .webp (in any case) are left out and counted. Links are followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/error.h"
#include "lathe/data/images/image_datasets.h"

namespace lathe::data {

/// Whether ImageFolder reads a file of this name.
LATHE_API bool is_image_name(std::string_view file);

/// How many files were left out, by the ends of their names: {".bmp", 3}. "" is no ending. ".jpg
/// outside of the classes" are images beside the folders of the classes.
using LeftOut = std::map<std::string, int64_t>;
/// "12 .bmp, 1 without an ending": the most frequent endings first, and not all of many.
LATHE_API std::string text_of(const LeftOut& left_out);

/// What to do with a file that cannot be read or decoded, is truncated, or is an image that the
/// transform does not fit, such as one of 1x3000.
enum class BrokenImage {
  kRefuse,          // reading it throws an error that names it; for the first file, the constructor
  kRefuseWhenRead,  // the same, but the first file too only when it is read: for a check of all
  kSkip,            // the next readable file takes its place, with its own class; see broken()
};

struct ImageFolderOptions {
  Transform transform = {};  // must make images of one size: resize(256) alone does not
  BrokenImage broken = BrokenImage::kRefuse;
  /// JPEG files are decoded at 1/2, 1/4 or 1/8 of their size if the transform's first stage makes
  /// them at least that much smaller. This is several times faster for large files; the pixels then
  /// differ a little from those of a whole image that is made smaller.
  bool scaled_decoding = true;
  int64_t limit_pixels = 100'000'000;                // of an image; larger ones count as broken
  std::vector<double> mean = {0.485, 0.456, 0.406};  // ImageNet's, for mean() and std()
  std::vector<double> std = {0.229, 0.224, 0.225};
};

/// A sample is x = the transformed image [3,h,w] (a grey image three times) and y = its class. The
/// files are listed at once and read when a sample is read; nothing is kept in memory. As in
/// torchvision's ImageFolder, EXIF orientation is not applied: a photo taken upright may lie on its
/// side.
class LATHE_API ImageFolder final : public ImageDataset {
 public:
  /// Lists the files and reads the header of the first, for the transform; without kRefuse, of the
  /// first that can be read. If there is none, kRefuseWhenRead assumes 1 x 1.
  /// throws: FileError for a folder that cannot be read; DataError if ROOT has no folders, or one
  /// of them no images, or for the first file as read() does; as Transform::output.
  explicit ImageFolder(const std::string& root, const ImageFolderOptions& options = {});

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t label(int64_t i) const override { return files_[static_cast<size_t>(i)].label; }
  const std::string& path(int64_t i) const { return files_[static_cast<size_t>(i)].path; }
  std::string name(int64_t i) const override { return path(i); }
  const LeftOut& left_out() const { return left_out_; }
  const std::string& root() const { return root_; }
  /// Keeps these samples, in this order, and forgets the other files: none of them takes the place
  /// of a broken one. The classes stay. Call before anything is read.
  /// throws: IndexError naming an index that is out of range; nothing has changed then.
  void keep(const std::vector<int64_t>& indices);

  /// If it does not fit the first image, that one is broken: with kSkip the first image that it
  /// fits is taken in its place, with kRefuseWhenRead none.
  /// throws: DataError naming the file; else as Transform::output; the old transform then stays.
  void set_transform(const Transform& transform) override;

  /// Decodes the whole image, never at a part of its size.
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;
  bool has_one_size() const override { return false; }  // unknown: the files were not read

  /// Files found broken so far, in order. With BrokenImage::kSkip each was replaced.
  std::vector<std::string> broken() const override;

 protected:
  /// throws: FileError or DataError naming the file, unless broken files are skipped; DataError if
  /// the result has another size than that of the first image, or if all files are broken.
  int64_t read_image(int64_t i, Key key, void* out) const override;

 private:
  struct File {
    std::string path;
    int64_t label;
  };
  struct Listing {
    std::string root;
    std::vector<std::string> classes;
    std::vector<File> files;
    LeftOut left_out;
    std::string first = {};  // the file whose size the data set has
  };
  static Listing list(const std::string& root);
  static ImageSpec first_spec(Listing& listing, const ImageFolderOptions& options);
  ImageFolder(Listing listing, const ImageFolderOptions& options);

  /// Opens the file of sample i, or the file that replaces it, and calls use(file, image).
  template <class Use>
  void open_sample(int64_t i, Use&& use) const;

  /// Records the file as broken if the error says so.   → whether to go on
  bool skips(size_t file, const Error& error) const;

  std::string root_;
  std::vector<File> files_;
  LeftOut left_out_;
  std::string first_;
  ImageFolderOptions options_;
  std::unique_ptr<std::atomic<bool>[]> is_broken_;
};

/// The image files in a folder and below it, in ImageFolder's order.
///   left_out  counts the others, too, if it is given
/// throws: FileError for a folder that cannot be read; DataError if folders are nested too deeply.
LATHE_API std::vector<std::string> images_below(const std::string& folder,
                                                LeftOut* left_out = nullptr);

}  // namespace lathe::data
