// compile: a user's own activation and loss as one loop over the cache, with their gradients; what
// was fused; and the time that it saves.
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

namespace jit = lathe::jit;
using lathe::Tensor;
using lathe::Tensors;

namespace {

/// Ten pointwise ops.
Tensors chain(const Tensors& t) {
  const Tensor &x = t[0], &y = t[1];
  const Tensor z = (x * y + x).relu() - y * 0.5;
  return {((z * z + 1) * x - z).maximum(y)};
}

/// The Huber loss, as its definition reads.
Tensors huber(const Tensors& t) {
  const Tensor d = t[0] - t[1], size = d.abs();
  return {where(size < 1, d.square() * 0.5, size - 0.5).mean()};
}

/// The least time of a call in ms.
double least_ms(const std::function<void()>& call) {
  double least = 1e9;
  for (int i = 0; i < 30; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count());
  }
  return least;
}

Tensor gradient(const std::function<Tensors(const Tensors&)>& loss, const Tensor& x,
                const Tensor& target) {
  const Tensor leaf = x.detach().requires_grad_();
  loss({leaf, target})[0].backward();
  return leaf.grad();
}

}  // namespace

int main() {
  lathe::manual_seed(1);
  const Tensor x = lathe::randn({1000000}), y = lathe::randn({1000000});
  const jit::CompiledFunction fused = jit::compile(chain), loss = jit::compile(huber);

  const bool equal = lathe::equal(fused({x, y})[0], chain({x, y})[0]) &&
                     lathe::equal(gradient(loss, x, y), gradient(huber, x, y));
  std::cout << fused.explain() << loss.explain();

  {
    const lathe::NoGrad off;
    const double one_by_one = least_ms([&] { chain({x, y}); });
    const double together = least_ms([&] { fused({x, y}); });
    std::cout << "ten ops on 10^6 numbers: " << one_by_one << " ms one by one, " << together
              << " ms together\n";
  }
  const double one_by_one = least_ms([&] { gradient(huber, x, y); });
  const double together = least_ms([&] { gradient(loss, x, y); });
  std::cout << "a loss with its gradient: " << one_by_one << " ms and " << together << " ms\n"
            << "equal bits: " << (equal ? "yes" : "no") << "\n";
}
