// Raw deflate (RFC 1951), the compression inside zip archives, in both directions. Defined in
// deflate_zlib.cpp or, in a build without zlib, in deflate_none.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// The most bytes that one compressed byte can give: deflate codes at most 258 bytes in 2 bits.
inline constexpr int64_t kBestDeflateRatio = 1032;

/// The most bytes that a reader accepts from `packed` deflated bytes. Real content stays far below:
/// weights shrink by a tenth, images by half; content up to 64 MiB, such as a mask of zeros, may
/// shrink by any ratio.
constexpr int64_t inflate_limit(int64_t packed) {
  constexpr int64_t kAlways = int64_t{64} << 20, kRatio = 32;
  if (packed <= kAlways / (kBestDeflateRatio - kRatio)) return packed * kBestDeflateRatio;
  return packed > (INT64_MAX - kAlways) / kRatio ? INT64_MAX : kAlways + kRatio * packed;
}

/// False in a build without zlib.
LATHE_API bool deflate_available();

/// Inflates from front to back.
class LATHE_API Inflater {
 public:
  /// Gives the next compressed bytes, empty at their end. They must stay valid until the next call.
  using Next = std::function<std::span<const std::byte>()>;

  virtual ~Inflater() = default;

  /// Writes up to `bytes` bytes and returns how many; fewer only at the end of the data.
  /// throws: DataError that names the file, for truncated or damaged data.
  virtual size_t read(void* to, size_t bytes) = 0;

  /// True once the data's own end mark was read and no compressed byte is left.
  virtual bool at_end() = 0;
};

/// An Inflater of what `next` gives; `what` names the data in messages.
/// throws: DataError in a build without zlib, OutOfMemoryError.
LATHE_API std::unique_ptr<Inflater> inflate(Inflater::Next next, std::string what);

/// The parts one after another, deflated at zlib's default level.
/// throws: ValueError in a build without zlib, OutOfMemoryError.
LATHE_API std::string deflate(std::span<const std::string_view> parts);

}  // namespace lathe
