// deal_work: every piece once, whole ones in full rounds, the rest cut so that it is ready earlier.
#include "lathe/core/deal_work.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <utility>

using namespace lathe;

TEST_CASE("deal_work: tasks are every unit of every piece once, and at least a round is whole") {
  constexpr int64_t kUnits = 6;
  for (int64_t pieces = 1; pieces < 40; ++pieces) {
    for (int64_t threads = 1; threads < 20; ++threads) {
      CAPTURE(pieces);
      CAPTURE(threads);
      const DealtWork work = deal_work(pieces, threads, kUnits, 0.1);
      CHECK(work.whole % threads == 0);
      CHECK(work.cut < threads);
      std::set<std::pair<int64_t, int64_t>> seen;
      for (int64_t i = 0; i < work.tasks(); ++i) {
        const DealtWork::Task task = work[i];
        CHECK(task.parts == (i < work.whole ? 1 : work.parts));
        for (int64_t unit = task.begin(kUnits); unit < task.end(kUnits); ++unit) {
          CHECK(seen.emplace(task.piece, unit).second);
        }
      }
      CHECK(seen.size() == static_cast<size_t>(pieces * kUnits));
    }
  }
}

TEST_CASE("deal_work: into how many parts the rest is cut") {
  const auto parts = [](int64_t pieces, int64_t threads, int64_t most, double again) {
    return deal_work(pieces, threads, most, again).parts;
  };
  CHECK(parts(7, 1, 8, 0) == 1);  // one thread: nothing is left over
  CHECK(parts(7, 2, 8, 0) == 2);  // half of the last piece for each
  CHECK(parts(6, 2, 8, 0) == 1);
  CHECK(parts(4, 16, 8, 0.05) == 4);  // 16 quarters; 32 eighths would repeat more
  CHECK(parts(13, 16, 1, 0) == 1);    // pieces that cannot be cut
  CHECK(parts(13, 16, 8, 1) == 1);    // parts that repeat all the work
  CHECK(parts(13, 16, 16, 0) == 16);  // 13 rounds of sixteenths; whole pieces take as long as 16
}
