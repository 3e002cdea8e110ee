// Backoff: after repeated failures, retries become rarer.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lathe {

/// One or two failures in a row may be an accident: the next call tries again. After n failures in
/// a row the next 2^(n-2) - 1 calls skip the attempt, 1023 at most. So a fault that passes is found
/// to have passed, and a permanent one costs next to nothing. For one thread.
class Backoff {
 public:
  /// True if this call is to skip the attempt.
  bool skips() {
    if (left_ == 0) return false;
    if (left_ != kForGood) --left_;
    return true;
  }

  void succeeded() { failures_ = 0; }
  void failed() {
    failures_ = std::min(failures_ + 1, 12);
    left_ = failures_ < 2 ? 0 : (1 << (failures_ - 2)) - 1;
  }
  /// Every later call skips the attempt.
  void failed_for_good() { left_ = kForGood; }

 private:
  static constexpr int kForGood = -1;
  int failures_ = 0;  // in a row, counted up to 12
  int left_ = 0;      // calls that still skip the attempt
};

}  // namespace lathe
