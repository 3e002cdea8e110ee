// The kernels of ops/index_kernels/scatter_cuda.cu and ops/index_kernels/searchsorted_cuda.cu against the CPU's.
#include "lathe/ops/scatter.h"

#include "lathe/ops/searchsorted.h"
#include "lathe/ops/sort.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("last_writer kernel: the largest writer of each position") {
  manual_seed(18);
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1000}}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{3000}}) {
      if (size == 0 && count > 0) continue;
      const Tensor places = randint(0, std::max<int64_t>(size, 1), {count});
      const Tensor want = empty({size}, {.dtype = kI64});
      const Tensor got = on_device(empty({size}, {.dtype = kI64}));
      cpu::last_writer(want, places);
      cuda::last_writer(got, on_device(places));
      CHECK(difference(on_host(got), want, 0) == "");
    }
  }
}

TEST_CASE("searchsorted kernel: equals the CPU's for every dtype and side") {
  manual_seed(19);
  for (const DType dtype : {kF32, kF64, kI64}) {
    for (const bool right : {false, true}) {
      const Tensor sorted = sort(cast(randint(0, 50, {3, 200}), dtype)).values;
      const Tensor values = cast(randint(-2, 52, {3, 700}), dtype);
      const Tensor want = empty({3, 700}, {.dtype = kI64});
      const Tensor got = on_device(empty({3, 700}, {.dtype = kI64}));
      cpu::searchsorted(want, sorted, values, right);
      cuda::searchsorted(got, on_device(sorted), on_device(values), right);
      CHECK(difference(on_host(got), want, 0) == "");
    }
  }
}
