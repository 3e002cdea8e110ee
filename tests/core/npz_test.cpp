// .npz files and the zip archives under them: round trips, archives written by hand, everything
// that must be refused. npz_python_test.py exchanges files with NumPy and Python's zipfile.
#include "lathe/core/formats/npz.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/files/crc32.h"
#include "lathe/core/formats/deflate.h"
#include "lathe/core/formats/npy.h"
#include "lathe/core/formats/zip.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;

std::string number(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xffu);
  return out;
}

/// An entry of an archive as the format's definition has it, with every field open to change.
struct RawEntry {
  std::string name, content;
  uint64_t method = 0, flags = 0;
  int64_t packed_bytes = -1, bytes = -1;  // -1: those of the content
  int64_t crc = -1;
  std::string local_extra = {}, central_extra = {};
  std::string local_name = {};  // where it differs
  int64_t begin = -1;           // of the local header, as the directory says
};

std::string archive_of(const std::vector<RawEntry>& entries, const std::string& comment = "") {
  std::string out, directory;
  for (const RawEntry& e : entries) {
    const auto size = static_cast<int64_t>(e.content.size());
    const std::string common =
        number(20, 2) + number(e.flags, 2) + number(e.method, 2) + number(0, 4) +
        number(static_cast<uint64_t>(e.crc < 0 ? crc32(e.content.data(), e.content.size()) : e.crc),
               4) +
        number(static_cast<uint64_t>(e.packed_bytes < 0 ? size : e.packed_bytes), 4) +
        number(static_cast<uint64_t>(e.bytes < 0 ? size : e.bytes), 4);
    const std::string local = e.local_name.empty() ? e.name : e.local_name;
    directory +=
        "PK\1\2" + number(20, 2) + common + number(e.name.size(), 2) +
        number(e.central_extra.size(), 2) + number(0, 8) + number(0, 2) +
        number(static_cast<uint64_t>(e.begin < 0 ? static_cast<int64_t>(out.size()) : e.begin), 4) +
        e.name + e.central_extra;
    out += "PK\3\4" + common + number(local.size(), 2) + number(e.local_extra.size(), 2) + local +
           e.local_extra + e.content;
  }
  const size_t begin = out.size();
  return out + directory + "PK\5\6" + number(0, 4) + number(entries.size(), 2) +
         number(entries.size(), 2) + number(directory.size(), 4) + number(begin, 4) +
         number(comment.size(), 2) + comment;
}

std::string array(const std::string& values) {
  const std::string literal = "{'descr': '|u1', 'fortran_order': False, 'shape': (" +
                              std::to_string(values.size()) + ",)}\n";
  return std::string("\x93NUMPY\1\0", 8) + number(literal.size(), 2) + literal + values;
}

StateDict parse(const std::string& bytes) {
  return npz::parse(std::as_bytes(std::span(bytes)), "x.npz");
}
std::string error_of(const std::string& bytes) {
  return message_of<DataError>([&] { parse(bytes); });
}

StateDict sample() {
  StateDict state;
  state.add("layer1.0.conv1.weight", tensor({{1.5f, -2.f, 0.f}, {3.f, 1e-40f, -0.f}}));
  state.add("half", tensor({1.0, 65504.0}, {.dtype = kF16}));
  state.add("none", zeros({3, 0}));
  state.add("n", tensor(int64_t{1} << 60));
  state.add("many", zeros({5000}));
  state.add("a name with \"quotes\" / and ünïcode", ones({2}, {.dtype = kBool}));
  state.add("t", transpose(arange(6).reshape({2, 3}), 0, 1));
  return state;
}

bool same(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  auto other = b.begin();
  for (const auto& [name, t] : a) {
    const auto& [other_name, u] = *other++;
    if (name != other_name || t.dtype() != u.dtype() || !(t.shape() == u.shape()) ||
        t.to_vector<double>() != u.to_vector<double>()) {
      return false;
    }
  }
  return true;
}

