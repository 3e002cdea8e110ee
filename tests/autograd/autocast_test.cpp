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
      CHECK(matmul(a, b).dtype() == kBF16);  // the CPU's scope goes on
    }
    CHECK(matmul(a, b).dtype() == kBF16);
  }
  CHECK(matmul(a, b).dtype() == kF32);
  CHECK_THROWS_AS(Autocast(kCPU, kF32), DTypeError);
}

TEST_CASE("autocast: the CPU and GPUs have scopes of their own") {
  const Device gpu("cuda:0");
  const Autocast on_gpu(gpu, kF16);
  CHECK_FALSE(amp::autocast_enabled(kCPU));
  {
    const Autocast on_cpu(kCPU, kBF16);
    CHECK(amp::autocast_enabled(kCPU));
    CHECK(amp::autocast_dtype(kCPU) == kBF16);
    CHECK(amp::autocast_enabled(gpu));
    CHECK(amp::autocast_dtype(Device("cuda:1")) == kF16);
    const Autocast gpu_off(gpu, kF16, false);
    CHECK(amp::autocast_enabled(kCPU));
    CHECK_FALSE(amp::autocast_enabled(gpu));
  }
  CHECK(amp::autocast_enabled(gpu));
  CHECK_FALSE(amp::autocast_enabled(kCPU));
}

TEST_CASE("autocast: backward closures run outside every scope") {
  const Tensor x = randn({2}).requires_grad_();
  const Tensor y = x * 2;
  bool inside = false;
  const Device gpu("cuda:0");
  const Autocast on_cpu(kCPU, kBF16), on_gpu(gpu, kF16);
  y.register_hook([&](const Tensor&) {
    inside = amp::autocast_enabled(kCPU) || amp::autocast_enabled(gpu);
    return Tensor();
  });
  y.sum().backward();
  CHECK_FALSE(inside);
  CHECK((amp::autocast_enabled(kCPU) && amp::autocast_enabled(gpu)));
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
