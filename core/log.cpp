// The log handler, its default, and the keys that warn_once has seen.
#include "lathe/core/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "lathe/core/printable.h"

namespace lathe {

namespace {

struct LogState {
  std::mutex mutex;
  std::shared_ptr<const LogHandler> handler;  // null: the default
  std::set<std::string, std::less<>> given;   // keys of warn_once
};

// Never destroyed: destructors of static objects may still log.
LogState& state() {
  static LogState& instance = *new LogState;
  return instance;
}

void print(LogLevel level, std::string_view text) {
  static constexpr const char* kPrefix[] = {"lathe: ", "lathe: warning: ", "lathe: error: "};
  const std::string line = concat(kPrefix[static_cast<int>(level)], printable(text), "\n");
  // One call, so that lines of several threads do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

LogHandler set_log_handler(LogHandler handler) {
  auto next = handler ? std::make_shared<const LogHandler>(std::move(handler)) : nullptr;
  {
    const std::lock_guard lock(state().mutex);
    state().handler.swap(next);
  }
  return next ? *next : LogHandler();
}

void log(LogLevel level, std::string_view text) noexcept {
  try {
    std::shared_ptr<const LogHandler> handler;
    {
      const std::lock_guard lock(state().mutex);
      handler = state().handler;
    }
    handler ? (*handler)(level, text) : print(level, text);  // outside the lock: it may log too
  } catch (...) {  // a message must never turn a success into a failure
  }
}

bool warn_once(std::string_view key, std::string_view text) {
  {
    const std::lock_guard lock(state().mutex);
    if (!state().given.emplace(key).second) return false;
  }
  log(LogLevel::kWarning, text);
  return true;
}

}  // namespace lathe
