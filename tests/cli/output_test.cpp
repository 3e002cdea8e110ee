// The log file of a run: whole lines, and all of them, whatever the disk does.
#include "lathe/tools/cli/output.h"

#include <doctest/doctest.h>

#include <string>

#include "lathe/tests/cli/file_size_limit.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe::cli;
using lathe::test::FileSizeLimit;
using lathe::test::TemporaryFolder;

namespace {

/// Without the time, "2026-01-31 12:00:00 ", at the beginning of each line.
std::string lines_of(const TemporaryFolder& folder) {
  std::string lines;
  const std::string text = folder.read("log.txt");
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    REQUIRE(end > at + 20);
    lines += text.substr(at + 20, end - at - 19);
    at = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("log: what a full disk does not take is written when it does") {
  const TemporaryFolder folder;
  Log log(true);
  log.open(folder.path() / "log.txt");
  log.line("one");
  {
    const FileSizeLimit full(30);  // a part of the second line
    log.line("two");
    log.line("three");
  }
  log.line("four");
  CHECK(lines_of(folder) == "one\ntwo\nthree\nfour\n");
}

TEST_CASE("log: so it is at the end, if no other line comes") {
  const TemporaryFolder folder;
  {
    Log log(true);
    log.open(folder.path() / "log.txt");
    const FileSizeLimit full(5);
    log.line("one");
  }
  CHECK(lines_of(folder) == "one\n");
}

TEST_CASE("log: a line that was cut short is removed by the run that goes on") {
  const TemporaryFolder folder;
  const std::string whole = "2026-01-31 12:00:00 one\n";
  for (const std::string torn : {"", "2026-01-31 12:00:01 tw", "2"}) {
    folder.write("log.txt", whole + torn);
    Log log(true);
    log.open(folder.path() / "log.txt");
    log.line("three");
    CHECK(lines_of(folder) == "one\nthree\n");
  }
}
