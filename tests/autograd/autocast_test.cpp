// Autocast scopes: which ops change dtype, nesting, and gradients.
#include "lathe/autograd/autocast.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "lathe/autograd/cast_cache.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"

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
  CHECK_THROWS_AS((void)Autocast(kCPU, kF32), DTypeError);
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

TEST_CASE("autocast: an exception leaves the scope as it was, and other threads never see it") {
  try {
    const Autocast scope(kCPU, kBF16);
    matmul(zeros({2, 3}), zeros({2, 3}));
    FAIL("not reached");
  } catch (const ShapeError&) {
  }
  CHECK_FALSE(amp::autocast_enabled(kCPU));
  CHECK_FALSE(Autocast::active());
  const Autocast scope(kCPU, kBF16);
  bool seen = true;
  std::thread([&] { seen = amp::autocast_enabled(kCPU) || Autocast::active(); }).join();
  CHECK_FALSE(seen);
}

TEST_CASE("autocast: a parameter is cast once until it changes or the outermost scope ends") {
  const Tensor w = randn({4, 4}).requires_grad_(), x = randn({4, 4});
  const auto kept = [&] { return amp::find_cast(w, kBF16); };
  {
    const Autocast outer(kCPU, kBF16);
    CHECK_FALSE(kept().defined());
    {
      const Autocast inner(kCPU, kBF16);
      matmul(x, w);
    }
    const Tensor first = kept();
    REQUIRE(first.defined());
    matmul(w, x);
    CHECK(kept().is_same(first));
    CHECK_FALSE(amp::find_cast(x, kBF16).defined());  // no parameter
    CHECK_FALSE(amp::find_cast(w, kF16).defined());
    bool elsewhere = true;
    std::thread([&] { elsewhere = kept().defined(); }).join();
    CHECK_FALSE(elsewhere);
    {
      const NoGrad off;
      CHECK_FALSE(kept().defined());  // one without history is another one
      matmul(x, w);
      CHECK_FALSE(kept().requires_grad());
    }
    CHECK_FALSE(kept().defined());
    const Tensor y = matmul(x, w);
    CHECK(y.requires_grad());
    {
      const NoGrad off;
      w.mul_(2);  // what an optimiser does
    }
    CHECK_FALSE(kept().defined());
    const auto twice = matmul(x, w).to_vector<float>(), once = y.to_vector<float>();
    for (size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == 2 * once[i]);
    w.set_data(zeros({4, 4}));
    CHECK(matmul(x, w).to_vector<float>() == std::vector<float>(16, 0));
    {
      const Autocast off(kCPU, kBF16, false);
      CHECK(matmul(x, w).dtype() == kF32);
    }
    CHECK(kept().defined());
  }
  CHECK_FALSE(kept().defined());
  const InferenceMode inference;
  const Autocast scope(kCPU, kBF16);
  matmul(x, w);
  CHECK_FALSE(kept().defined());
}

TEST_CASE("autocast: other data of the same version is cast again") {
  const Tensor w = ones({2, 1}).requires_grad_(), x = ones({1, 2});
  const Autocast scope(kCPU, kBF16);
  CHECK(matmul(x, w).item<float>() == 2);
  const Tensor other = empty({2, 1});
  fill_values(other, 5.0);
  REQUIRE(other.version() == w.version());
  w.set_data(other);
  CHECK(matmul(x, w).item<float>() == 10);
}

TEST_CASE("autocast: a parameter that is frozen inside the scope gets no gradient from then on") {
  const Tensor w = randn({3, 3}).requires_grad_(), v = randn({3, 3}).requires_grad_();
  const Autocast scope(kCPU, kBF16);
  matmul(v, w);
  w.requires_grad_(false);
  matmul(v, w).sum().backward();
  CHECK(v.grad().defined());
  CHECK_FALSE(w.grad().defined());
  w.requires_grad_();
  matmul(v, w).sum().backward();
  CHECK(w.grad().defined());
}

TEST_CASE("autocast: inputs that are gone do not pile up until the outermost scope ends") {
  const Tensor w = randn({3, 3}).requires_grad_();
  const Autocast scope(kCPU, kBF16);
  std::vector<StoragePtr> inputs;
  const auto held = [&] {
    return std::ranges::count_if(inputs, [](const StoragePtr& s) { return s->use_count() > 1; });
  };
  const Tensor first = matmul(randn({3, 3}), w).sum();
  const Tensor cast = amp::find_cast(w, kBF16);
  for (int i = 0; i < 100; ++i) {
    const Tensor x = randn({3, 3}).requires_grad_();  // an adversarial example, say
    inputs.push_back(x.impl().storage);
    const Tensor y = matmul(x, w).sum();
    if (i % 2 == 0) y.backward();
    CHECK(amp::find_cast(x, kBF16).defined());
    CHECK(held() <= 9);
  }
  CHECK(amp::find_cast(w, kBF16).is_same(cast));
}

TEST_CASE("autocast: graphs that share a kept cast have their own backward passes") {
  const Tensor w = randn({3, 3}).requires_grad_();
  const Tensor a = randn({3, 3}), b = randn({3, 3});
  const auto gradient = [&](bool one_scope) {
    w.set_grad({});
    const auto loss = [&](const Tensor& x) { return matmul(x, w).sum(); };
    if (one_scope) {
      const Autocast scope(kCPU, kBF16);
      const Tensor first = loss(a), second = loss(b);
      first.backward();
      second.backward();
      loss(a).backward();
    } else {
      for (const Tensor& x : {a, b, a}) {
        Tensor y;
        {
          const Autocast scope(kCPU, kBF16);
          y = loss(x);
        }
        y.backward();
      }
    }
    return w.grad().to_vector<float>();
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE(
    "autocast: batch norm takes and gives half, with statistics, parameters and gradients in f32") {
  std::vector<Device> devices = {kCPU};
  if (cuda_is_available()) devices.emplace_back(DeviceType::kCUDA);
  for (const Device device : devices) {
    for (const DType half : {kF16, kBF16}) {
      Generator generator(2);
      const auto input = [&](const Shape& shape) {
        return randn(shape, {}, &generator).to(device).detach();
      };
      const Tensor x = input({4, 3, 6, 6});
      const Tensor w = (input({5, 3, 3, 3}) * 0.3).detach().requires_grad_();
      const Tensor scale = ones({5}, {.device = device}).requires_grad_();
      const Tensor shift = zeros({5}, {.device = device}).requires_grad_();
      const Tensor mean = zeros({5}, {.device = device}), variance = ones({5}, {.device = device});
      Tensor loss;
      {
        const Autocast scope(device, half);
        const Tensor y = conv2d(x, w, {.pad = 1});
        const Tensor z = batch_norm(y, scale, shift, mean, variance, {.training = true});
        CHECK(y.dtype() == half);
        CHECK(z.dtype() == half);
        CHECK(relu(z).dtype() == half);
        loss = square(z).mean() + z.sum() * 0.01;
        CHECK(loss.dtype() == kF32);
      }
      loss.backward();
      for (const Tensor& t : {w.grad(), scale.grad(), shift.grad(), mean, variance}) {
        CHECK(t.dtype() == kF32);
        CHECK(t.abs().sum().item<float>() > 0);
      }
    }
  }
}
