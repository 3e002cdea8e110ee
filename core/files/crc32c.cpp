// CRC-32C by SSE 4.2's instruction where the processor has it, else by tables (crc_slicing.h).
#include "lathe/core/files/crc32c.h"

#include "lathe/core/files/crc_slicing.h"

#if defined(__x86_64__)  // the processor has an instruction for this polynomial
#  include <nmmintrin.h>
#endif

namespace lathe {

namespace {

#if defined(__x86_64__)

[[gnu::target("sse4.2")]] uint32_t crc_by_instruction(const void* data, size_t bytes,
                                                      uint32_t before) noexcept {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t crc = static_cast<uint32_t>(~before);
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto rest = static_cast<uint32_t>(crc);
  for (; bytes > 0; --bytes, ++p) rest = _mm_crc32_u8(rest, *p);
  return ~rest;
}

bool has_instruction() noexcept {
  static const bool has = __builtin_cpu_supports("sse4.2");
  return has;
}

#endif

}  // namespace

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) noexcept {
#if defined(__x86_64__)
  if (has_instruction()) return crc_by_instruction(data, bytes, before);
#endif
  return crc_detail::crc32c_by_slicing(data, bytes, before);
}

}  // namespace lathe
