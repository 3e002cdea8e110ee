// Memory by tag against sizes counted by hand, and the forecast against what is measured.
#include "lathe/core/hooks/memory_use.h"

#include <doctest/doctest.h>

#include <numeric>
#include <optional>

#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"

namespace lathe::profile {
namespace {

int64_t held(MemoryTag tag) { return memory_use().of(tag); }

int64_t sum_of(const std::array<int64_t, kMemoryTags>& split) {
  return std::accumulate(split.begin(), split.end(), int64_t{0});
}

TEST_CASE("memory_use: a scope tags what its thread makes, and the inner one counts") {
  const int64_t data = held(MemoryTag::kData), work = held(MemoryTag::kWorkspace);
  std::optional<Tensor> a, b;
  {
    const MemoryTagScope outer(MemoryTag::kData);
    a = empty({100});
    {
      const MemoryTagScope inner(MemoryTag::kWorkspace);
      b = empty({7}, {.dtype = kU8});
    }
    CHECK(current_memory_tag() == MemoryTag::kData);
  }
  CHECK(current_memory_tag() == MemoryTag::kOther);
  CHECK(held(MemoryTag::kData) - data == 400);
  CHECK(held(MemoryTag::kWorkspace) - work == 7);
  a->impl().storage->set_tag(MemoryTag::kWorkspace);
  CHECK(held(MemoryTag::kData) == data);
  CHECK(held(MemoryTag::kWorkspace) - work == 407);
  a.reset(), b.reset();
  CHECK(held(MemoryTag::kWorkspace) == work);
}

TEST_CASE("memory_use: the peak and its split are those of one moment") {
  reset_memory_peak();
  const MemoryUse before = memory_use();
  CHECK(before.peak == before.in_use);
  {
    const MemoryTagScope scope(MemoryTag::kData);
    const Tensor first = empty({1000});
    { const Tensor gone = empty({5000}); }
    const MemoryTagScope inner(MemoryTag::kWorkspace);
    const Tensor second = empty({2000});
  }
  const MemoryUse after = memory_use();
  CHECK(after.in_use == before.in_use);
  CHECK(after.peak - before.in_use == 24'000);
  CHECK(after.of_peak(MemoryTag::kData) - before.of(MemoryTag::kData) == 24'000);
  CHECK(after.of_peak(MemoryTag::kWorkspace) == before.of(MemoryTag::kWorkspace));
  CHECK(sum_of(after.at_peak) == after.peak);
  CHECK(sum_of(after.now) == after.in_use);
}

TEST_CASE("memory_use: a training step's memory by hand") {
  const MemoryUse before = memory_use();
  const auto grown = [&](MemoryTag tag) { return held(tag) - before.of(tag); };
  nn::Linear layer(10, 20);  // 200 + 20 f32
  CHECK(grown(MemoryTag::kWeights) == 880);
  optim::SGD optimizer(layer.parameters(), {.lr = 0.1, .momentum = 0.9});
  {
    const Tensor x = ones({4, 10});
    const Tensor h = relu(layer(x));  // two results of 4 x 20; relu keeps its own
    CHECK(grown(MemoryTag::kActivations) >= 320);
    CHECK(grown(MemoryTag::kActivations) <= 160 + 2 * 320);  // x is kept for the weight's gradient
    CHECK(grown(MemoryTag::kGradients) == 0);
    sum(h).backward();
    CHECK(grown(MemoryTag::kGradients) == 880);
  }
  CHECK(grown(MemoryTag::kActivations) == 0);
  optimizer.step();
  CHECK(grown(MemoryTag::kOptimizer) == 880);
  optimizer.zero_grad();
  CHECK(grown(MemoryTag::kGradients) == 0);
  layer.to(kF64);
  CHECK(grown(MemoryTag::kWeights) == 1760);
}

TEST_CASE("memory_use: a program's own weight is no activation when an op keeps it") {
  const int64_t activations = held(MemoryTag::kActivations);
  const Tensor w = ones({10, 5}).requires_grad_(), b = ones({5}).requires_grad_();
  {
    const Tensor x = ones({4, 10});
    const Tensor y = square(matmul(x, w) * b);
    CHECK(held(MemoryTag::kActivations) > activations);
    const Tensor z = matmul(ones({4, 5}), w.t());  // a view of it
  }
  CHECK(w.impl().storage->tag() == MemoryTag::kOther);
  CHECK(b.impl().storage->tag() == MemoryTag::kOther);
  CHECK(held(MemoryTag::kActivations) == activations);
}

TEST_CASE("memory_use: a state that is loaded is the optimiser's, as one that a step makes") {
  const auto weights = [] { return Tensors{ones({100}).requires_grad_()}; };
  const auto loss_of = [](const Tensors& w) { return sum(square(w[0])); };
  const auto grown_by = [](const auto& f) {
    const int64_t before = held(MemoryTag::kOptimizer);
    f();
    return held(MemoryTag::kOptimizer) - before;
  };
  const Tensors w = weights();
  optim::Adam adam(w, {}), adam_again(weights(), {});
  loss_of(w).backward();
  CHECK(grown_by([&] { adam.step(); }) == 800);
  CHECK(grown_by([&] { adam_again.load_state_dict(adam.state_dict()); }) == 800);

  const Tensors v = weights();
  optim::LBFGS lbfgs(v, {.lr = 0.1, .max_iter = 4}), lbfgs_again(weights(), {});
  const auto closure = [&] {
    lbfgs.zero_grad();
    const Tensor loss = sum(square(square(v[0])));
    CHECK(loss.impl().storage->tag() == MemoryTag::kActivations);
    CHECK(empty({1}).impl().storage->tag() == MemoryTag::kOther);  // as outside of a step
    loss.backward();
    return loss;
  };
  CHECK(grown_by([&] { lbfgs.step(closure); }) == 400 * (2 + 2 * 3));  // the last two and 3 pairs
  CHECK(grown_by([&] { lbfgs_again.load_state_dict(lbfgs.state_dict()); }) == 400 * (2 + 2 * 3));

  nn::Linear layer(10, 20);
  std::optional<optim::EMA> ema;
  CHECK(grown_by([&] { ema.emplace(layer, optim::EMAOptions{}); }) == 880);
  CHECK(grown_by([&] { ema->load_state_dict(StateDict(ema->state_dict())); }) == 0);
}

TEST_CASE("memory_use: batches of a loader are data, with workers and without") {
  struct Numbers final : data::Dataset {
    int64_t size() const override { return 8; }
    data::SampleSpec spec() const override { return {{{"x", {}, kI64}}}; }
    void read(int64_t i, data::Key, data::Slot out) const override { out.set<int64_t>(0, i); }
  };
  const Numbers set;
  for (const int64_t workers : {0, 2}) {
    data::DataLoader loader(set, {.batch_size = 4, .num_workers = workers});
    const int64_t before = held(MemoryTag::kData);
    for (auto& batch : loader) {
      CHECK(held(MemoryTag::kData) - before >= 32);
      static_cast<void>(batch);
    }
  }
}

TEST_CASE("memory_use: as text, the largest holder first") {
  MemoryUse use;
  CHECK(use.holders() == "nothing");
  use.now = {0, 2048, 0, 0, 4096, 0, 0};
  use.at_peak = {1024, 2048, 0, 0, 8192, 0, 0};
  use.in_use = 6144, use.peak = 11264;
  CHECK(use.holders() == "activations 4 KiB, weights 2 KiB");
  const std::string text = use.text();
  CHECK(text.find("gradients") == std::string::npos);
  CHECK(text.find("activations") < text.find("all"));
}

TEST_CASE("out of memory: the error says who holds what") {
  const MemoryTagScope scope(MemoryTag::kData);
  const Tensor held_one = empty({1000});
  FaultPoint& fault = host_allocator().fault();
  for (const char* expected : {"tensors hold: ", "data "}) {
    fault.fail_at(1);
    CHECK_THROWS_WITH_AS(empty({10}), doctest::Contains(expected), OutOfMemoryError);
    fault.disarm();
  }
}

}  // namespace
}  // namespace lathe::profile
