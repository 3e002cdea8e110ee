// Data sets of labelled images: CIFAR-10, CIFAR-100, MNIST, Fashion-MNIST and a synthetic one.
// A sample is x = the transformed image [C,H,W] and y = its class, i64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/function_ref.h"
#include "lathe/data/dataset.h"
#include "lathe/data/images/image_set.h"
#include "lathe/data/images/synthetic.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// An image before the transform.
struct StoredImage {
  ImageSpec spec;  // bytes
  int64_t label;
};

class LATHE_API ImageDataset : public Dataset {
 public:
  SampleSpec spec() const final;
  void read(int64_t i, Key key, Slot out) const final;

  /// Puts the bytes of image i, as they are before the transform, into `pixels`.
  /// throws: as read().
  virtual StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const = 0;

  /// Files that were found broken so far and, where the data set allows it, replaced by others.
  virtual std::vector<std::filesystem::path> broken() const { return {}; }

  /// Of the first image, before the transform.
  const ImageSpec& stored_spec() const { return stored_; }
  /// Are all images of that kind? Otherwise the transform must make images of one size.
  virtual bool has_one_size() const { return true; }

  /// Of a sample, after the transform.
  int64_t channels() const { return output_.channels; }
  int64_t height() const { return output_.height; }
  int64_t width() const { return output_.width; }
  int64_t classes() const { return static_cast<int64_t>(class_names_.size()); }
  const std::vector<std::string>& class_names() const { return class_names_; }
  /// Per channel, of x / 255 before the transform: what normalize wants.
  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& std() const { return std_; }
  virtual int64_t label(int64_t i) const = 0;

  const Transform& transform() const { return transform_; }
  /// throws: as Transform::output; the old transform then stays.
  void set_transform(const Transform& transform);

 protected:
  ImageDataset(ImageSpec stored, std::vector<std::string> class_names, std::vector<double> mean,
               std::vector<double> std);

  /// Writes image i, transformed, and returns its class.
  virtual int64_t read_image(int64_t i, Key key, void* out) const = 0;

  /// What becomes of bytes of the stored kind.
  void transform(const uint8_t* image, Key key, void* out) const {
    transform_.apply(image, stored_, key, out);
  }
  /// The same of an image of any size; name() is how errors call it.
  /// throws: DataError if the transform makes another size of it than of the first image.
  void transform(const uint8_t* image, const ImageSpec& spec, Key key, void* out,
                 FunctionRef<std::string()> name) const;

 private:
  ImageSpec stored_, output_;
  std::vector<std::string> class_names_;
  std::vector<double> mean_, std_;
  Transform transform_;
};

struct ImageOptions {
  bool train = true;         // false: the test images
  Transform transform = {};  // empty: bytes, u8
  int64_t pad_to =
      0;  // larger than the images: black borders make them pad_to x pad_to when they are read
  bool coarse = false;  // CIFAR-100 only: the 20 superclasses
};

/// Images in memory. Copies share them.
class LATHE_API StoredImages : public ImageDataset {
 public:
  int64_t size() const override { return images_->count(); }
  int64_t label(int64_t i) const override { return images_->labels[static_cast<size_t>(i)]; }

  void prepare(int64_t i) const noexcept override;
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;
  /// All images as they are stored, before the transform.
  const ImageSet& stored() const { return *images_; }

  /// The set `name` (cifar10, cifar100, mnist, fashion-mnist), searched as require_dataset does:
  /// `root` may be the directory of the files, a directory above it, or empty for the usual places.
  /// throws: DataError, FileError (as read_cifar, read_idx_images), ValueError.
  StoredImages(const std::string& name, const std::filesystem::path& root,
               const ImageOptions& options = {});

  /// Images that the caller has.
  /// throws: DataError for a label that is no class.
  StoredImages(ImageSet images, std::vector<std::string> class_names, std::vector<double> mean,
               std::vector<double> std, const Transform& transform = {});

 protected:
  int64_t read_image(int64_t i, Key key, void* out) const override {
    transform(images_->image(i), key, out);
    return label(i);
  }

 private:
  StoredImages(std::shared_ptr<const ImageSet> images, std::vector<std::string> class_names,
               std::vector<double> mean, std::vector<double> std, const Transform& transform);

  std::shared_ptr<const ImageSet> images_;
};

struct LATHE_API Cifar10 final : StoredImages {
  explicit Cifar10(const std::filesystem::path& root, const ImageOptions& options = {})
      : StoredImages("cifar10", root, options) {}
};
struct LATHE_API Cifar100 final : StoredImages {
  explicit Cifar100(const std::filesystem::path& root, const ImageOptions& options = {})
      : StoredImages("cifar100", root, options) {}
};
struct LATHE_API Mnist final : StoredImages {
  explicit Mnist(const std::filesystem::path& root, const ImageOptions& options = {})
      : StoredImages("mnist", root, options) {}
};
struct LATHE_API FashionMnist final : StoredImages {
  explicit FashionMnist(const std::filesystem::path& root, const ImageOptions& options = {})
      : StoredImages("fashion-mnist", root, options) {}
};

/// Images that are computed when they are read; see synthetic.h.
class LATHE_API Synthetic final : public ImageDataset {
 public:
  explicit Synthetic(const SyntheticOptions& options = {}, const Transform& transform = {});

  int64_t size() const override { return options_.size; }
  int64_t label(int64_t i) const override { return synthetic_label(options_, i); }
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;

 protected:
  int64_t read_image(int64_t i, Key key, void* out) const override;

 private:
  SyntheticOptions options_;
};

}  // namespace lathe::data
