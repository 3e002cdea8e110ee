// The fault point, and the message with the limits.
#include "lathe/core/start_thread.h"

#include "lathe/core/process_limits.h"

namespace lathe {

FaultPoint& thread_fault() noexcept {
  static constinit FaultPoint point;
  return point;
}

std::string no_thread_text(const std::system_error& cause) {
  const std::string limits = thread_limits_text();
  return concat(cause.code().message(), limits.empty() ? "" : "; limits: ", limits);
}

}  // namespace lathe
