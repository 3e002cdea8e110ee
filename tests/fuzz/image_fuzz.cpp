// JPEG, PNG and WebP files, whole and made smaller.
#include <string_view>

#include "lathe/data/images/image_file.h"
#include "lathe/tests/data/golden_image_kinds.h"
#include "lathe/tests/data/golden_images.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/fuzz.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  for (const auto& g : data::golden::kImages)
    files.emplace_back(reinterpret_cast<const char*>(g.bytes), static_cast<size_t>(g.size));
  for (const auto& g : data::golden::kImageKinds) {
    const std::string_view name = g.name;
    if (name.starts_with("kWebp") || name == "kJpegScans")
      files.emplace_back(reinterpret_cast<const char*>(g.bytes), static_cast<size_t>(g.size));
  }
  return files;
}

void feed(const std::string& bytes) {
  constexpr int64_t kPixels = 1 << 16, kChannels = 3;
  const std::string path = file_of(bytes);
  check_allocations(static_cast<int64_t>(bytes.size()) + kPixels * kChannels, [&] {
    data::ImageFile image;
    image.open(path, {.file_bytes = 1 << 20, .pixels = kPixels});
    for (const double detail : {1.0, 0.25}) image.decode(detail);
  });
}

}  // namespace lathe::fuzz
