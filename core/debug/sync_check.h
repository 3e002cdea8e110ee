// SyncCheck: finds where a program waits for the GPU without saying so, as item() does.
//
//   debug::SyncCheck check(debug::SyncMode::kWarn);
//   for (…) train(batch);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/hooks/watch.h"

namespace lathe::debug {

/// A place of the program where the host waits.
struct SyncPlace : profile::CallPlace {
  std::string op;   // what the program called: "item", "nonzero", "to_device", …
  std::string why;  // "copy to the host", "synchronize stream", …
  int64_t count = 0;
};

/// Thrown before an op waits for a GPU, by a SyncCheck of SyncMode::kError. The message begins with
/// the path of the layer that called the op.
class LATHE_API SyncError : public StateError {
 public:
  SyncError(const std::string& message, SyncPlace found)
      : StateError(message), place(std::move(found)) {}

  SyncPlace place;
};

enum class SyncMode : uint8_t {
  kCount,  // only counts
  kWarn,   // warns of each place, once in the process
  kError,  // throws SyncError before the wait
};

/// While a SyncCheck lives, it notes each wait for a GPU inside the ops that its thread calls.
/// Calls whose purpose is to wait (synchronize()) do not count. On the CPU there is no wait to
/// note. The place of a wait is known if the program has debug information and libdw is installed.
class LATHE_API SyncCheck {
 public:
  [[nodiscard]] explicit SyncCheck(SyncMode mode);
  /// Must run on the thread of the constructor.
  ~SyncCheck();
  SyncCheck(const SyncCheck&) = delete;
  SyncCheck& operator=(const SyncCheck&) = delete;

  /// The places noted so far, in the order of their first wait.
  std::vector<SyncPlace> places() const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

/// While an AllowSync lives, a SyncCheck does not note the waits of its thread. Use it for values
/// that the program reads on purpose, such as a loss to print.
using AllowSync = profile::MeantWait;

}  // namespace lathe::debug
