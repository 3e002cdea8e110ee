// A data set: images of bytes with labels, from IDX files or made up.
#pragma once

#include <fstream>
#include <iterator>

#include "random.h"

namespace tiny {

struct Dataset {
  int64_t height = 0, width = 0, classes = 10;
  std::vector<uint8_t> pixels = {};  // one image after the other, row by row
  std::vector<uint8_t> labels = {};
  double mean = 0, deviation = 1;  // of pixels / 255: subtracted, and divided by
  int64_t size() const { return labels.size(); }
};

struct IdxArray {
  Shape shape;
  std::vector<uint8_t> values;
};

/// An IDX file is two zeros, the type (8: bytes), the number of dimensions, each size in four bytes
/// with the highest first, and the values.
/// throws: DataError naming the file if that is not what it holds, with `ndim` dimensions.
inline IdxArray read_idx(const std::string& path, size_t ndim) {
  std::ifstream file(path, std::ios::binary);
  check<DataError>(file.is_open(), path, ": cannot be opened");
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  const size_t header = 4 + 4 * ndim;
  check<DataError>(
      bytes.size() >= header && bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 8 && bytes[3] == ndim,
      path, ": is no IDX file of bytes with ", ndim, " dimensions");
  IdxArray out;
  for (size_t at = 4; at < header; at += 4)
    out.shape.push_back(int64_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 |
                        bytes[at + 3]);
  out.values.assign(bytes.begin() + header, bytes.end());
  check<DataError>(std::ssize(out.values) == numel_of(out.shape), path, ": has ", out.values.size(),
                   " values for the shape ", out.shape);
  return out;
}

/// Fashion-MNIST: `part` is "train" or "t10k".
/// throws: DataError naming the file.
inline Dataset read_fashion_mnist(const std::string& folder, const std::string& part) {
  IdxArray images = read_idx(folder + "/" + part + "-images-idx3-ubyte", 3);
  IdxArray labels = read_idx(folder + "/" + part + "-labels-idx1-ubyte", 1);
  check<DataError>(images.shape[0] == labels.shape[0], folder, ": ", images.shape[0], " images of ",
                   part, " have ", labels.shape[0], " labels");
  return {.height = images.shape[1],
          .width = images.shape[2],
          .pixels = std::move(images.values),
          .labels = std::move(labels.values),
          .mean = 0.2860,  // measured on the training images
          .deviation = 0.3530};
}

/// Where there is no data set: noise with a bright square of 8 x 8 at one of ten places, its class.
inline Dataset made_up_images(int64_t size, uint64_t seed) {
  constexpr int64_t kSide = 28;
  Dataset set{.height = kSide, .width = kSide, .mean = 0.3, .deviation = 0.2};
  for (int64_t i = 0; i < size; ++i) {
    Random random(seed, 0, i, 0);
    const int64_t label = random.below(10);
    const int64_t top = 2 + label / 5 * 13 + random.below(3),
                  left = 1 + label % 5 * 4 + random.below(3);
    for (int64_t h = 0; h < kSide; ++h)
      for (int64_t w = 0; w < kSide; ++w) {
        const bool inside = h >= top && h < top + 8 && w >= left && w < left + 8;
        set.pixels.push_back(static_cast<uint8_t>((inside ? 60 : 0) + random.below(160)));
      }
    set.labels.push_back(static_cast<uint8_t>(label));
  }
  return set;
}

}  // namespace tiny

// What the real one adds, and why
// - data/images/idx.h reads compressed files and believes no size before it has compared it with
//   the file's. data/images/fetch.h downloads data sets and checks their sums.
// - data/transforms/ changes images at random. Each draw is a function of (seed, epoch, image).
