// The IDX format of MNIST and Fashion-MNIST, plain or gzip. The data sets over it are in
// image_datasets.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_set.h"

namespace lathe::data {

/// An IDX array of unsigned bytes.
struct IdxArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> values;
};

/// Reads an IDX file: bytes 0 0, the type (only 8, unsigned byte, is supported), the number of
/// dimensions, each dimension as 4 bytes big-endian, then the values and nothing after them. The
/// declared size is checked against the file's size and against `limit_bytes` before memory is
/// allocated for it.
/// throws: DataError naming file and value; FileError.
LATHE_API IdxArray read_idx(const std::filesystem::path& path, int64_t dims,
                            int64_t limit_bytes = int64_t{1} << 31);

/// Images [n, height, width] and labels [n] below `classes` from a pair of IDX files, as [n, 1,
/// height, width].
/// throws: DataError naming file, record and value; FileError.
LATHE_API ImageSet read_idx_images(const std::filesystem::path& images,
                                   const std::filesystem::path& labels, int64_t classes);

}  // namespace lathe::data
