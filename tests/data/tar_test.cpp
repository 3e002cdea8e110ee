#include "lathe/data/images/tar.h"

#include <doctest/doctest.h>

#include "files.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

using namespace testing;

std::string error_of(const TempDir& dir, const std::string& archive, uint64_t limit = 5000) {
  write_file(dir / "a.tar", archive);
  return message_of<DataError>([&] {
    extract_tar(dir / "a.tar", {{"d/one", dir / "one", limit}});
  });
}

TEST_CASE("tar: takes out what is wanted, plain or gzip, and nothing else") {
  const std::string one(1000, 'x'), two = "two";
  const std::string archive =
      tar({{"d", "", '5'}, {"d/one", one}, {"../evil", "evil"}, {"d/empty", ""}, {"d/two", two}});
  for (const bool packed : {false, gzip_available()}) {
    const TempDir dir;
    write_file(dir / "a.tar", packed ? gzip(archive) : archive);
    extract_tar(dir / "a.tar",
                {{"d/two", dir / "2", 10}, {"d/one", dir / "1", 1000}, {"d/empty", dir / "0", 0}});
    CHECK(read_file(dir / "1") == one);
    CHECK(read_file(dir / "2") == two);
    CHECK(read_file(dir / "0").empty());
    CHECK(names_in(dir.path()) == std::vector<std::string>{"0", "1", "2", "a.tar"});
  }
}

TEST_CASE(
    "tar: what is no archive, cut off, missing, a link or too large is refused, and nothing is "
    "left") {
  const TempDir dir;
  const std::string name = (dir / "a.tar").string();
  CHECK(error_of(dir, "no tar") == name + ": ends after 6 bytes of a tar header, which needs 512");
  CHECK(error_of(dir, std::string(512, 'x')).find("has no octal number but byte 120") !=
        std::string::npos);
  const std::string good = tar({{"d/one", std::string(3000, 'x')}});
  std::string bad = good;
  bad[3] = 'X';
  CHECK(error_of(dir, bad) ==
        name + ": tar header at byte 0 has the wrong checksum (is it a tar archive?)");
  CHECK(error_of(dir, good.substr(0, 1000)) ==
        name + ": ends after 488 bytes of d/one, which needs 3072");
  if (gzip_available())
    CHECK(error_of(dir, gzip(good).substr(0, 1500)).find("truncated") != std::string::npos);
  CHECK(error_of(dir, tar({{"d/other", "x"}})) == name + ": has no d/one");
  CHECK(error_of(dir, tar({{"d/one", "", '2'}})) ==
        name + ": d/one is not a regular file (tar type 2)");
  CHECK(error_of(dir, good, 2999) == name + ": d/one has 3000 bytes, more than the 2999 expected");
  CHECK(names_in(dir.path()) == std::vector<std::string>{"a.tar"});
}

TEST_CASE("tar: a full disk or a cancelled run leaves nothing half-written") {
  const TempDir dir;
  write_file(dir / "a.tar", tar({{"d/one", std::string(3000, 'x')}}));
  const std::vector<TarMember> wanted = {{"d/one", dir / "one", 3000}};
  write_file(dir / "one", "old");
  {
    const ArmedFault full(file_faults().write, 1);
    CHECK_THROWS_AS(extract_tar(dir / "a.tar", wanted), FileError);
  }
  CHECK(message_of<FileError>([&] { extract_tar(dir / "a.tar", wanted, [] { return false; }); }) ==
        (dir / "a.tar").string() + ": unpacking was cancelled");
  CHECK(read_file(dir / "one") == "old");
  CHECK(names_in(dir.path()) == std::vector<std::string>{"a.tar", "one"});
}

}  // namespace
}  // namespace lathe::data
