// How the library starts its threads, so that a system without a thread to give is told apart from
// one without memory.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/fault.h"

namespace lathe {

/// The system gives this process no further thread.
class LATHE_API ThreadError : public Error {
  using Error::Error;
};

/// When armed, makes the n-th call of start_thread() fail as the system does.
LATHE_API FaultPoint& thread_fault() noexcept;

/// "<cause>; limits: <thread_limits_text() of core/process_limits.h>"
LATHE_API std::string no_thread_text(const std::system_error& cause);

/// A thread that calls f(). `purpose` begins the message: "DataLoader: worker 3 of 4".
/// throws: ThreadError with the cause and the limits that hold here.
template <class F>
std::thread start_thread(const std::string& purpose, F&& f) {
  try {
    if (thread_fault().hit())
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    return std::thread(std::forward<F>(f));
  } catch (const std::system_error& cause) {
    LATHE_FAIL(ThreadError, purpose, ": no thread can be started: ", no_thread_text(cause));
  }
}

}  // namespace lathe
