// The search of find-batch.
#include "lathe/tools/cli/commands/largest_batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace lathe::cli;

TEST_CASE("largest batch: exact while small, to a 32nd above, and a size that was seen to fit") {
  for (int64_t limit = 0; limit <= 3000; limit += limit < 100 ? 1 : 37) {
    CAPTURE(limit);
    std::vector<int64_t> good;
    int64_t tries = 0;
    const int64_t found = largest_that_fits(1 << 20, [&](int64_t n) {
      ++tries;
      if (n <= limit) good.push_back(n);
      return n <= limit;
    });
    CHECK(found <= limit);
    CHECK(limit - found <= std::max<int64_t>(found / 32, 0));
    CHECK((found == 0 || std::ranges::find(good, found) != good.end()));
    CHECK(tries <= 2 * 12);
  }
}

TEST_CASE("largest batch: never more than the most, which is tried") {
  for (const int64_t most : {1, 2, 3, 100}) {
    int64_t largest_tried = 0;
    CHECK(largest_that_fits(most, [&](int64_t n) {
            largest_tried = std::max(largest_tried, n);
            return true;
          }) == most);
    CHECK(largest_tried == most);
  }
}

TEST_CASE("largest batch: libraries keep a tenth of the memory, and never less than 96 MiB") {
  constexpr int64_t kMiB = 1 << 20;
  CHECK(tensors_within(10000 * kMiB) == 9000 * kMiB);
  CHECK(tensors_within(960 * kMiB) == 864 * kMiB);
  CHECK(tensors_within(300 * kMiB) == 204 * kMiB);
  CHECK(tensors_within(96 * kMiB) == 0);
  CHECK(tensors_within(10 * kMiB) == 0);
}
