// JPEG and PNG files, whole and made smaller.
#include "lathe/data/image_file.h"
#include "lathe/tests/data/golden_images.h"
#include "lathe/tests/fuzz/fuzz.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  for (const auto& g : data::golden::kImages)
    files.emplace_back(reinterpret_cast<const char*>(g.bytes), static_cast<size_t>(g.size));
  return files;
}

void feed(const std::string& bytes) {
  data::ImageFile image;
  image.open(file_of(bytes), {.file_bytes = 1 << 20, .pixels = 1 << 16});
  for (const double detail : {1.0, 0.25}) image.decode(detail);
}

}  // namespace lathe::fuzz
