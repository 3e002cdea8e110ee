// The error of a system that gives no thread.
#include "lathe/core/start_thread.h"

#include <doctest/doctest.h>

#include <string>

#include "lathe/core/process_limits.h"

namespace lathe {
namespace {

TEST_CASE("start_thread: runs the function") {
  int ran = 0;
  start_thread("test", [&] { ++ran; }).join();
  CHECK(ran == 1);
}

TEST_CASE("start_thread: no thread is an error with the purpose, the cause and the limits") {
  const ArmedFault armed(thread_fault(), 1);
  std::string message;
  try {
    start_thread("test: worker 3 of 4", [] {});
  } catch (const ThreadError& error) {
    message = error.message();
  }
  const std::string limits = thread_limits_text();
  CHECK(message ==
        "test: worker 3 of 4: no thread can be started: Resource temporarily unavailable" +
            (limits.empty() ? "" : "; limits: " + limits));
  CHECK(limits.find("kernel.threads-max ") != std::string::npos);
}

}  // namespace
}  // namespace lathe
