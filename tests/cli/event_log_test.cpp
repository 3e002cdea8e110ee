#include "lathe/tools/cli/training/event_log.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/tests/cli/file_size_limit.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe::cli;
using lathe::test::FileSizeLimit;
using lathe::test::TemporaryFolder;

TEST_CASE("event log: a disk that is full ends the events with one warning, not the training") {
  const TemporaryFolder folder;
  const auto log_text = [&] { return folder.read("log.txt"); };
  {
    Log log(true);
    log.open(folder.path() / "log.txt");
    EventLog events(folder.path(), 0, log);
    events.add(Metrics{.step = 1, .split = "train", .loss = 2});
    const FileSizeLimit full(1000);
    for (int64_t step = 2; step < 50; ++step)
      CHECK_NOTHROW(events.add(Metrics{.step = step, .split = "train", .loss = 2}));
  }
  const std::string text = log_text();
  CHECK(text.find("--tensorboard: no more events are written: ") != std::string::npos);
  CHECK(std::ranges::count(text, '\n') == 1);
}

TEST_CASE("event log: a folder that takes no file is a warning, too") {
  const TemporaryFolder folder;
  Log log(true);
  log.open(folder.path() / "log.txt");
  EventLog events(folder.path() / "log.txt", 0, log);
  CHECK_NOTHROW(events.add(Metrics{.step = 1, .split = "val"}));
  CHECK(folder.read("log.txt").find("--tensorboard: ") != std::string::npos);
}
