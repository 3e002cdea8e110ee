// ImageDataset, the base of all data sets of labelled images, and the data sets in memory:
// CIFAR-10, CIFAR-100, MNIST, Fashion-MNIST and a synthetic one. A sample is x = the transformed
// image [C,H,W] and y = its class, i64.
#pragma once

#include <cstdint>
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

  /// Writes the bytes of image i, without the transform, to `pixels`.
  /// throws: what read() throws.
  virtual StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const = 0;

  /// The name of image i in error messages.
  virtual std::string name(int64_t i) const { return "image " + std::to_string(i); }

  /// The files found broken so far. Some data sets replace them (BrokenImage::kSkip).
  virtual std::vector<std::string> broken() const { return {}; }

  /// Size and type of the first image before the transform.
  const ImageSpec& stored_spec() const { return stored_; }
  /// True if all images have the size of the first one. If false, the transform must make images of
  /// one size.
  virtual bool has_one_size() const { return true; }

  /// The sizes of a sample after the transform.
  int64_t channels() const { return output_.channels; }
  int64_t height() const { return output_.height; }
  int64_t width() const { return output_.width; }
  int64_t classes() const { return static_cast<int64_t>(class_names_.size()); }
  const std::vector<std::string>& class_names() const { return class_names_; }
  /// Mean and standard deviation of each channel, for pixels x / 255 before the transform: the
  /// arguments of normalize().
  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& std() const { return std_; }
  virtual int64_t label(int64_t i) const = 0;

  const Transform& transform() const { return transform_; }
  /// throws: what Transform::output throws. The old transform stays then.
  virtual void set_transform(const Transform& transform);

 protected:
  ImageDataset(ImageSpec stored, std::vector<std::string> class_names, std::vector<double> mean,
               std::vector<double> std);

  /// Writes image i, transformed, to `out`.   → its class
  virtual int64_t read_image(int64_t i, Key key, void* out) const = 0;
  /// read_image() of another data set, for data sets that wrap another one.
  static int64_t read_image_of(const ImageDataset& other, int64_t i, Key key, void* out) {
    return other.read_image(i, key, out);
  }

  /// Transforms an image with stored_spec().
  void transform(const uint8_t* image, Key key, void* out) const {
    transform_.apply(image, stored_, key, out);
  }
  /// Transforms an image of any size. name() is the image's name in errors.
  /// throws: what output_of() throws; DataError if the result has another size than that of the
  /// first image.
  void transform(const uint8_t* image, const ImageSpec& spec, Key key, void* out,
                 FunctionRef<std::string()> name) const;
  /// The ImageSpec that the transform makes from an image of `spec`.
  /// throws: DataError with name() if the transform does not fit the image, for instance if the
  /// result would be too wide.
  ImageSpec output_of(const ImageSpec& spec, FunctionRef<std::string()> name) const;

  /// Changes stored_spec(). Call set_transform() next.
  void set_stored_spec(const ImageSpec& stored) { stored_ = stored; }

 private:
  ImageSpec stored_, output_;
  std::vector<std::string> class_names_;
  std::vector<double> mean_, std_;
  Transform transform_;
};

struct ImageOptions {
  bool train = true;         // false: the test images
  Transform transform = {};  // empty: bytes, u8
  // If larger than the images: black borders make them pad_to x pad_to when they are read.
  int64_t pad_to = 0;
  bool coarse = false;  // CIFAR-100 only: the labels are the 20 superclasses
};

/// A data set of images in memory. Copies of a StoredImages share the images.
class LATHE_API StoredImages : public ImageDataset {
 public:
  int64_t size() const override { return images_->count(); }
  int64_t label(int64_t i) const override { return images_->labels[static_cast<size_t>(i)]; }

  void prepare(int64_t i) const noexcept override;
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;
  /// All images, before the transform.
  const ImageSet& stored() const { return *images_; }

  /// Reads the data set `name` (cifar10, cifar100, mnist, fashion-mnist). `root` is the directory
  /// of the files, a directory above it, or empty for the usual places (require_dataset()).
  /// throws: ValueError for any other name; what Transform::output, read_cifar and read_idx_images
  /// throw.
  StoredImages(const std::string& name, const std::string& root, const ImageOptions& options = {});

  /// A data set of images that the caller gives.
  /// throws: DataError for a label that is not a class, or pixels that do not match the number of
  /// labels.
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
  explicit Cifar10(const std::string& root, const ImageOptions& options = {})
      : StoredImages("cifar10", root, options) {}
};
struct LATHE_API Cifar100 final : StoredImages {
  explicit Cifar100(const std::string& root, const ImageOptions& options = {})
      : StoredImages("cifar100", root, options) {}
};
struct LATHE_API Mnist final : StoredImages {
  explicit Mnist(const std::string& root, const ImageOptions& options = {})
      : StoredImages("mnist", root, options) {}
};
struct LATHE_API FashionMnist final : StoredImages {
  explicit FashionMnist(const std::string& root, const ImageOptions& options = {})
      : StoredImages("fashion-mnist", root, options) {}
};

/// A data set whose images are computed when they are read; see synthetic.h.
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
