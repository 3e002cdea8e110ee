// CPU kernel of ops/where.h: moves values without computing anything.
#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"
#include "lathe/ops/where.h"

namespace lathe::cpu {

namespace {

template <class T>
void where_row(const StridedRow& row) {
  if (row.dense<T>(0) && row.dense<bool>(1) && row.dense<T>(2) && row.dense<T>(3)) {
    T* out = row.at<T>(0);
    const bool* cond = row.at<bool>(1);
    const T *a = row.at<T>(2), *b = row.at<T>(3);
    for (int64_t i = 0; i < row.size; ++i) out[i] = cond[i] ? a[i] : b[i];
    return;
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
