// Packed files made from the description in data/images/packed_file.h, byte by byte, and not by the code
// under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::data::testing {

/// CRC-32C from its definition, a bit at a time.
inline uint32_t slow_crc32c(std::string_view text) {
  uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

inline std::string little(uint64_t value, int bytes) {
  std::string text;
  for (int k = 0; k < bytes; ++k) text += static_cast<char>(value >> 8 * k);
  return text;
}

inline std::string little(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return little(bits, 8);
}

struct PackedImage {
  uint32_t height, width, label;
  std::string pixels;
};

constexpr size_t kPackedTailBytes = 48;

inline std::string packed_bytes(const std::vector<PackedImage>& images, size_t train_images,
                                const std::vector<std::string>& classes, uint32_t channels) {
  const std::string head("\x89LPK\r\n\x1a\n\1\0\0\0\0\0\0\0", 16);
  std::string pixels, table, values, names;
  for (const PackedImage& image : images) {
    pixels += image.pixels + '\xe5';
    table += little(image.height, 4) + little(image.width, 4) + little(image.label, 4) +
             little(slow_crc32c(image.pixels), 4);
  }
  for (uint32_t c = 0; c < channels; ++c) values += little(0.5 + c) + little(0.25);
  for (const std::string& name : classes) names += little(name.size(), 4) + name;
  const std::string counts = little(images.size(), 8) + little(train_images, 8) +
                             little(pixels.size(), 8) + little(names.size(), 8) +
                             little(classes.size(), 4) + little(channels, 4);
  const uint32_t crc = slow_crc32c(head + table + values + names + counts);
  return head + pixels + table + values + names + counts + little(crc, 4) + "LPKE";
}

/// The same bytes with the checksum that fits them, if their sizes leave room for one.
inline std::string with_right_checksum(std::string bytes) {
  if (bytes.size() < 16 + kPackedTailBytes) return bytes;
  const size_t tail = bytes.size() - kPackedTailBytes;
  uint64_t image_bytes = 0;
  for (size_t k = 8; k > 0; --k)
    image_bytes = image_bytes << 8 | static_cast<uint8_t>(bytes[tail + 16 + k - 1]);
  if (image_bytes > tail - 16) return bytes;
  const size_t directory = 16 + static_cast<size_t>(image_bytes);
  const std::string covered = bytes.substr(0, 16) + bytes.substr(directory, tail + 40 - directory);
  return bytes.replace(tail + 40, 4, little(slow_crc32c(covered), 4));
}

/// Two images for training, one for testing, of different sizes.
inline std::vector<PackedImage> three_images() {
  return {{2, 3, 1, "abcdefghijklmnopqr"}, {1, 2, 0, "012345"}, {2, 2, 1, std::string(12, '\0')}};
}

}  // namespace lathe::data::testing
