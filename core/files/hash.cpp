// The padding that SHA-256 and MD5 share, and the rounds of each.
#include "lathe/core/files/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "lathe/core/files/file.h"

namespace lathe {

namespace hash_detail {

void BlockHash::update(const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  bytes_ += bytes;
  while (bytes > 0) {
    if (buffered_ == 0 && bytes >= sizeof buffer_) {
      block(at);
      at += sizeof buffer_;
      bytes -= sizeof buffer_;
      continue;
    }
    const size_t taken = std::min(bytes, sizeof buffer_ - buffered_);
    std::memcpy(buffer_ + buffered_, at, taken);
    buffered_ += taken;
    at += taken;
    bytes -= taken;
    if (buffered_ == sizeof buffer_) {
      block(buffer_);
      buffered_ = 0;
    }
  }
}

void BlockHash::finish(bool big_endian_length) {
  const uint64_t bits = bytes_ * 8;
  uint8_t tail[72] = {0x80};
  const size_t zeros_end = (buffered_ < 56 ? 56 : 120) - buffered_;  // the length ends a block
  for (size_t i = 0; i < 8; ++i) {
    tail[zeros_end + i] = static_cast<uint8_t>(bits >> 8 * (big_endian_length ? 7 - i : i));
  }
  update(tail, zeros_end + 8);
}

}  // namespace hash_detail

namespace {

template <size_t N>
std::string to_hex(const std::array<uint32_t, N>& words, bool big_endian) {
  std::string text;
  for (const uint32_t word : words) {
    for (int i = 0; i < 4; ++i) {
      const uint32_t byte = word >> 8 * (big_endian ? 3 - i : i) & 0xff;
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  }
  return text;
}

// Fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kSha256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// floor(2^32 * |sin(i + 1)|)
constexpr uint32_t kMd5[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

constexpr int kMd5Shift[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

template <class Hash>
std::string hex_of_file(const std::string& path) {
  constexpr int64_t kPiece = 1 << 18;
  const InputFile file(path);
  const auto piece = std::make_unique<char[]>(kPiece);
  Hash hash;
  for (int64_t at = 0; at < file.size(); at += kPiece) {
    const int64_t bytes = std::min(kPiece, file.size() - at);
    file.read(piece.get(), bytes, at);
    hash.update(piece.get(), static_cast<size_t>(bytes));
  }
  return hash.hex();
}

template <class Hash>
std::string hex_of_text(std::string_view text) {
  Hash hash;
  hash.update(text);
  return hash.hex();
}

}  // namespace

void Sha256::block(const uint8_t* data) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{data[4 * i]} << 24 | uint32_t{data[4 * i + 1]} << 16 |
           uint32_t{data[4 * i + 2]} << 8 | data[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t choice = (e & f) ^ (~e & g);
    const uint32_t t1 = h + s1 + choice + kSha256[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + s0 + majority;
  }
  const uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

void Md5::block(const uint8_t* data) {
  uint32_t m[16];
  for (int i = 0; i < 16; ++i) {
    m[i] = uint32_t{data[4 * i]} | uint32_t{data[4 * i + 1]} << 8 |
           uint32_t{data[4 * i + 2]} << 16 | uint32_t{data[4 * i + 3]} << 24;
  }
  auto [a, b, c, d] = state_;
  for (int i = 0; i < 64; ++i) {
    const int round = i / 16;
    const uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                           : round == 1 ? (d & b) | (~d & c)
                           : round == 2 ? b ^ c ^ d
                                        : c ^ (b | ~d);
    const int word = round == 0 ? i : round == 1 ? 5 * i + 1 : round == 2 ? 3 * i + 5 : 7 * i;
    const uint32_t sum = a + mixed + kMd5[i] + m[word % 16];
    a = d, d = c, c = b;
    b += std::rotl(sum, kMd5Shift[round][i % 4]);
  }
  const uint32_t add[4] = {a, b, c, d};
  for (size_t i = 0; i < 4; ++i) state_[i] += add[i];
}

std::string Sha256::hex() {
  finish(true);
  return to_hex(state_, true);
}

std::string Md5::hex() {
  finish(false);
  return to_hex(state_, false);
}

std::string sha256_hex(std::string_view text) { return hex_of_text<Sha256>(text); }
std::string md5_hex(std::string_view text) { return hex_of_text<Md5>(text); }
std::string sha256_hex_of_file(const std::string& path) { return hex_of_file<Sha256>(path); }
std::string md5_hex_of_file(const std::string& path) { return hex_of_file<Md5>(path); }

}  // namespace lathe
