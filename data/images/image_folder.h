// Images in folders, one folder per class:  ROOT/cat/1.jpg  ROOT/cat/more/2.png  ROOT/dog/3.jpeg
//
// Classes are the folders of ROOT in the byte order of their names, numbered from 0. The files of a
// class are sorted by the paths of their folders, then by name. Indices and classes are those of
// torchvision's ImageFolder. Names that start with a dot are skipped. Files whose names do not end
// in .jpg, .jpeg, .png or .webp (in any case) are left out and counted. Links are followed.
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

/// True if ImageFolder reads files with this name.
LATHE_API bool is_image_name(std::string_view file);

/// The number of files left out, by the endings of their names: {".bmp", 3}. "" is a name without
/// an ending. ".jpg outside of the classes" counts images beside the folders of the classes.
using LeftOut = std::map<std::string, int64_t>;
/// "12 .bmp, 1 without an ending": the five most frequent endings, then the count of all others.
LATHE_API std::string text_of(const LeftOut& left_out);

/// What to do with a broken file: a file that cannot be read or decoded, is truncated, or has an
/// image that the transform does not fit, such as one of 1x3000 pixels.
enum class BrokenImage {
  kRefuse,          // read() throws an error naming the file; for file 0 the constructor throws
  kRefuseWhenRead,  // only read() throws, also for file 0; for a check of all files
  kSkip,            // the next readable file, with its own class, takes its place; see broken()
};

struct ImageFolderOptions {
  Transform transform = {};  // must make images of one size: resize(256) alone does not
  BrokenImage broken = BrokenImage::kRefuse;
  /// true: JPEG files are decoded at 1/2, 1/4 or 1/8 of their size if the transform's first stage
  /// makes them at least that much smaller. This is several times faster for large files. The
  /// pixels differ a little from those of an image decoded at full size.
  bool scaled_decoding = true;
  int64_t limit_pixels = 100'000'000;                // of an image; larger ones count as broken
  std::vector<double> mean = {0.485, 0.456, 0.406};  // ImageNet's, for mean() and std()
  std::vector<double> std = {0.229, 0.224, 0.225};
};

/// A sample is x = the transformed image [3,h,w] (a grey image three times) and y = its class. The
/// constructor lists the files. A file is read when its sample is read; no image is kept in memory.
/// As in torchvision's ImageFolder, EXIF orientation is not applied, so a photo may lie on its
/// side.
class LATHE_API ImageFolder final : public ImageDataset {
 public:
  /// Lists the files, reads the header of the first image, and calls set_transform() with
  /// options.transform. If options.broken is not kRefuse, files that cannot be read are passed
  /// over: the first image is that of the first readable file. If no file can be read,
  /// kRefuseWhenRead takes an image of 1 x 1 as the first image.
  /// throws: FileError for a folder that cannot be read; what set_transform() throws; DataError if
  /// `root` has no folders, if one of its folders has no images, or if folders are nested too
  /// deeply. With kRefuse: what read() throws for the first file. With kSkip: DataError if no file
  /// can be read.
  explicit ImageFolder(const std::string& root, const ImageFolderOptions& options = {});

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t label(int64_t i) const override { return files_[static_cast<size_t>(i)].label; }
  const std::string& path(int64_t i) const { return files_[static_cast<size_t>(i)].path; }
  std::string name(int64_t i) const override { return path(i); }
  const LeftOut& left_out() const { return left_out_; }
  const std::string& root() const { return root_; }
  /// Keeps only the samples `indices`, in this order, and all classes. The other files are not used
  /// to replace broken files either. Call keep() before any sample is read.
  /// throws: IndexError naming an index that is out of range. Nothing has changed then.
  void keep(const std::vector<int64_t>& indices);

  /// Replaces the transform. The first image determines the size of the results (the constructor
  /// says which image this is). If `transform` does not fit the first image:
  ///   - kRefuse: set_transform() throws a DataError naming the file.
  ///   - kSkip: the first image that `transform` fits determines the size. If it fits none,
  ///     set_transform() throws a DataError.
  ///   - kRefuseWhenRead: the size is that of a transformed image of 1 x 1.
  /// throws: DataError as above; what Transform::output throws. Then the old transform stays.
  void set_transform(const Transform& transform) override;

  /// Decodes the image at full size, without scaled_decoding.
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;
  bool has_one_size() const override { return false; }  // unknown: the files were not read

  /// The files that were found broken so far when samples were read, in order. With
  /// BrokenImage::kSkip other files were read in their place.
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
///   left_out  if not null, gets the counts of the other files
/// throws: FileError for a folder that cannot be read; DataError if folders are nested too deeply.
LATHE_API std::vector<std::string> images_below(const std::string& folder,
                                                LeftOut* left_out = nullptr);

}  // namespace lathe::data
