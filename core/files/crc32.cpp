// CRC-32 by tables; the loop is in crc_slicing.h.
#include "lathe/core/files/crc32.h"

#include "lathe/core/files/crc_slicing.h"

namespace lathe {

uint32_t crc32(const void* data, size_t bytes, uint32_t before) noexcept {
  constexpr uint32_t kPolynomial = 0xEDB88320u;  // 0x04C11DB7 with its bits reversed
  return crc_detail::crc_by_slicing<kPolynomial>(data, bytes, before);
}

}  // namespace lathe
