#include "files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace lathe::data::testing {
namespace {

namespace fs = std::filesystem;

void append_little_endian(std::string& out, uint32_t value, int bytes) {
  for (int k = 0; k < bytes; ++k) out += static_cast<char>(value >> (8 * k));
}

uint32_t crc32(const std::string& bytes) {  // bit by bit, polynomial 0xEDB88320
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

}  // namespace

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "lathe-data-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp: " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read_file(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void write_sparse_file(const fs::path& path, uint64_t size) {
  write_file(path, "");
  fs::resize_file(path, size);
}

void patch_file(const fs::path& path, uint64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string gzip(const std::string& content) {
  std::string out("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", 10);
  size_t at = 0;
  do {
    const size_t count = std::min<size_t>(content.size() - at, 0xffff);
    out += at + count == content.size() ? '\1' : '\0';  // final block?, stored
    append_little_endian(out, static_cast<uint32_t>(count), 2);
    append_little_endian(out, static_cast<uint32_t>(~count), 2);
    out += content.substr(at, count);
    at += count;
  } while (at < content.size());
  append_little_endian(out, crc32(content), 4);
  append_little_endian(out, static_cast<uint32_t>(content.size()), 4);
  return out;
}

std::string idx(const std::vector<int64_t>& shape, const std::string& values) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const int64_t size : shape)
    for (int k = 3; k >= 0; --k) out += static_cast<char>(size >> (8 * k));
  return out + values;
}

std::string tar(const std::vector<TarEntry>& entries) {
  std::string out;
  for (const auto& entry : entries) {
    std::string header(512, '\0');
    const auto put = [&](size_t at, const std::string& text) {
      header.replace(at, text.size(), text);
    };
    char size[12];
    std::snprintf(size, sizeof size, "%011zo", entry.content.size());
    put(0, entry.name);
    put(100, "0000644");
    put(124, size);
    put(156, std::string(1, entry.type));
    put(257, std::string("ustar\00000", 8));
    put(148, "        ");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    char checksum[8];
    std::snprintf(checksum, sizeof checksum, "%06o", sum);
    put(148, std::string(checksum, 7) + ' ');
    out += header + entry.content + std::string((512 - entry.content.size() % 512) % 512, '\0');
  }
  return out + std::string(1024, '\0');
}

}  // namespace lathe::data::testing
