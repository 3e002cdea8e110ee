// The tar reader: headers, members, and the extraction of the wanted ones.
// ref: POSIX.1-1988 ustar. GNU and pax extensions occur only in members that are skipped here.
#include "lathe/data/images/tar.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kChunk = size_t{1} << 18;

struct Header {
  std::string name;
  uint64_t size;
  char type;  // '0' or 0: a regular file
};

std::string text_field(const char* from, size_t bytes) {
  return std::string(from, strnlen(from, bytes));
}

/// An octal number, padded with spaces or zero bytes.
/// throws: DataError for anything else.
uint64_t octal(const char* from, size_t bytes, const std::string& where) {
  uint64_t value = 0;
  size_t digits = 0;
  for (size_t k = 0; k < bytes; ++k) {
    if (from[k] == ' ' && digits == 0) continue;
    if (from[k] == ' ' || from[k] == '\0') break;
    LATHE_CHECK(DataError, from[k] >= '0' && from[k] <= '7', where,
                ": has no octal number but byte ",
                static_cast<int>(static_cast<unsigned char>(from[k])));
    value = value * 8 + static_cast<uint64_t>(from[k] - '0');
    ++digits;
  }
  return value;
}

uint64_t checksum_of(const char* block) {
  uint64_t sum = 0;
  for (size_t k = 0; k < kBlock; ++k)
    sum += k >= 148 && k < 156 ? ' ' : static_cast<unsigned char>(block[k]);
  return sum;
}

/// Reads a tar stream member by member.
class TarReader {
 public:
  explicit TarReader(const std::filesystem::path& path) : path_(path), stream_(open_stream(path)) {}

  /// Goes to the next member. False at the end of the archive (a block of zeros).
  bool next(Header& header) {
    char block[kBlock];
    read_exact(*stream_, block, kBlock, path_, "a tar header");
    const std::string where = concat(path_.string(), ": tar header at byte ", at_);
    at_ += kBlock;
    if (std::all_of(block, block + kBlock, [](char c) { return c == '\0'; })) return false;
    LATHE_CHECK(DataError, octal(block + 148, 8, where) == checksum_of(block), where,
                " has the wrong checksum (is it a tar archive?)");
    header.name = text_field(block, 100);
    const std::string prefix = text_field(block + 345, 155);
    if (std::memcmp(block + 257, "ustar", 6) == 0 && !prefix.empty())
      header.name = prefix + "/" + header.name;
    header.size = octal(block + 124, 12, where);
    header.type = block[156];
    return true;
  }

  /// Passes the member's content to `take`, piece by piece.
  template <class Take>
  void content(const Header& header, std::vector<char>& buffer, Take take) {
    const uint64_t padded = round_up(header.size, kBlock);
    for (uint64_t done = 0; done < padded;) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(kChunk, padded - done));
      read_exact(*stream_, buffer.data(), count, path_, header.name.c_str());
      take(buffer.data(), static_cast<size_t>(std::min<uint64_t>(
                              count, header.size - std::min(done, header.size))));
      done += count;
    }
    at_ += padded;
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<ByteStream> stream_;
  uint64_t at_ = 0;
};

void check_member(const std::filesystem::path& archive, const Header& header,
                  const TarMember& member) {
  LATHE_CHECK(DataError, header.type == '0' || header.type == '\0', archive.string(), ": ",
              header.name, " is not a regular file (tar type ", header.type, ")");
  LATHE_CHECK(DataError, header.size <= member.limit_bytes, archive.string(), ": ", header.name,
              " has ", header.size, " bytes, more than the ", member.limit_bytes, " expected");
}

}  // namespace

void extract_tar(const std::filesystem::path& archive, const std::vector<TarMember>& wanted,
                 const std::function<bool()>& keep_going) {
  std::vector<const TarMember*> missing;
  missing.reserve(wanted.size());
  for (const TarMember& member : wanted) missing.push_back(&member);
  TarReader reader(archive);
  std::vector<char> buffer(kChunk);
  for (Header header; !missing.empty() && reader.next(header);) {
    const auto match = std::find_if(missing.begin(), missing.end(),
                                    [&](const TarMember* m) { return m->name == header.name; });
    std::optional<AtomicFile> out;
    if (match != missing.end()) {
      check_member(archive, header, **match);
      out.emplace((*match)->target.string());
    }
    reader.content(header, buffer, [&](const char* bytes, size_t count) {
      LATHE_CHECK(FileError, !keep_going || keep_going(), archive.string(),
                  ": unpacking was cancelled");
      if (out) out->write(bytes, count);
    });
    if (!out) continue;
    out->commit();
    missing.erase(match);
  }
  LATHE_CHECK(DataError, missing.empty(), archive.string(), ": has no ", missing[0]->name);
}

}  // namespace lathe::data
