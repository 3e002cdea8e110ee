// Chapter 10b: a ring all-reduce over four arrays. Each rank talks to its neighbours only.
#include <cstdint>
#include <iostream>
#include <vector>

constexpr int kRanks = 4;
using Array = std::vector<double>;  // of one rank: here one number per chunk, kRanks chunks

static int64_t sent = 0;  // numbers, by all ranks

static void print(const char* title, const std::vector<Array>& ranks) {
  std::cout << title << '\n';
  for (int rank = 0; rank < kRanks; ++rank) {
    std::cout << "  rank " << rank << ':';
    for (const double value : ranks[rank]) std::cout << ' ' << value;
    std::cout << '\n';
  }
}

/// Each rank sends one chunk to the next rank; all at the same time, so from a copy. Rank r sends
/// chunk first + r. The receiver adds it, or takes it.
static void round(std::vector<Array>& ranks, int first, bool adds) {
  const std::vector<Array> before = ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const int chunk = (first + rank + 2 * kRanks) % kRanks, next = (rank + 1) % kRanks;
    ranks[next][chunk] = before[rank][chunk] + (adds ? before[next][chunk] : 0);
    ++sent;
  }
}

int main() {
  std::vector<Array> ranks = {
      {1, 2, 3, 4}, {10, 20, 30, 40}, {100, 200, 300, 400}, {1000, 2000, 3000, 4000}};
  print("gradients", ranks);

  // Reduce-scatter: after kRanks - 1 rounds, rank r has the whole sum of chunk r + 1.
  for (int step = 0; step < kRanks - 1; ++step) {
    round(ranks, -step, true);
    print("added up", ranks);
  }
  // All-gather: the finished chunks go round.
  for (int step = 0; step < kRanks - 1; ++step) round(ranks, 1 - step, false);
  print("after the second trip", ranks);

  for (Array& array : ranks)
    for (double& value : array) value /= kRanks;
  print("the average", ranks);
  std::cout << "each rank sent " << sent / kRanks << " numbers, " << 2 * (kRanks - 1)
            << " times a quarter of its array\n";
  for (const int n : {2, 4, 8, 64})
    std::cout << n << " ranks: each sends " << 2.0 * (n - 1) / n
              << " arrays; rank 0 alone would send " << n - 1 << '\n';
}
