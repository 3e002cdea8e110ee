// The one recording of the process: starts it, lets threads join it, and collects what they wrote.
// Below the public interface (profiler.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/record.h"

namespace lathe::profile {

class ThreadLog;

struct RecorderOptions {
  uint32_t wanted = kRanges;       // bits of Wanted
  size_t limit = size_t{1} << 21;  // ranges of one thread
};

/// The right to record; one at a time.
class LATHE_API Claim {
 public:
  /// `owner` is named to whoever claims it meanwhile.
  /// throws: StateError with the other owner's name.
  explicit Claim(const std::string& owner);
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
};

/// Starts a recording. Only for who has the claim.
LATHE_API void start_recording(const RecorderOptions& options);

/// Ends the recording. Waits for GPUs whose times were measured.
LATHE_API Recording stop_recording();

/// The log of the calling thread in the recording that runs. → null if there is none, or if the
/// thread is ending
ThreadLog* thread_log();

/// Bytes in use by all threads, as far as they are counted.
MemoryChange count_in_use(MemoryChange change) noexcept;

}  // namespace lathe::profile
