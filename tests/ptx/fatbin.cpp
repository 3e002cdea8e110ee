// See fatbin.h.
#include "fatbin.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lathe/core/error.h"

namespace lathe::ptx {

namespace {

struct Wrapper {
  uint32_t magic, version;
  const char* data;
};
struct Header {
  uint32_t magic;
  uint16_t version, bytes;
  uint64_t content_bytes;
};
struct Entry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, unknown[5];
  uint64_t flags, also_unknown;
  uint64_t uncompressed_bytes;
};
static_assert(offsetof(Entry, flags) == 40 && offsetof(Entry, uncompressed_bytes) == 56);

constexpr uint32_t kWrapperMagic = 0x466243b1, kHeaderMagic = 0xba55ed50;
constexpr uint16_t kPtx = 1;
constexpr uint64_t kZstandard = 0x8000, kAnyCompression = 0xf000;

std::string decompress(const char* from, size_t bytes, size_t made_bytes) {
  using Decompress = size_t (*)(void* to, size_t to_bytes, const void* from, size_t from_bytes);
  static const auto call = [] {
    void* library = dlopen("libzstd.so.1", RTLD_NOW);
    return library == nullptr ? nullptr
                              : reinterpret_cast<Decompress>(dlsym(library, "ZSTD_decompress"));
  }();
  LATHE_CHECK(StateError, call != nullptr,
              "ptx: the PTX is compressed, and there is no libzstd.so.1");
  std::string made(made_bytes, '\0');
  const size_t got = call(made.data(), made.size(), from, bytes);
  LATHE_CHECK(ValueError, got == made_bytes, "ptx: ", made_bytes,
              " bytes of PTX do not come out of the object file");
  return made;
}

}  // namespace

std::string ptx_of(const void* wrapper) {
  const auto& outer = *static_cast<const Wrapper*>(wrapper);
  const auto& header = *reinterpret_cast<const Header*>(outer.data);
  LATHE_CHECK(ValueError, outer.magic == kWrapperMagic && header.magic == kHeaderMagic,
              "ptx: this is not device code of nvcc's");
  const char* at = outer.data + header.bytes;
  for (const char* end = at + header.content_bytes; at < end;) {
    Entry entry;
    std::memcpy(&entry, at, sizeof entry);
    const char* content = at + entry.header_bytes;
    at = content + entry.bytes;
    if (entry.kind != kPtx) continue;
    const uint64_t compression = entry.flags & kAnyCompression;
    if (compression == kZstandard) {
      return decompress(content, entry.compressed_bytes, entry.uncompressed_bytes);
    }
    LATHE_CHECK(ValueError, compression == 0, "ptx: compressed in an unknown way: flags ",
                entry.flags);
    return std::string(content, strnlen(content, entry.bytes));
  }
  LATHE_FAIL(ValueError, "ptx: the device code holds no PTX (an architecture like 90-real)");
}

}  // namespace lathe::ptx
