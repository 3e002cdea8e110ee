// gradcheck of functions whose inputs are on a GPU: its differences are taken there.
#include "lathe/autograd/gradcheck.h"

#include "../cuda_case.h"
#include "lathe/lathe.h"

using namespace lathe;

TEST_CASE("gradcheck: inputs on a GPU, a right gradient and a wrong one" * test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  const Tensor x = randn({2, 3}, {.dtype = kF64}).to(gpu);
  const Tensor part = randn({4, 3}, {.dtype = kF64}).to(gpu).slice(0, 1, 3);  // with an offset
  const auto right = [](const Tensors& in) { return in[0] * in[0] * in[1]; };
  CHECK(gradcheck(right, {x, part}).ok);
  CHECK(gradgradcheck(right, {x, part}).ok);
  const auto wrong = [](const Tensors& in) { return in[0] * in[0].detach() * in[1]; };
  CHECK_FALSE(gradcheck(wrong, {x, part}).ok);
}