TEST_CASE("crc32: the published value, in one piece and in two") {
  CHECK(crc32("123456789", 9) == 0xCBF43926u);
  CHECK(crc32("6789", 4, crc32("12345", 5)) == 0xCBF43926u);
}

TEST_CASE("npz: stored and deflated archives bring back names, order and values") {
  const TempDir dir;
  const std::string plain = dir / "plain.npz", small = dir / "small.npz";
  npz::write(plain, sample());
  CHECK(same(npz::read(plain), sample()));
  const std::string bytes = data::testing::read_file(plain);
  npz::write(plain, sample());
  CHECK(data::testing::read_file(plain) == bytes);  // no clock in it
  npz::write(plain, {});
  CHECK(npz::read(plain).empty());
  if (!deflate_available()) {
    CHECK_THROWS_WITH_AS(npz::write(small, sample(), {.compress = true}),
                         doctest::Contains("this build has no zlib"), ValueError);
    return;
  }
  npz::write(small, sample(), {.compress = true});
  CHECK(same(npz::read(small), sample()));
  CHECK(data::testing::read_file(small).size() < bytes.size() / 5);  // "many" is 20,000 zeros
}

TEST_CASE("npz: names and dtypes that no archive can hold are refused, and the old file stays") {
  const TempDir dir;
  const std::string path = dir / "x.npz";
  npz::write(path, sample());
  for (const auto& [name, refusal] :
       {std::pair(std::string(""), " cannot be an array's name in "),
        {std::string("\xff"), " cannot be an array's name in "},
        {std::string("a\0b", 3), "a\\u0000b.npy\" cannot be an entry's name"},
        {std::string(65536, 'n'), "nnn\"… cannot be an entry's name"}}) {
    StateDict state;
    state.add(name, ones({1}));
    CHECK_THROWS_WITH_AS(npz::write(path, state), doctest::Contains(refusal), ValueError);
  }
  StateDict brain;
  brain.add("w", ones({1}, {.dtype = kBF16}));
  CHECK(message_of<DTypeError>([&] {
          npz::write(path, brain);
        }).find("entry \"w\": NumPy has no") != std::string::npos);
  CHECK(same(npz::read(path), sample()));
  CHECK(data::testing::names_in(dir.path()) == std::vector<std::string>{"x.npz"});
}

TEST_CASE("zip: zip64 fields are written where sizes ask for them, and read") {
  const TempDir dir;
  const std::string path = dir / "x.zip", content(300, 'c');
  for (const int64_t limit : {0, 1, 100, 301, 400, 1000}) {
    CAPTURE(limit);
    zip::Writer writer(path, {.zip64_from = limit});
    const std::string_view parts[] = {"ab", content};
    writer.add("first", parts);
    writer.add("second", std::span(parts, 1));
    writer.commit();
    const ByteSource source(path);
    const zip::Archive archive(source);
    REQUIRE(archive.entries().size() == 2);
    CHECK(zip::read_all(archive, *archive.find("first"), 1000) == "ab" + content);
    CHECK(zip::read_all(archive, *archive.find("second"), 1000) == "ab");
    CHECK(archive.find("third") == nullptr);
    CHECK(message_of<DataError>([&] {
            zip::read_all(archive, archive.entries()[0], 301);
          }).find("has 302 bytes, more than the limit of 301") != std::string::npos);
  }
}

TEST_CASE("npz: reads what others write: comments, extra fields, zip64 in one entry") {
  const std::string a = array("xyz");
  const std::string extra64 =
      number(1, 2) + number(16, 2) + number(a.size(), 8) + number(a.size(), 8);
  const StateDict got = parse(
      archive_of({{.name = "a.npy", .content = a, .local_extra = std::string("FB\4\0....", 8)},
                  {.name = "b.npy",
                   .content = a,
                   .packed_bytes = 0xffffffff,
                   .bytes = 0xffffffff,
                   .central_extra = std::string("XX\1\0.", 5) + extra64}},
                 "a comment"));
  CHECK(got.size() == 2);
  CHECK(got.at("a").to_vector<int>() == std::vector<int>{'x', 'y', 'z'});
  CHECK(got.at("b").shape() == Shape{3});
  CHECK(parse(archive_of({})).empty());
}

