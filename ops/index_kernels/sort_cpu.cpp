// CPU kernel of sort, argsort and topk: line by line, with the order of sort_order.h. Contracts:
// sort.h.
#include <algorithm>
#include <vector>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/index_kernels/sort_order.h"
#include "lathe/ops/sort.h"

namespace lathe {

namespace {

template <class T>
void sort_lines(T* values, int64_t* indices, const T* x, int64_t lines, int64_t n, int64_t k,
                int64_t inner, bool descending) {
  using A = ComputeType<T>;
  using Element = SortElement<A, int64_t>;
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / 8 / n);
  parallel_for(lines, grain, [&](int64_t begin, int64_t end) {
    std::vector<Element> line(static_cast<size_t>(n));
    const auto before = [descending](const Element& a, const Element& b) {
      return comes_first(a, b, descending);
    };
    for (int64_t l = begin; l < end; ++l) {
      const T* from = x + l / inner * n * inner + l % inner;
      for (int64_t i = 0; i < n; ++i)
        line[static_cast<size_t>(i)] = {static_cast<A>(from[i * inner]), i};
      if (k < n / 8) {  // a heap of k is faster than sorting all
        std::partial_sort(line.begin(), line.begin() + k, line.end(), before);
      } else {
        std::sort(line.begin(), line.end(), before);
      }
      const int64_t to = l / inner * k * inner + l % inner;
      for (int64_t i = 0; i < k; ++i) {
        const Element& e = line[static_cast<size_t>(i)];
        values[to + i * inner] = from[e.at * inner];
        indices[to + i * inner] = e.at;
      }
    }
  });
}

}  // namespace

void cpu::sort(const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n, int64_t k,
               int64_t inner, bool descending) {
  if (values.numel() == 0) return;
  const DType dtype = x.dtype() == kBool ? kU8 : x.dtype();  // false and true are 0 and 1
  visit_number(dtype, "sort", [&](auto tag) {
    using T = typename decltype(tag)::type;
    sort_lines(static_cast<T*>(values.raw_data()), indices.data<int64_t>(),
               static_cast<const T*>(x.raw_data()), x.numel() / n, n, k, inner, descending);
  });
}

}  // namespace lathe
