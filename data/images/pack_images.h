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
  /// Makes images of side x side pixels: resize makes the shorter side this long, center_crop cuts
  /// the longer side. 0: images keep their sizes.
  int64_t side = 0;
  bool skip_broken = false;  // leave out images that cannot be read, instead of throwing
  std::function<void(int64_t done)> progress{};  // called now and then
};

/// Appends `images` to `out`, in order. Decodes them in parallel.
/// → for each image that was left out, a text saying why it is broken
/// throws: DataError for an image that cannot be read, unless options.skip_broken is set;
/// ValueError if PackedWriter::add refuses an image, or if an image has another number of channels
/// than `out`; FileError if the packed file cannot be written.
LATHE_API std::vector<std::string> pack_images(const ImageDataset& images, PackedWriter& out,
                                               const PackOptions& options = {});

}  // namespace lathe::data