TEST_CASE("zip: a deflated entry whose sizes are both in its zip64 field") {
  if (!deflate_available()) return;
  const std::string a = array("xyz");
  // One stored block: 5 bytes more than what it holds, so that the two sizes differ.
  const std::string packed = "\1" + number(a.size(), 2) + number(0xffff - a.size(), 2) + a;
  const StateDict got =
      parse(archive_of({{.name = "a.npy",
                         .content = packed,
                         .method = 8,
                         .packed_bytes = 0xffffffff,
                         .bytes = 0xffffffff,
                         .crc = crc32(a.data(), a.size()),
                         .central_extra = number(1, 2) + number(16, 2) + number(a.size(), 8) +
                                          number(packed.size(), 8)}}));
  CHECK(got.at("a").to_vector<int>() == std::vector<int>{'x', 'y', 'z'});
}

TEST_CASE("zip: what deflated entries declare counts together") {
  // Each declares a little less than 1032 times its bytes, which deflate can reach.
  const std::string content(4'200'000, '\0');
  std::vector<RawEntry> entries;
  for (int i = 0; i < 5; ++i) {
    entries.push_back({.name = std::to_string(i) + ".npy",
                       .content = content,
                       .method = 8,
                       .bytes = 0xfffffffe,
                       .crc = 0});
  }
  const std::string text = error_of(archive_of(entries));
  CHECK_MESSAGE(
      text.find("its deflated entries declare 21474836470 bytes; of the 21000000 that they take "
                "at most 739108864 are read") != std::string::npos,
      text);
}

TEST_CASE("npz: a file that is cut short after it was opened is a FileError, never a SIGBUS") {
  const TempDir dir;
  const std::string path = dir / "x.npz";
  npz::write(path, sample());
  const ByteSource source(path);
  const zip::Archive archive(source);
  std::filesystem::resize_file(path, 100);
  const std::string text = message_of<FileError>([&] {
    for (const zip::Entry& entry : archive.entries()) zip::read_all(archive, entry, 1 << 20);
  });
  CHECK_MESSAGE(text.find("but it ends at byte 100") != std::string::npos, text);
}

struct Refused {
  std::string bytes, because;
};

