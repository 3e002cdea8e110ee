#include "lathe/train/event_log.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lathe/tests/cli/file_size_limit.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe::train;
using lathe::test::FileSizeLimit;
using lathe::test::TemporaryFolder;

TEST_CASE("event log: a disk that is full ends the events with one warning, not the training") {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  {
    EventLog events(folder.path(), 0, [&](const std::string& text) { warnings.push_back(text); });
    events.add(MetricsRow{.step = 1, .split = "train", .loss = 2});
    const FileSizeLimit full(1000);
    for (int64_t step = 2; step < 50; ++step)
      CHECK_NOTHROW(events.add(MetricsRow{.step = step, .split = "train", .loss = 2}));
  }
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("no more events for TensorBoard are written: "));
}

TEST_CASE("event log: a folder that takes no file is a warning, too") {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  EventLog events(folder.write("file", ""), 0,
                  [&](const std::string& text) { warnings.push_back(text); });
  CHECK_NOTHROW(events.add(MetricsRow{.step = 1, .split = "val"}));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("TensorBoard") != std::string::npos);
}
