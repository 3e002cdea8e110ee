// CPU kernel of nonzero: counts the true elements of each block, then writes their coordinates. The
// blocks do not depend on the threads. Contract: nonzero.h.
#include <algorithm>
#include <numeric>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/nonzero.h"

namespace lathe {

namespace {

constexpr int64_t kBlock = 32768;  // elements of the mask
constexpr int64_t kPiece = 1024;   // of a row: those that are collected before they are written

/// The places of the true ones among n elements, to `at`, which has room for n. Without a branch,
/// which nobody could predict.
int64_t collect(int32_t* at, const bool* mask, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    at[count] = static_cast<int32_t>(i);
    count += mask[i] ? 1 : 0;
  }
  return count;
}

/// The coordinates of the true elements in [begin, end) of a dense mask of `shape`, to y.
void write_coordinates(int64_t* y, const bool* mask, const Shape& shape, int64_t begin,
                       int64_t end) {
  const int ndim = shape.size(), last = ndim - 1;
  int64_t at[kMaxDims];
  for (int64_t d = last, rest = begin; d >= 0; --d) {
    at[d] = rest % shape[static_cast<int>(d)];
    rest /= shape[static_cast<int>(d)];
  }
  int32_t found[kPiece];
  for (int64_t i = begin; i < end;) {
    const int64_t n = std::min({shape[last] - at[last], end - i, kPiece});
    const int64_t count = collect(found, mask + i, n);
    for (int64_t k = 0; k < count; ++k, y += ndim) {
      for (int d = 0; d < last; ++d) y[d] = at[d];
      y[last] = at[last] + found[k];
    }
    i += n;
    at[last] += n;
    for (int d = last; d > 0 && at[d] == shape[d]; --d) {
      at[d] = 0;
      ++at[d - 1];
    }
  }
}

}  // namespace

Tensor cpu::true_coordinates(const Tensor& mask) {
  const bool* bits = mask.data<bool>();
  const int64_t n = mask.numel(), blocks = ceil_div(n, kBlock);
  std::vector<int64_t> start(static_cast<size_t>(blocks) + 1, 0);
  const auto each_block = [&](auto f) {
    parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        f(static_cast<size_t>(b), b * kBlock, std::min(n, (b + 1) * kBlock));
      }
    });
  };
  each_block([&](size_t block, int64_t begin, int64_t end) {
    int32_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += bits[i] ? 1 : 0;
    start[block + 1] = count;
  });
  std::partial_sum(start.begin(), start.end(), start.begin());
  const Tensor y = empty({start.back(), mask.ndim()}, {.dtype = kI64});
  each_block([&](size_t block, int64_t begin, int64_t end) {
    if (start[block] == start[block + 1]) return;
    write_coordinates(y.data<int64_t>() + start[block] * mask.ndim(), bits, mask.shape(), begin,
                      end);
  });
  return y;
}

}  // namespace lathe
