// The kernels of ops/elementwise_kernels/bitwise_cuda.cu against the CPU's.
#include "lathe/ops/bitwise.h"

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("bitwise kernels: equal the CPU's for every op, dtype and layout") {
  manual_seed(7);
  for (const BitOp op :
       {BitOp::kAnd, BitOp::kOr, BitOp::kXor, BitOp::kLeftShift, BitOp::kRightShift}) {
    for (const DType dtype : {kU8, kI8, kI16, kI32, kI64}) {
      for (const Layout& layout : layouts()) {
        const Tensor a = layout.apply(randint(0, 127, {7, 45}).to(dtype));
        const Tensor b = layout.apply(randint(0, 70, {7, 45}).to(dtype));
        for (const Tensor& second : {b, b.narrow(0, 3, 1)}) {  // dense, and broadcast
          const Tensor want = empty_like(a), device_a = on_device(a), got = empty_like(device_a);
          cpu::bitwise(op, want, a, second);
          cuda::bitwise(op, got, device_a, on_device(second));
          CAPTURE(concat(static_cast<int>(op), " ", a, " ", layout.name, " ", second));
          CHECK(difference(on_host(got), want, 0) == "");
        }
      }
    }
  }
}
