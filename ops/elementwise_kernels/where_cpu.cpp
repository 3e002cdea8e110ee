// CPU kernel of ops/where.h: moves values without computing anything.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"
#include "lathe/ops/where.h"

namespace lathe::cpu {

namespace {

template <size_t bytes>
using Word = std::conditional_t<
    bytes == 1, uint8_t,
    std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

/// out[i] = cond[i] ? a(i) : b(i) by masks: without a branch, which random conditions would mislead
/// every other time, the loop becomes vector code.
template <class T, class A, class B>
void choose(T* out, const bool* cond, int64_t n, A a, B b) {
  using U = Word<sizeof(T)>;
  for (int64_t i = 0; i < n; ++i) {
    const U mask = static_cast<U>(-static_cast<U>(cond[i]));
    const U x = std::bit_cast<U>(a(i)), y = std::bit_cast<U>(b(i));
    out[i] = std::bit_cast<T>(static_cast<U>((x & mask) | (y & static_cast<U>(~mask))));
  }
}

template <class T>
void where_row(const StridedRow& row) {
  if (row.dense<T>(0) && row.dense<bool>(1)) {
    T* const to = row.at<T>(0);
    const bool* const by = row.at<bool>(1);
    const T *const from_a = row.at<T>(2), *const from_b = row.at<T>(3);
    const auto each = [](const T* values) { return [values](int64_t i) { return values[i]; }; };
    const auto same = [](const T* value) { return [v = *value](int64_t) { return v; }; };
    if (row.dense<T>(2) && row.dense<T>(3)) {
      return choose(to, by, row.size, each(from_a), each(from_b));
    }
    if (row.dense<T>(2) && row.step[3] == 0) {
      return choose(to, by, row.size, each(from_a), same(from_b));
    }
    if (row.step[2] == 0 && row.dense<T>(3)) {
      return choose(to, by, row.size, same(from_a), each(from_b));
    }
    if (row.step[2] == 0 && row.step[3] == 0) {  // the gradient of a mean of where()
      return choose(to, by, row.size, same(from_a), same(from_b));
    }
  }
  char *out = row.data[0], *cond = row.data[1], *a = row.data[2], *b = row.data[3];
  for (int64_t i = 0; i < row.size; ++i) {
    const char* from = *reinterpret_cast<const bool*>(cond) ? a : b;
    *reinterpret_cast<T*>(out) = *reinterpret_cast<const T*>(from);
    out += row.step[0], cond += row.step[1], a += row.step[2], b += row.step[3];
  }
}

}  // namespace

void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b) {
  visit_all(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(out, cond, a, b, [](const StridedRow& row) { where_row<T>(row); });
  });
}

}  // namespace lathe::cpu
