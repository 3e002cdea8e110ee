// pack_images(): fills a packed file (packed_file.h) from another data set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/images/packed_file.h"

namespace lathe::data {

struct PackOptions {
  /// Makes images this large both ways: resize brings the shorter side to it, center_crop cuts the
  /// longer one. 0: they keep their sizes.
  int64_t side = 0;
  bool skip_broken = false;  // leave out images that cannot be read, instead of throwing
  std::function<void(int64_t done)> progress{};  // called now and then
};

/// Appends `images` to `out`, in order; they are decoded in parallel.
/// → why each image that was left out is broken
/// throws: DataError for an image that cannot be read; ValueError for what PackedWriter::add
/// refuses and for an image with other channels than `out` was made for; FileError if the packed
/// file cannot be written.
LATHE_API std::vector<std::string> pack_images(const ImageDataset& images, PackedWriter& out,
                                               const PackOptions& options = {});

}  // namespace lathe::data
