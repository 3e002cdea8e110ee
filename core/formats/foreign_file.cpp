// check_not_foreign(): a table of first bytes, and what is known of text.
#include "lathe/core/formats/foreign_file.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors_header.h"

namespace lathe {

namespace {

using namespace std::string_view_literals;

struct Mark {
  std::string_view first, is;
};
constexpr Mark kMarks[] = {
    {"\x93NUMPY"sv, "is a single array without a name (.npy), not a file of weights"},
    {"\xff\xd8\xff"sv, "is an image (JPEG), not a file of weights"},
    {"\x89PNG"sv, "is an image (PNG), not a file of weights"},
    {"\x89HDF\r\n\x1a\n"sv,
     "is an HDF5 file (Keras), which is not read; save the arrays as .npz or .safetensors, under "
     "the model's names"},
    {"\x1f\x8b"sv, "is compressed with gzip; unpack it first"},
    {"BZh"sv, "is compressed with bzip2; unpack it first"},
    {"\xfd\x37zXZ"sv, "is compressed with xz; unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, "is compressed with zstd; unpack it first"},
    {"7z\xbc\xaf\x27\x1c"sv, "is an archive (7z); unpack it first"},
    {"Rar!\x1a"sv, "is an archive (RAR); unpack it first"},
    {"GGUF"sv, "is a GGUF file (llama.cpp), which is not read"},
    {"version https://git-lfs"sv,
     "is a pointer of Git LFS, which stands for the file; `git lfs pull` fetches it"},
};

/// Letters of any language, spaces and line ends. None of the formats begins with so many of them.
bool is_text(std::string_view first) {
  constexpr size_t kLeast = 9, kLooked = 64;
  return first.size() >= kLeast && std::ranges::all_of(first.substr(0, kLooked), [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return (byte >= ' ' && byte != 0x7f) || c == '\t' || c == '\r' || c == '\n';
         });
}

/// The first line that has something in it.
std::string_view first_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text.substr(0, std::min(text.find_first_of("\r\n"), text.size()));
}

bool is_html(std::string_view line) {
  const auto begins = [&](std::string_view word) {
    return std::ranges::equal(line.substr(0, word.size()), word, [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    });
  };
  return begins("<!doctype html") || begins("<html");
}

}  // namespace

void check_not_foreign(std::string_view first, std::string_view file) {
  LATHE_CHECK(DataError, !first.empty(), file, ": is empty; fetch or save it again");
  const auto* const mark =
      std::ranges::find_if(kMarks, [&](const Mark& m) { return first.starts_with(m.first); });
  LATHE_CHECK(DataError, mark == std::end(kMarks), file, ": ", mark->is);
  if (!is_text(first)) return;
  const std::string_view line = first_line(first);
  LATHE_CHECK(
      DataError, !is_html(line), file,
      ": is a web page (HTML), which a server gave in place of the file, for example because "
      "it asks for a sign-in");
  LATHE_FAIL(DataError, file, ": is text, not a file of weights; it begins with ",
             safetensors::in_quotes(line));
}

}  // namespace lathe
