// CPU kernel of ops/where.h: moves values without computing anything.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "lathe/core/visit.h"
#include "lathe/ops/row_kernels.h"
#include "lathe/ops/where.h"

namespace lathe::cpu {

namespace {

template <size_t bytes>
using Word = std::conditional_t<
    bytes == 1, uint8_t,
    std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

/// out[i] = cond[i] ? a : b by masks: without a branch, which random conditions would mislead
/// every other time. A and B are rows or numbers of T. A condition is read as a byte, because g++
/// makes no vector code of a bool that becomes a number.
template <class T, class A, class B>
LATHE_CLONES void choose(T* out, const unsigned char* cond, int64_t n, A a, B b) {
  using U = Word<sizeof(T)>;
  for (int64_t i = 0; i < n; ++i) {
    const U mask = static_cast<U>(-static_cast<U>(cond[i]));
    U x, y;
    if constexpr (std::is_pointer_v<A>) {
      x = std::bit_cast<U>(a[i]);
    } else {
      x = std::bit_cast<U>(a);
    }
    if constexpr (std::is_pointer_v<B>) {
      y = std::bit_cast<U>(b[i]);
    } else {
      y = std::bit_cast<U>(b);
    }
    out[i] = std::bit_cast<T>(static_cast<U>((x & mask) | (y & static_cast<U>(~mask))));
  }
}

template <class T>
void where_row(const StridedRow& row, TypeTag<T> /*values*/) {
  if (row.dense<T>(0) && row.dense<bool>(1)) {
    T* const to = row.at<T>(0);
    const unsigned char* const by = row.at<unsigned char>(1);
    const T *const a = row.at<T>(2), *const b = row.at<T>(3);
    if (row.dense<T>(2) && row.dense<T>(3)) return choose(to, by, row.size, a, b);
    if (row.dense<T>(2) && row.step[3] == 0) return choose(to, by, row.size, a, *b);
    if (row.step[2] == 0 && row.dense<T>(3)) return choose(to, by, row.size, *a, b);
    // The gradient of a mean of where().
    if (row.step[2] == 0 && row.step[3] == 0) return choose(to, by, row.size, *a, *b);
  }
  char *out = row.data[0], *cond = row.data[1], *a = row.data[2], *b = row.data[3];
  for (int64_t i = 0; i < row.size; ++i) {
    const char* from = *reinterpret_cast<const bool*>(cond) ? a : b;
    *reinterpret_cast<T*>(out) = *reinterpret_cast<const T*>(from);
    out += row.step[0], cond += row.step[1], a += row.step[2], b += row.step[3];
  }
}

}  // namespace

RowKernel where_kernel(DType values) {
  RowKernel kernel;
  visit_all(values, [&]<class T>(TypeTag<T>) {
    kernel = RowKernel::of<where_row<T>>(values, values, TypeTag<T>());
  });
  return kernel;
}

void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b) {
  strided_loop(out, cond, a, b, where_kernel(out.dtype()));
}

}  // namespace lathe::cpu
