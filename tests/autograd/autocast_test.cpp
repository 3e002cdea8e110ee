// Autocast scopes: which ops change dtype, nesting, and gradients.
#include "lathe/autograd/autocast.h"

#include <doctest/doctest.h>

#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"

using namespace lathe;

TEST_CASE("autocast: products are computed in half, sums and softmax in f32; scopes nest") {
  const Tensor a = randn({4, 4}), b = randn({4, 4});
  const Tensor half = a.to(kBF16);
  {
    const Autocast outer(kCPU, kBF16);
    CHECK(matmul(a, b).dtype() == kBF16);
    CHECK(softmax(half, 1).dtype() == kF32);
    CHECK((a + half).dtype() == kF32);  // no word: the wider of both
    CHECK(matmul(a.to(kF64), b.to(kF64)).dtype() == kF64);
    {
      const Autocast inner(kCPU, kF16, false);
      CHECK(matmul(a, b).dtype() == kF32);
    }
    {
      const Autocast gpu_only(Device("cuda:0"), kF16);
      CHECK(matmul(a, b).dtype() == kF32);
    }
    CHECK(matmul(a, b).dtype() == kBF16);
  }
  CHECK(matmul(a, b).dtype() == kF32);
  CHECK_THROWS_AS(Autocast(kCPU, kF32), DTypeError);
}

TEST_CASE("autocast: f32 parameters get f32 gradients, the same inside and outside the scope") {
  const Tensor w = randn({4, 4}).requires_grad_(), x = randn({4, 4});
  const auto loss = [&] {
    const Autocast scope(kCPU, kBF16);
    return matmul(x, w).sum() + matmul(x, w * w).mean();
  };
  loss().backward();
  const Tensor outside = w.grad();
  CHECK(outside.dtype() == kF32);
  w.set_grad({});
  {
    const Tensor y = loss();
    const Autocast scope(kCPU, kBF16);
    y.backward();
  }
  CHECK(w.grad().to_vector<float>() == outside.to_vector<float>());
}
