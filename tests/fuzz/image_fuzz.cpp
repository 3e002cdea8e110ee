// JPEG, PNG and WebP files, whole and made smaller.
#include <algorithm>
#include <string_view>

#include "lathe/data/images/image_file.h"
#include "lathe/tests/data/golden_image_kinds.h"
#include "lathe/tests/data/golden_images.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

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

constexpr int64_t kPixels = 1 << 16, kChannels = 3;

// What libwebp allocates for prefix codes before it has read them: see decode.h.
int64_t code_tables(const std::string& bytes) {
  constexpr int64_t kMostTable = 20 << 10, kMostGroups = std::max<int64_t>(1000, kPixels / 16);
  return bytes.compare(0, 4, "RIFF") == 0 ? kMostTable * kMostGroups : 0;
}

void feed(const std::string& bytes) {
  const std::string path = file_of(bytes);
  const int64_t size = static_cast<int64_t>(bytes.size()) + kPixels * kChannels;
  check_allocations(size + code_tables(bytes) / 4, [&] {
    data::ImageFile image;
    image.open(path, {.file_bytes = 1 << 20, .pixels = kPixels});
    for (const double detail : {1.0, 0.25}) image.decode(detail);
  });
}

const Target target("image", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
