// CPU kernel of scatter.h: one pass in order, so the last writer stays.
#include <algorithm>

#include "lathe/ops/scatter.h"

namespace lathe::cpu {

void last_writer(const Tensor& last, const Tensor& places) {
  int64_t* writer = last.data<int64_t>();
  const int64_t* place = places.data<int64_t>();
  std::fill_n(writer, last.numel(), int64_t{-1});
  for (int64_t k = 0; k < places.numel(); ++k) writer[place[k]] = k;
}

}  // namespace lathe::cpu
