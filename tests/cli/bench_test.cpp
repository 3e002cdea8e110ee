#include "lathe/tools/cli/commands/bench.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

using namespace lathe::cli;

TEST_CASE("bench: seconds per call, the median between its quartiles") {
  int64_t calls = 0;
  const Timing timing = measure(
      [&] {
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      {.warm_up_seconds = 0, .window_seconds = 0.003, .windows = 5});
  CHECK(timing.calls == calls);
  CHECK(timing.windows == 5);
  CHECK(timing.median >= 0.001);
  CHECK(timing.low <= timing.median);
  CHECK(timing.median <= timing.high);
  lathe::train::Row row;
  add_timing(row, timing, "images", 10);
  CHECK(row.values().back().first == "images_per_second");
  CHECK(std::get<double>(row.values().back().second) == doctest::Approx(10 / timing.median));
}
