// How ops/tally_scores.h ranks a row of scores, shared by the CPU loop and the CUDA kernel.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::math {

/// The ranking of the scores seen so far, in any order.
template <class S>
struct Ranking {
  S best;
  int64_t at;      // index of the best; -1: nothing seen
  int64_t rivals;  // scores not below the label's, its own included

  LATHE_HD static Ranking none() { return {S(0), -1, 0}; }

  LATHE_HD void see(S score, int64_t index, S of_label) {
    join({score, index, !(score < of_label) ? 1 : 0});
  }

  LATHE_HD void join(const Ranking& b) {
    if (b.at >= 0 && (at < 0 || beats(b))) {
      best = b.best;
      at = b.at;
    }
    rivals += b.rivals;
  }

  LATHE_HD bool hits(int64_t label) const { return at == label && best == best; }
  LATHE_HD bool hits_five(int64_t label, int64_t classes) const {
    return label >= 0 && label < classes && rivals <= 5;
  }

 private:
  LATHE_HD bool beats(const Ranking& b) const {
    const bool nan = best != best, b_nan = b.best != b.best;
    if (nan || b_nan) return b_nan && (!nan || b.at < at);
    return b.best > best || (b.best == best && b.at < at);
  }
};

}  // namespace lathe::math