TEST_CASE("npz: every fault of an archive is refused with the file, the entry and the values") {
  const std::string a = array("xyz");
  std::string no_mark = archive_of({{.name = "a.npy", .content = a}});
  no_mark[2] = 'x';
  std::string more_entries = archive_of({{.name = "a.npy", .content = a}});
  more_entries[more_entries.size() - 14] = more_entries[more_entries.size() - 12] = 2;
  const std::vector<Refused> cases = {
      {"", "0 bytes are too few for a zip archive"},
      {std::string(100, 'x'), "it has no end record"},
      {archive_of({}) + "x", "it has no end record"},
      {"x" + archive_of({{.name = "a.npy", .content = a}}), "does not end where its end record"},
      {archive_of({{.name = "a.npy", .content = a, .flags = 1}}), "entry \"a.npy\" is encrypted"},
      {archive_of({{.name = "a.npy", .content = a, .method = 12}}), "compressed by method 12"},
      {archive_of({{.name = "a.npy", .content = a}, {.name = "a.npy", .content = a}}),
       "entry \"a.npy\" appears twice"},
      {archive_of({{.name = "a.txt", .content = a}}), "is not an array"},
      {archive_of({{.name = "a.npy", .content = "x"}}),
       "entry \"a.npy\": 1 bytes are too few for a .npy file"},
      {archive_of({{.name = "a.npy", .content = a, .crc = 7}}), "has the CRC-32"},
      {archive_of({{.name = "a.npy", .content = a, .bytes = 7}}),
       "is stored in 69 bytes but declares 7"},
      {archive_of({{.name = "a.npy", .content = a, .packed_bytes = 1000, .bytes = 1000}}),
       "of 1000 bytes does not fit between byte 0 and byte 104"},
      {archive_of({{.name = "a.npy", .content = a, .local_name = "b.npy"}}),
       "has a header at byte 0 that is not the directory's"},
      {no_mark, "has a header at byte 0"},
      {archive_of({{.name = "a.npy", .content = a}, {.name = "b.npy", .content = a, .begin = 0}}),
       "does not fit between byte 0 and byte 0"},
      {archive_of({{.name = "a.npy", .content = a}, {.name = "b.npy", .content = a, .begin = 50}}),
       "does not fit between byte 0 and byte 50"},
      {archive_of({{.name = "a.npy", .content = a, .packed_bytes = 0xffffffff}}),
       "no zip64 field for its 1 long sizes"},
      {archive_of({{.name = "a.npy",
                    .content = a,
                    .packed_bytes = 0xffffffff,
                    .central_extra = number(1, 2) + number(8, 2) + std::string(8, '\xff')}}),
       "a zip64 field holds 18446744073709551615"},
      {more_entries, "cannot hold 2 entries"},
      {archive_of({{.name = "a.npy", .content = a, .method = 8, .bytes = 2000000}}),
       "declares 2000000 bytes, more than 69 deflated ones can hold"},
  };
  for (const Refused& c : cases) {
    const std::string text = error_of(c.bytes);
    CAPTURE(c.because);
    CHECK_MESSAGE(text.find(c.because) != std::string::npos, text);
    CHECK(text.starts_with("x.npz: "));
  }
}

TEST_CASE("npz: what unpacks to far more than it takes is refused before anything is unpacked") {
  if (!deflate_available()) return;
  const TempDir dir;
  StateDict state;
  state.add("zeros", zeros({int64_t{80} << 20}, {.dtype = kU8}));
  npz::write(dir / "x.npz", state, {.compress = true});
  const int64_t size = ByteSource(dir / "x.npz").size();
  REQUIRE(size < 100'000);
  const std::string text = message_of<DataError>([&] { npz::read(dir / "x.npz"); });
  for (const char* part :
       {"x.npz: its deflated entries declare 83886", "bytes; of the ", "64 MiB and 32 times"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  state = {};
  state.add("zeros", zeros({int64_t{60} << 20}, {.dtype = kU8}));  // as much compressed, but small
  npz::write(dir / "x.npz", state, {.compress = true});
  CHECK(npz::read(dir / "x.npz").at("zeros").numel() == int64_t{60} << 20);
}

TEST_CASE("npz: every truncation and every flipped bit is refused or gives the same arrays") {
  const TempDir dir;
  const std::string path = dir / "x.npz";
  StateDict state;
  state.add("a", tensor({1, 2, 3}, {.dtype = kI16}));
  state.add("b", zeros({100}, {.dtype = kU8}));
  for (const bool compress : {false, true}) {
    if (compress && !deflate_available()) continue;
    npz::write(path, state, {.compress = compress});
    const std::string good = data::testing::read_file(path);
    for (size_t n = 0; n < good.size(); ++n) {
      CAPTURE(n);
      CHECK(error_of(good.substr(0, n)) != "");
    }
    for (size_t at = 0; at < good.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
        CAPTURE(at);
        try {
          const StateDict got =
              parse(bad);  // a date or a flag; or a letter of a name in both places
          for (const auto& [name, t] : got)
            CHECK(t.to_vector<int>() == state.at(name).to_vector<int>());
          CHECK(got.size() == state.size());
        } catch (const DataError&) {
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe
