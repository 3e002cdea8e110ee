// Assignment 10: an all-reduce over a ring of threads.
#include "ring.h"

#include "points.h"

using namespace course;

struct Result {
  std::vector<Array> arrays;
  std::vector<size_t> sent;
};

using Call = void (*)(Array&, size_t, size_t, Cable&, Cable&);

/// Runs each rank on a thread.
static Result run(std::vector<Array> arrays, Call call = all_reduce) {
  const size_t ranks = arrays.size();
  std::vector<Cable> cables(ranks);  // cable r goes from rank r to the next
  {
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < ranks; ++r)
      threads.emplace_back(
          [&, r] { call(arrays[r], r, ranks, cables[r], cables[(r + ranks - 1) % ranks]); });
  }
  Result result{std::move(arrays), {}};
  for (const Cable& cable : cables) result.sent.push_back(cable.sent());
  return result;
}

static std::vector<Array> made_up(size_t ranks, size_t size) {
  std::vector<Array> arrays(ranks, Array(size));
  for (size_t r = 0; r < ranks; ++r)
    for (size_t i = 0; i < size; ++i) arrays[r][i] = (r + 1) * 100 + i;
  return arrays;
}

static void expect_sums(size_t ranks, size_t size) {
  const std::vector<Array> arrays = made_up(ranks, size);
  Array sums(size, 0.0);
  for (const Array& array : arrays)
    for (size_t i = 0; i < size; ++i) sums[i] += array[i];
  const Result result = run(arrays);
  for (size_t r = 0; r < ranks; ++r)
    expect_close(std::to_string(ranks) + " ranks, " + std::to_string(size) + " numbers, rank " +
                     std::to_string(r),
                 result.arrays[r], sums);
}

int main() {
  Report report;
  report.test(3, "chunks cover the array, and their sizes differ by at most 1", [] {
    for (const auto& [size, ranks] :
         {std::pair<size_t, size_t>{8, 4}, {7, 3}, {2, 4}, {0, 2}, {11, 4}}) {
      const std::string what =
          std::to_string(size) + " numbers, " + std::to_string(ranks) + " ranks: ";
      expect_equal(what + "the first begins", chunk_begin(size, ranks, 0), size_t{0});
      expect_equal(what + "the last ends", chunk_begin(size, ranks, ranks), size);
      for (size_t c = 0; c < ranks; ++c) {
        const size_t count = chunk_begin(size, ranks, c + 1) - chunk_begin(size, ranks, c);
        expect(count == size / ranks || count == size / ranks + 1,
               what + "chunk " + std::to_string(c) + " has " + std::to_string(count));
      }
    }
  });
  report.test(3, "four ranks with a number for each chunk get the sums", [] { expect_sums(4, 4); });
  report.test(2, "arrays that do not divide, or are shorter than the ring", [] {
    expect_sums(3, 7);
    expect_sums(5, 3);
    expect_sums(2, 1);
  });
  report.test(2, "all ranks have the same bits", [] {
    const Result result = run({{1e16, 1}, {1, -1e16}, {-1e16, 1}, {1, 1e16}});
    for (const Array& array : result.arrays)
      expect(array == result.arrays[0], "two ranks have different sums");
  });
  report.test(3, "each rank sends 2 (n - 1) / n of its array", [] {
    for (const size_t ranks : {2, 4, 8})
      for (const size_t sent : run(made_up(ranks, 16)).sent)
        expect_equal(std::to_string(ranks) + " ranks, 16 numbers: numbers sent", sent,
                     2 * (ranks - 1) * 16 / ranks);
  });
  report.test(1, "a rank that is alone sends nothing", [] {
    const Result result = run({{1, 2}});
    expect_close("its array", result.arrays[0], {1, 2});
    expect_equal("numbers sent", result.sent[0], size_t{0});
  });
  report.test(1, "the average", [] {
    for (const Array& array : run({{1, 2}, {3, 6}}, all_reduce_mean).arrays)
      expect_close("of 1 2 and 3 6", array, {2, 4});
  });
  report.test(3, "buckets begin with the last parameter, and are closed by size", [] {
    using Buckets = std::vector<std::vector<size_t>>;
    const auto expect_buckets = [](const std::string& what, const Buckets& got,
                                   const Buckets& expected) {
      expect_equal(what + ", how many", got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i)
        expect_equal(what + ", bucket " + std::to_string(i), got[i], expected[i]);
    };
    expect_buckets("four of 10 bytes, 10 and then 20", buckets_of({10, 10, 10, 10}, 10, 20),
                   {{3}, {2, 1}, {0}});
    expect_buckets("one reaches the size and belongs to it", buckets_of({4, 30, 4, 4}, 10, 10),
                   {{3, 2, 1}, {0}});
    expect_buckets("no parameter", buckets_of({}, 10, 20), {});
  });
  report.test(1, "a bucket travels when it is complete, and those before it have gone", [] {
    Reducer reducer({{3}, {2, 1}, {0}});
    expect_equal("parameter 2", reducer.ready(2), {});
    expect_equal("parameter 1: bucket 1 waits for 0", reducer.ready(1), {});
    expect_equal("parameter 3", reducer.ready(3), {0, 1});
    expect_equal("parameter 0", reducer.ready(0), {2});
  });
  report.test(1, "a gradient that is not awaited is an error", [] {
    Reducer reducer({{1}, {0}});
    reducer.ready(1);
    expect_throws<tiny::StateError>("parameter 1 for the second time", [&] { reducer.ready(1); });
    expect_throws<tiny::StateError>("parameter 2 of 2", [&] { reducer.ready(2); });
    expect_equal("parameter 0, after the errors", reducer.ready(0), {1});
  });
  return report.done();
}
