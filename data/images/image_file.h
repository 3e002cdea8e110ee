// One image file, JPEG, PNG or WebP by its first bytes, whatever its name. Internal to data/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "lathe/data/images/decode.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

struct ImageFileLimits {
  int64_t file_bytes = int64_t{1} << 28;
  // Rows times columns, for JPEG both rounded up to 32; checked before memory is allocated.
  int64_t pixels = 100'000'000;
};

/// Reads one file after another. Keeps its memory from file to file.
class ImageFile {
 public:
  /// Reads the file and its header.
  /// throws: FileError; DataError naming the file.
  void open(const std::filesystem::path& path, const ImageFileLimits& limits);

  /// [3,H,W], as the header says.
  const ImageSpec& spec() const { return spec_; }

  /// Decodes the file into pixels(): a JPEG file at a half, quarter or eighth of its size, the
  /// smallest that is still at least `detail` of it.   → the spec of the pixels
  /// throws: DataError naming the file.
  ImageSpec decode(double detail);

  const uint8_t* pixels() const { return pixels_.data(); }

 private:
  std::filesystem::path path_;
  std::vector<uint8_t> bytes_, pixels_;
  ImageSpec spec_;
  enum class Kind { kJpeg, kPng, kWebp } kind_ = Kind::kPng;
};

}  // namespace lathe::data
