// The kernels of ops/elementwise_kernels/special_cuda.cu against the CPU's.
#include "lathe/ops/special.h"

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("special kernels: equal the CPU's for every op, dtype and layout") {
  manual_seed(6);
  for (const SpecialOp op :
       {SpecialOp::kLgamma, SpecialOp::kDigamma, SpecialOp::kPolygamma, SpecialOp::kErfinv}) {
    for (const DType dtype : {kF16, kBF16, kF32, kF64}) {
      for (const Layout& layout : layouts()) {
        const Tensor x = layout.apply((rand({7, 45}, {.dtype = kF64}) * 0.98 + 0.01).to(dtype));
        const Tensor want = empty_like(x), device_x = on_device(x), got = empty_like(device_x);
        cpu::special(op, want, x, 2);
        cuda::special(op, got, device_x, 2);
        CAPTURE(concat(static_cast<int>(op), " ", x, " ", layout.name));
        CHECK(difference(on_host(got), want, tolerance_of(dtype)) == "");
      }
    }
  }
}
