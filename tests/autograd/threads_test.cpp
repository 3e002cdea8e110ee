// What engine.h allows several threads to do at once (ThreadSanitizer looks on).
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

constexpr int kThreads = 4, kPasses = 50;

using Floats = std::vector<float>;
Floats values(const Tensor& t) { return t.to_vector<float>(); }
Tensor leaf(float value) { return full({4}, value).requires_grad_(); }

/// work(thread) on kThreads threads.
template <class Work>
void on_threads(Work work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE("threads: backward passes over shared leaves add up") {
  const Tensor w = leaf(1);
  on_threads([&](int) {
    for (int i = 0; i < kPasses; ++i) (w * 2.0).sum().backward();
  });
  CHECK(values(w.grad()) == Floats(4, 2.f * kThreads * kPasses));
}

TEST_CASE("threads: passes that meet the same leaves in another order do not wait for each other") {
  std::vector<Tensor> leaves;
  for (int i = 0; i < 8; ++i) leaves.push_back(leaf(1));
  on_threads([&](int thread) {
    for (int i = 0; i < kPasses; ++i) {
      Tensor sum = zeros({4});
      for (size_t k = 0; k < leaves.size(); ++k) {
        sum = sum + leaves[thread % 2 == 0 ? k : leaves.size() - 1 - k];
      }
      sum.sum().backward();
    }
  });
  for (const Tensor& w : leaves) CHECK(values(w.grad()) == Floats(4, 1.f * kThreads * kPasses));
}

TEST_CASE("threads: grad() and set_grad() of a leaf while passes add to it") {
  const Tensor w = leaf(1);
  std::atomic<bool> done{false};
  std::thread looker([&] {
    while (!done) {
      if (const Tensor g = w.grad(); g.defined()) CHECK(g.shape() == w.shape());
      w.set_grad({});
    }
  });
  on_threads([&](int) {
    for (int i = 0; i < kPasses; ++i) (w * 2.0).sum().backward();
  });
  done = true;
  looker.join();
  w.set_grad({});
  (w * 2.0).sum().backward();
  CHECK(values(w.grad()) == Floats(4, 2.f));
}

TEST_CASE("threads: grad modes and Autocast belong to the thread") {
  const NoGrad off;
  const Autocast half(kCPU, kBF16);
  const Tensor w = leaf(1);
  std::atomic<int> recorded{0};
  on_threads([&](int) {
    if ((w * 2.0).requires_grad() && !amp::autocast_enabled(kCPU)) ++recorded;
  });
  CHECK(recorded == kThreads);
  CHECK_FALSE((w * 2.0).requires_grad());
}

TEST_CASE("threads: a view of a written base is shared after one look at it") {
  const Tensor w = leaf(3);
  const Tensor base = w * 1.0;
  const Tensor view = base.narrow(0, 1, 2);
  base.mul_(2.0);
  CHECK(view.requires_grad());  // takes the base's new history
  std::atomic<int> right{0};
  std::vector<Tensor> results(kThreads);
  on_threads([&](int thread) {
    for (int i = 0; i < kPasses; ++i) {
      if (view.requires_grad() && !view.is_leaf() && values(view + 1.0) == Floats{7, 7}) ++right;
    }
    results[static_cast<size_t>(thread)] = (view * 1.0).sum();
  });
  CHECK(right == kThreads * kPasses);
  Tensor total = results[0];
  for (int t = 1; t < kThreads; ++t) total = total + results[static_cast<size_t>(t)];
  results.clear();
  total.backward();  // the threads' graphs share the view's ops: one pass for all
  CHECK(values(w.grad()) == Floats{0, 2.f * kThreads, 2.f * kThreads, 0});
}

TEST_CASE("threads: the last handles of graphs over shared leaves go anywhere") {
  const Tensor w = leaf(1);
  std::vector<Tensor> graphs;
  for (int t = 0; t < kThreads; ++t) {
    Tensor y = w;
    for (int i = 0; i < 1000; ++i) y = y + w;
    graphs.push_back(y);
  }
  const Tensor trunk = exp(w);
  std::vector<Tensor> branches;
  for (int t = 0; t < kThreads; ++t) branches.push_back(trunk * 2.0);
  on_threads([&](int thread) {
    graphs[static_cast<size_t>(thread)] = Tensor();
    branches[static_cast<size_t>(thread)] = Tensor();
  });
  CHECK(w.requires_grad());
}
