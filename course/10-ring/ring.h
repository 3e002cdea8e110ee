// An all-reduce over a ring. Each rank is a thread with an array, and talks to its two neighbours
// only (docs/tour/10b-ring.md).
#pragma once

#include <set>

#include "tiny/loader.h"

namespace course {

using Array = std::vector<double>;

/// What goes from one rank to the next. A message waits here until it is received.
class Cable {
 public:
  void send(Array message) {
    sent_ += message.size();
    queue_.push(std::move(message));
  }
  Array receive() { return *queue_.pop(); }
  size_t sent() const { return sent_; }  // numbers

 private:
  tiny::BoundedQueue<Array> queue_{1};
  std::atomic<size_t> sent_{0};
};

/// Where chunk c of an array begins, for c from 0 to `ranks`. It ends where the next one begins:
/// chunk_begin(size, ranks, ranks) is `size`. Sizes of chunks differ by at most 1. Some chunks have
/// no number if there are more ranks than numbers.
inline size_t chunk_begin(size_t size, size_t ranks, size_t c) {
  // Rounded down: so the rest of the division is spread over the chunks.
  return size * c / ranks;
}

/// The part of one rank, which runs on its own thread: adds up the arrays of all ranks, number by
/// number, and leaves the sums in `mine`, with the same bits on all ranks. Sends 2 (ranks - 1)
/// messages of one chunk each.
///
///   first trip   In round t = 0, 1, … ranks - 2 rank r sends chunk r - t, and adds what it
///                receives to its chunk r - t - 1. After the trip its chunk r + 1 is complete.
///   second trip  In round t rank r sends chunk r + 1 - t, and takes what it receives as its
///                chunk r - t.
///
/// The numbers of chunks are meant modulo `ranks`: -1 is the last one.
inline void all_reduce(Array& mine, size_t rank, size_t ranks, Cable& to_next,
                       Cable& from_previous) {
  const auto range = [&](size_t number) {
    const size_t c = number % ranks;
    return std::pair{mine.begin() + chunk_begin(mine.size(), ranks, c),
                     mine.begin() + chunk_begin(mine.size(), ranks, c + 1)};
  };
  for (size_t t = 0; t + 1 < ranks; ++t) {
    const auto [begin, end] = range(rank + ranks - t);
    to_next.send(Array(begin, end));
    const Array received = from_previous.receive();
    auto sum = range(rank + ranks - t - 1).first;
    for (const double value : received) *sum++ += value;
  }
  for (size_t t = 0; t + 1 < ranks; ++t) {
    const auto [begin, end] = range(rank + ranks + 1 - t);
    to_next.send(Array(begin, end));
    const Array received = from_previous.receive();
    std::copy(received.begin(), received.end(), range(rank + ranks - t).first);
  }
}

/// As all_reduce(), with the average: what many ranks do with their gradients.
inline void all_reduce_mean(Array& mine, size_t rank, size_t ranks, Cable& to_next,
                            Cable& from_previous) {
  all_reduce(mine, rank, ranks, to_next, from_previous);
  for (double& value : mine) value /= ranks;
}

/// Which gradients travel together: buckets of parameter numbers, for parameters of these sizes in
/// bytes. The backward pass computes the last parameter's gradient first, so the first bucket
/// begins with that one. The first bucket is closed when it has reached `first_bytes`, each further
/// one when it has reached `bytes`. The parameter that reaches the size still belongs to the
/// bucket. The last bucket may be smaller.
inline std::vector<std::vector<size_t>> buckets_of(const std::vector<size_t>& sizes,
                                                   size_t first_bytes, size_t bytes) {
  std::vector<std::vector<size_t>> buckets;
  size_t missing = 0;  // bytes, until the last bucket is closed
  for (size_t p = sizes.size(); p-- > 0;) {
    if (missing == 0) {
      missing = buckets.empty() ? first_bytes : bytes;
      buckets.push_back({});
    }
    buckets.back().push_back(p);
    missing -= std::min(missing, sizes[p]);
  }
  return buckets;
}

/// Says which buckets may travel while the backward pass still runs. All ranks send their buckets
/// in the same order, whatever the order in which their gradients are ready: a bucket travels when
/// it is complete and all those before it have travelled.
class Reducer {
 public:
  /// Each parameter is in one bucket. No bucket is empty.
  explicit Reducer(const std::vector<std::vector<size_t>>& buckets) {
    for (const auto& bucket : buckets) missing_.emplace_back(bucket.begin(), bucket.end());
  }

  /// The gradient of `parameter` is there. Returns the numbers of the buckets that travel now.
  /// throws: StateError if it was there before, or if the parameter is in no bucket.
  std::vector<size_t> ready(size_t parameter) {
    size_t found = 0;
    for (auto& bucket : missing_) found += bucket.erase(parameter);
    tiny::check<tiny::StateError>(found == 1, "Reducer: the gradient of parameter ", parameter,
                                  " is not awaited");
    std::vector<size_t> travel;
    while (next_ < missing_.size() && missing_[next_].empty()) travel.push_back(next_++);
    return travel;
  }

 private:
  std::vector<std::set<size_t>> missing_;  // of each bucket: parameters without a gradient
  size_t next_ = 0;                        // the first bucket that has not travelled
};

}  // namespace course
