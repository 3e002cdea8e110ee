// Rows of half types on the CPU, with the bits of computing them element by element. Blocks are
// converted to f32, computed by the kernels of f32, which are vector code, and rounded. A function
// of many instructions is looked up: a half type has 65,536 numbers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "lathe/core/function_ref.h"
#include "lathe/core/half.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"

namespace lathe::cpu {

template <class T>
inline constexpr bool kIsHalf = !std::is_same_v<T, ComputeType<T>>;

/// n numbers that lie `step` bytes apart, as f32.
template <class T>
void read_block(float* to, const char* from, int64_t step, int64_t n) {
  if constexpr (kIsHalf<T>) {
    if (step == sizeof(T)) return convert(to, reinterpret_cast<const T*>(from), n);
  }
  for (int64_t i = 0; i < n; ++i, from += step) {
    to[i] = static_cast<float>(*reinterpret_cast<const T*>(from));
  }
}
template <class T>
void write_block(char* to, int64_t step, const ComputeType<T>* from, int64_t n) {
  if constexpr (kIsHalf<T>) {
    if (step == sizeof(T)) return convert(reinterpret_cast<T*>(to), from, n);
  }
  for (int64_t i = 0; i < n; ++i, to += step) *reinterpret_cast<T*>(to) = T(from[i]);
}

/// Calls compute(block) for blocks of the row, whose operands are f32 and whose result is
/// ComputeType<Out>, all dense or one number. T is computed in f32.
template <class Out, class T, int kOperands>
void row_by_blocks(const StridedRow& row, FunctionRef<void(const StridedRow&)> compute) {
  using Wide = ComputeType<Out>;
  constexpr int64_t kBlock = 1024;  // buffers of 12 KiB for two operands: first-level cache
  float in[kOperands][kBlock];
  Wide result[kBlock];
  char* data[kOperands + 1] = {reinterpret_cast<char*>(result)};
  int64_t step[kOperands + 1] = {sizeof(Wide)};
  for (int k = 1; k <= kOperands; ++k) {
    data[k] = reinterpret_cast<char*>(in[k - 1]);
    step[k] = row.step[k] != 0 ? int64_t{sizeof(float)} : 0;
    if (step[k] == 0) read_block<T>(in[k - 1], row.data[k], 0, 1);
  }
  for (int64_t first = 0; first < row.size; first += kBlock) {
    const int64_t count = std::min(kBlock, row.size - first);
    for (int k = 1; k <= kOperands; ++k) {
      if (step[k] == 0) continue;
      read_block<T>(in[k - 1], row.data[k] + first * row.step[k], row.step[k], count);
    }
    char* const to = row.data[0] + first * row.step[0];
    if (!kIsHalf<Out> && row.dense<Out>(0)) {
      data[0] = to;
      compute(StridedRow{data, step, count});
    } else {
      compute(StridedRow{data, step, count});
      write_block<Out>(to, row.step[0], result, count);
    }
  }
}

/// Rows of at least so many elements are looked up: the pieces of strided_loop.cpp. For shorter
/// rows the table may not be in the cache.
inline constexpr int64_t kLookedUpRow = 256;

/// row(out, x, n) for every number of the half type T, by its bits. Each type of `row` has one
/// table, so that must be the op's own. It is made at the first call and never freed, because
/// static objects' destructors may still compute. Two threads may make it at once, and one of the
/// two is kept: a lock could stay locked in a forked process.
template <class Out, class T, class Row>
const Out* table_of(Row row) {
  static std::atomic<const Out*> kept = nullptr;
  const Out* table = kept.load(std::memory_order_acquire);
  if (table != nullptr) return table;
  constexpr int64_t kCount = 1 << 16;
  const auto numbers = std::make_unique<T[]>(kCount);
  for (int64_t i = 0; i < kCount; ++i) numbers[i] = T::from_bits(static_cast<uint16_t>(i));
  auto results = std::make_unique<Out[]>(kCount);
  row(results.get(), numbers.get(), kCount);
  if (kept.compare_exchange_strong(table, results.get(), std::memory_order_acq_rel)) {
    return results.release();
  }
  return table;
}

/// out[i] = table[bits of x[i]]. Of a bf16 table the part for everyday numbers stays in the
/// first-level cache, of an f16 table in the second-level cache.
template <class Out, class T>
void look_up(Out* out, const Out* table, const T* x, int64_t n) {
#pragma GCC unroll 8
  for (int64_t i = 0; i < n; ++i) out[i] = table[x[i].bits];
}

}  // namespace lathe::cpu
