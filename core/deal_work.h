// How few large pieces of work are shared out evenly: the last ones are cut into smaller tasks.
#pragma once

#include <cstdint>

#include "lathe/core/ceil_div.h"

namespace lathe {

/// The tasks of a parallel_for with grain 1 over equal pieces of work. The first tasks are whole
/// pieces, as many as all threads can take in full rounds. The rest, fewer than threads, are cut
/// into `parts` tasks each. The number of threads decides how pieces are cut, so it is for work
/// whose every number has the same bits however a piece is cut.
struct DealtWork {
  struct Task {
    int64_t piece, part, parts;  // `part` of so many

    /// Where the part begins and ends, of something that the piece has `n` of. May be empty.
    int64_t begin(int64_t n) const { return part * n / parts; }
    int64_t end(int64_t n) const { return (part + 1) * n / parts; }
  };

  int64_t whole = 0, cut = 0, parts = 1;  // pieces of either kind; tasks of a cut one

  int64_t tasks() const { return whole + cut * parts; }
  Task operator[](int64_t i) const {
    if (i < whole) return {i, 0, 1};
    return {whole + (i - whole) / parts, (i - whole) % parts, parts};
  }
};

/// Deals `pieces` to `threads`, so that the last is ready early.
///   most_parts  into which a piece may be cut: units that stay whole
///   again       what each part repeats, by the work of a whole piece without it
constexpr DealtWork deal_work(int64_t pieces, int64_t threads, int64_t most_parts, double again) {
  const int64_t cut = pieces % threads;
  DealtWork best{pieces - cut, cut, 1};
  if (cut == 0) return best;
  const auto time = [&](int64_t parts) {
    const double part = static_cast<double>(ceil_div(most_parts, parts));
    return static_cast<double>(ceil_div(cut * parts, threads)) *
           (part / static_cast<double>(most_parts) + again);
  };
  for (int64_t parts = 2; parts <= most_parts; ++parts) {
    if (time(parts) < time(best.parts)) best.parts = parts;
  }
  return best;
}

}  // namespace lathe
