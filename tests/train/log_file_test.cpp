#include "lathe/train/log_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "lathe/tests/cli/file_size_limit.h"
#include "lathe/tests/cli/temporary_folder.h"

using lathe::test::FileSizeLimit;
using lathe::test::TemporaryFolder;
using lathe::train::LogFile;

namespace {

/// The lines of a file, without the time at the beginning of each.
std::vector<std::string> texts_of(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    REQUIRE(line.size() > 20);
    out.push_back(line.substr(20));  // "2026-01-31 12:00:00 "
  }
  return out;
}

}  // namespace

TEST_CASE(
    "log file: lines before it is opened are kept up to 1 MiB, and dropped ones are counted") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "log.txt").string(), long_line(1000, 'x');
  size_t added = 0;
  {
    LogFile log;
    for (; added < 1500; ++added) log.add(long_line);
    log.open(path);
    log.add("one");
    log.add("two");
  }
  const std::vector<std::string> texts = texts_of(path);
  const size_t kept = (1 << 20) / (1000 + 21) + 1;
  REQUIRE(texts.size() == kept + 3);
  CHECK(texts[kept - 1] == long_line);
  CHECK(texts[kept] == "warning: lines missing here, because they could not be written: " +
                           std::to_string(added - kept));
  CHECK(texts[kept + 1] == "one");
  CHECK(texts[kept + 2] == "two");
}

TEST_CASE("log file: what a full disk refused is written with the next line") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "log.txt").string();
  LogFile log;
  log.open(path);
  {
    const FileSizeLimit full(0);
    CHECK_NOTHROW(log.add("one"));
    CHECK_NOTHROW(log.add("two"));
  }
  CHECK(texts_of(path).empty());
  log.add("three");
  CHECK(texts_of(path) == std::vector<std::string>{"one", "two", "three"});
}
