// Single image files of every kind. The oracle is Pillow (golden_image_kinds.py).
#include "lathe/data/images/image_file.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "files.h"
#include "golden_image_kinds.h"
#include "hash_image.h"
#include "lathe/core/error.h"
#include "lathe/data/images/decode.h"

namespace lathe::data {
namespace {

using testing::fnv;
using testing::message_of;
using testing::TempDir;
using testing::write_file;

TEST_CASE("image file: every kind of PNG, JPEG and WebP decodes to Pillow's pixels") {
  const TempDir dir;
  for (const auto& g : golden::kImageKinds) {
    CAPTURE(std::string(g.name));
    write_file(dir / "image", {reinterpret_cast<const char*>(g.bytes), size_t(g.size)});
    ImageFile file;
    const std::string why = message_of<DataError>([&] { file.open(dir / "image", {}); });
    if (why.find("build again") != std::string::npos) continue;  // without its decoder
    CHECK(why == "");
    CHECK(file.spec() == ImageSpec{3, golden::kKindHeight, golden::kKindWidth});
    const ImageSpec spec = file.decode(1);
    CHECK(spec == file.spec());
    CHECK(fnv({file.pixels(), file.pixels() + spec.pixels()}) == g.pixels);
  }
}

// Every cut, and every byte changed: an error that names the file, or pixels; never a crash.
TEST_CASE("image file: a PNG file that is cut off or damaged is refused by name or read") {
  for (const auto& g : golden::kImageKinds) {
    const std::string_view name = g.name;
    if (name != "kPngInterlaced16" && name != "kPngTransparentPalette") continue;
    CAPTURE(std::string(name));
    const std::vector<uint8_t> whole(g.bytes, g.bytes + g.size);
    const auto outcome = [](const std::vector<uint8_t>& bytes) {
      std::vector<uint8_t> pixels;
      return message_of<DataError>([&] { decode_png(bytes, "dog.png", pixels); });
    };
    if (outcome(whole).find("build again") != std::string::npos) return;
    CHECK(outcome(whole) == "");
    constexpr size_t kEnd = 12;  // of a file: without it all pixels are there
    for (size_t size = 8; size < whole.size() - kEnd; ++size) {
      CAPTURE(size);
      const std::string why = outcome({whole.begin(), whole.begin() + ptrdiff_t(size)});
      CHECK(why.starts_with("dog.png: is a damaged PNG file: "));
    }
    for (size_t at = 8; at < whole.size(); ++at) {
      CAPTURE(at);
      std::vector<uint8_t> damaged = whole;
      damaged[at] ^= 0x55;
      const std::string why = outcome(damaged);
      CHECK((why.empty() || why.starts_with("dog.png: is a damaged PNG file: ")));
    }
  }
}

TEST_CASE("image file: a JPEG file that is cut off anywhere is refused by name") {
  const TempDir dir;
  int files = 0;
  for (const auto& g : golden::kImageKinds) {
    const std::string_view whole(reinterpret_cast<const char*>(g.bytes), size_t(g.size));
    if (!whole.starts_with("\xff\xd8\xff")) continue;
    // Those that end in bytes which no pixel needs.
    const std::string_view name = g.name;
    if (name == "kJpegBytesBeforeEnd" || name == "kJpegZerosForEnd" || name == "kJpegWithoutEnd")
      continue;
    CAPTURE(std::string(name));
    // Of a file of several scans only the end marker says that no scan is missing.
    const size_t end = name == "kJpegScans" ? 0 : 2;
    for (size_t size = 3; size + end < whole.size(); size += size < 40 ? 1 : 7) {
      CAPTURE(size);
      write_file(dir / "dog.jpg", std::string(whole.substr(0, size)));
      ImageFile file;
      const std::string why = message_of<DataError>([&] {
        file.open(dir / "dog.jpg", {});
        CHECK(file.spec() == ImageSpec{3, golden::kKindHeight, golden::kKindWidth});
        file.decode(1);
      });
      if (why.find("build again") != std::string::npos) return;  // without its decoder
      CHECK(why.find("dog.jpg: is a damaged JPEG file: ") != std::string::npos);
    }
    ++files;
  }
  CHECK(files > 0);
}

TEST_CASE("image file: a WebP file that is cut off or damaged is refused by name or read") {
  for (const auto& g : golden::kImageKinds) {
    const std::string_view name = g.name;
    if (!name.starts_with("kWebp")) continue;
    CAPTURE(std::string(name));
    const std::vector<uint8_t> whole(g.bytes, g.bytes + g.size);
    const auto outcome = [](const std::vector<uint8_t>& bytes) {
      std::vector<uint8_t> pixels;
      return message_of<DataError>([&] { decode_webp(bytes, "dog.webp", pixels); });
    };
    if (outcome(whole).find("build again") != std::string::npos) return;
    CHECK(outcome(whole) == "");
    for (size_t size = 12; size < whole.size() - 1; ++size) {  // the last byte may be padding
      CAPTURE(size);
      const std::string why = outcome({whole.begin(), whole.begin() + ptrdiff_t(size)});
      CHECK(why.starts_with("dog.webp: is a damaged WebP file"));
    }
    for (size_t at = 12; at < whole.size(); ++at) {
      CAPTURE(at);
      std::vector<uint8_t> damaged = whole;
      damaged[at] ^= 0x55;
      const std::string why = outcome(damaged);
      CHECK((why.empty() || why.starts_with("dog.webp: is a")));
    }
  }
}

TEST_CASE("image file: an animated WebP file is refused by name") {
  // RIFF, WEBP, and a VP8X chunk for an animation of 3 x 2 pixels.
  const std::vector<uint8_t> animated = {'R', 'I', 'F', 'F', 22,  0,   0,  0, 'W', 'E',
                                         'B', 'P', 'V', 'P', '8', 'X', 10, 0, 0,   0,
                                         2,   0,   0,   0,   2,   0,   0,  1, 0,   0};
  const std::string why = message_of<DataError>([&] { webp_spec(animated, "dog.webp"); });
  if (why.find("build again") == std::string::npos)
    CHECK(why == "dog.webp: is an animated WebP file; only still images are read");
}

}  // namespace
}  // namespace lathe::data
