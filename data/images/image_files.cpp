// ImageFiles: reading one file into a sample, and what becomes of a broken one.
#include "lathe/data/images/image_files.h"

#include <algorithm>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/data/images/image_file.h"

namespace lathe::data {

ImageFiles::ImageFiles(std::vector<std::string> files, const ImageFilesOptions& options)
    : files_(std::move(files)),
      options_(options),
      made_(options.transform.output({3, 1, 1, kU8})),
      errors_(files_.size()) {}

SampleSpec ImageFiles::spec() const {
  const int64_t channels = options_.one_channel ? 1 : made_.channels;
  return {{{"x", {channels, made_.height, made_.width}, made_.dtype}, {"y", {}, kI64}}};
}

void ImageFiles::read(int64_t i, Key key, Slot out) const {
  thread_local ImageFile image;
  thread_local std::vector<std::byte> planes;
  const auto to = out.bytes(0);
  const auto fail = [&](const Error& error) {
    std::ranges::fill(to, std::byte{0});
    errors_[static_cast<size_t>(i)] = error.message();
    out.set<int64_t>(1, -1);
  };
  try {
    image.open(path(i), {.pixels = options_.limit_pixels});
    const ImageSpec spec = image.decode(options_.transform.detail(image.spec(), key));
    LATHE_CHECK(DataError, options_.transform.output(spec) == made_, path(i),
                ": the transform gives this image another size than ", made_.height, "x",
                made_.width);
    planes.resize(static_cast<size_t>(made_.pixels()) * size_of(made_.dtype));
    options_.transform.apply(image.pixels(), spec, key, planes.data());
    std::memcpy(to.data(), planes.data(), to.size());
    out.set<int64_t>(1, i);
  } catch (const DataError& error) {
    fail(error);
  } catch (const FileError& error) {
    fail(error);
  } catch (const ShapeError& error) {  // the transform does not take it: 1 x 400 pixels
    fail(error);
  }
}

}  // namespace lathe::data
