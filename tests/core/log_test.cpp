// Log messages: handlers replace each other, throw without harm, and warn_once keeps its promise.
#include "lathe/core/log.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lathe {
namespace {

struct Capture {
  Capture() {
    before = set_log_handler([this](LogLevel level, std::string_view text) {
      lines.push_back(concat(static_cast<int>(level), " ", text));
    });
  }
  ~Capture() { set_log_handler(before); }
  std::vector<std::string> lines;
  LogHandler before;
};

TEST_CASE("log: messages reach the handler with their level") {
  Capture capture;
  warn("loss is ", 3.5, " after ", 2, " steps");
  log(LogLevel::kInfo, "hello");
  log(LogLevel::kError, "");
  CHECK(capture.lines == std::vector<std::string>{"1 loss is 3.5 after 2 steps", "0 hello", "2 "});
}

TEST_CASE("set_log_handler: returns the handler before, empty for the default") {
  int first = 0;
  const LogHandler original = set_log_handler([&](LogLevel, std::string_view) { ++first; });
  const LogHandler previous = set_log_handler({});
  REQUIRE(previous);
  previous(LogLevel::kInfo, "by hand");
  CHECK(first == 1);
  CHECK_FALSE(set_log_handler(original));
}

TEST_CASE("log: a handler may throw and may log") {
  const LogHandler before =
      set_log_handler([](LogLevel, std::string_view) { throw std::runtime_error("full disk"); });
  CHECK_NOTHROW(warn("lost"));
  int depth = 0;
  set_log_handler([&](LogLevel, std::string_view) {
    if (++depth == 1) warn("again");
  });
  warn("once");
  CHECK(depth == 2);
  set_log_handler(before);
}

TEST_CASE("warn_once: one warning per key, whichever thread comes first") {
  std::atomic<int> given{0}, heard{0};
  const LogHandler before = set_log_handler([&](LogLevel, std::string_view) { ++heard; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) given += warn_once("log_test.key", "slow path");
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(given == 1);
  CHECK(heard == 1);
  CHECK(warn_once("log_test.other", "slow path"));
  set_log_handler(before);
}

}  // namespace
}  // namespace lathe
