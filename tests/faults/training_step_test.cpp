// A training step on the CPU that fails anywhere: a clean error, nothing held, and the step done
// again gives the bits of one that never failed. On a GPU: tests/cuda/memory_failure_test.cpp.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <vector>

#include "../small_conv_net.h"
#include "failing_calls.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"

namespace lathe {
namespace {

class Training {
 public:
  Training() { set_num_threads(1); }  // OpenMP's would spin between two ops
  ~Training() { set_num_threads(threads_); }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void prepare() {
    manual_seed(7);
    x_ = randn({2, 3, 6, 6});
    y_ = tensor({1, 3}).to(kI64);
    net_ = std::make_unique<test::SmallConvNet>();
    optimizer_ = std::make_unique<optim::SGD>(net_->parameters(),
                                              optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    for (const Tensor& p : net_->parameters()) p.set_grad(zeros(p.shape()));
    start_ = net_->state_dict().clone();
    loss_ = 0;
  }

  void step() {
    for (const Tensor& p : net_->parameters()) p.set_grad({});
    const Tensor loss = cross_entropy((*net_)(x_), y_);
    loss.backward();
    optim::clip_grad_norm_(net_->parameters(), 1.0);
    loss_ = loss.item<float>();
    optimizer_->step();  // last: all or nothing
  }

  void check_failed() {
    // Gradients that were there before the optimiser failed are let go, and others take their room;
    // batch norm's statistics moved with a forward pass that worked.
    for (const Tensor& p : net_->parameters()) p.set_grad(zeros(p.shape()));
    net_->load_state_dict(start_);
  }

  void check_done() {
    std::vector<std::vector<float>> now = {{loss_}};
    for (const StateDict& state : {net_->state_dict(), optimizer_->state_dict()})
      for (const auto& [name, t] : state) now.push_back(t.to(kF32).to_vector<float>());
    if (!reference_) reference_ = now;
    CHECK(now == *reference_);
  }

 private:
  const int threads_ = num_threads();
  Tensor x_, y_;
  std::unique_ptr<test::SmallConvNet> net_;
  std::unique_ptr<optim::SGD> optimizer_;
  StateDict start_;
  float loss_ = 0;
  std::optional<std::vector<std::vector<float>>> reference_;
};

test::Attempt attempt(Training& t) {
  return {.prepare = [&] { t.prepare(); },
          .run = [&] { t.step(); },
          .check_failed = [&] { t.check_failed(); },
          .check_done = [&] { t.check_done(); }};
}

TEST_CASE("faults: a training step that runs out of memory for any tensor can be done again") {
  Training training;
  CHECK(test::fail_everywhere(host_allocator().fault(), attempt(training)) > 20);
}

TEST_CASE("faults: the same for any other allocation") {
  Training training;
  CHECK(test::fail_everywhere(test::new_fault(), attempt(training)) > 50);
}

}  // namespace
}  // namespace lathe
