// CPU kernel of searchsorted: the threads divide the values. Contract: searchsorted.h.
#include "lathe/core/thread_pool.h"
#include "lathe/ops/index_kernels/searchsorted_math.h"
#include "lathe/ops/searchsorted.h"

namespace lathe {

template <class T>
static void search_all(const Tensor& out, const Tensor& sorted, const Tensor& values, bool right) {
  const int64_t n = sorted.dim(1), m = values.dim(1);
  const T *table = sorted.data<T>(), *value = values.data<T>();
  int64_t* place = out.data<int64_t>();
  parallel_for(values.numel(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      place[i] = math::search_row(table + i / m * n, n, value[i], right);
    }
  });
}

void cpu::searchsorted(const Tensor& out, const Tensor& sorted, const Tensor& values, bool right) {
  switch (values.dtype()) {
    case kF32: return search_all<float>(out, sorted, values, right);
    case kF64: return search_all<double>(out, sorted, values, right);
    default: return search_all<int64_t>(out, sorted, values, right);
  }
}

}  // namespace lathe
