// CRC-32C; see crc32c.h.
#include "lathe/core/crc32c.h"

#include "lathe/core/crc_slicing.h"

namespace lathe {

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) noexcept {
  constexpr uint32_t kPolynomial = 0x82F63B78u;  // 0x1EDC6F41 with its bits reversed
  return crc_detail::crc_by_slicing<kPolynomial>(data, bytes, before);
}

}  // namespace lathe
