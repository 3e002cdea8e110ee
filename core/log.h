// Messages that are not errors. They go to stderr unless the program installs a handler of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/core/format.h"

namespace lathe {

enum class LogLevel : uint8_t { kInfo, kWarning, kError };

/// Called with one message without a line end, possibly by several threads at the same time.
/// Exceptions that it throws are dropped.
using LogHandler = std::function<void(LogLevel level, std::string_view text)>;

/// Sends all further messages to `handler`. An empty `handler` restores the default, which prints
/// "lathe: warning: <text>" as one line on stderr (printable.h). Returns the previous handler,
/// empty if it was the default.
LATHE_API LogHandler set_log_handler(LogHandler handler);

/// Gives a message to the handler, or writes it to stderr. Thread-safe.
LATHE_API void log(LogLevel level, std::string_view text) noexcept;

/// Logs a warning: all arguments written one after another.
template <class... Args>
void warn(const Args&... args) {
  log(LogLevel::kWarning, concat(args...));
}

/// Logs a warning once per process and key. Use it for a warning that would repeat at every step.
/// Returns true if this call logged it.
LATHE_API bool warn_once(std::string_view key, std::string_view text);

}  // namespace lathe
