// Backoff: something that failed is tried again, the more seldom the more often it failed.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lathe {

/// One or two failures in a row may be an accident: the next call tries again. After n of them the
/// next 2^(n-2) - 1 calls do not, at most 1023: what fails for a while is found working again, and
/// what always fails costs next to nothing. For one thread.
class Backoff {
 public:
  /// Whether this call does not try.
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
  /// It is never tried again.
  void failed_for_good() { left_ = kForGood; }

 private:
  static constexpr int kForGood = -1;
  int failures_ = 0;  // in a row, as far as they are counted
  int left_ = 0;      // calls that do not try
};

}  // namespace lathe
