// SyncCheck without a GPU: waits that are said, and not made.
#include "lathe/core/debug/sync_check.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/log.h"

namespace lathe::debug {
namespace {

/// As an op that waits.
void planted(const char* why, profile::Kind kind = profile::Kind::kOp) {
  const profile::OpRange range("planted", {}, kind);
  profile::before_wait(why);
}

TEST_CASE("sync check: a wait inside an op is found, one that is meant is none") {
  const SyncCheck check(SyncMode::kCount);
  profile::before_wait("synchronize device");  // not in an op: the program asked for it
  {
    const AllowSync allowed;
    planted("copy to the host");
    const AllowSync inner;
    planted("copy to the host");
  }
  CHECK(check.places().empty());
  for (int i = 0; i < 100; ++i) planted("copy to the host");
  planted("synchronize stream", profile::Kind::kCopy);  // of a copy that did not say so before
  const std::vector<SyncPlace> places = check.places();
  REQUIRE(places.size() == 2);
  CHECK(places[0].op == "planted");
  CHECK(places[0].why == "copy to the host");
  CHECK(places[0].count == 100);
  CHECK(places[1].why == "synchronize stream");
}

TEST_CASE("sync check: an error and a warning name their layer once") {
  const std::string start = "Net.conv1: planted: the host waits for the GPU here (a copy)";
  const auto names_once = [&](const std::string& text) {
    return text.starts_with(start) && text.find("Net.conv1", 1) == std::string::npos;
  };
  const profile::Layer layer("Net.conv1");
  {
    const SyncCheck check(SyncMode::kError);
    try {
      planted("a copy");
      FAIL("nothing was thrown");
    } catch (SyncError& error) {
      error.set_origin("Net");  // as a layer around it does
      CHECK_MESSAGE(names_once(error.message()), error.message());
      CHECK(error.place.layer == "Net.conv1");
    }
  }
  std::vector<std::string> said;
  const LogHandler old =
      set_log_handler([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  {
    const SyncCheck check(SyncMode::kWarn);
    for (int i = 0; i < 3; ++i) planted("a copy");
  }
  set_log_handler(old);
  REQUIRE(said.size() == 1);
  CHECK_MESSAGE(names_once(said[0]), said[0]);
}

}  // namespace
}  // namespace lathe::debug
