// A step that runs out of memory anywhere changes nothing. Tensors come from the host allocator,
// which has a fault point; everything else from operator new, which gets one here.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/lion.h"
#include "lathe/optim/muon.h"
#include "lathe/optim/novograd.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"

namespace {
constinit thread_local int64_t t_allocations_left = INT64_MAX;  // on this thread, before one fails
}

// The whole program's. The forms for arrays are made from these by the standard library; those for
// over-aligned types stay as they are, in pairs.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return t_allocations_left-- == 0 ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* block = operator new(bytes, std::nothrow)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  std::free(block);
}

namespace lathe {
namespace {

/// Two groups; in each a parameter above the parallel grain and one that is not dense in memory.
struct Training {
  Tensors params;
  std::unique_ptr<optim::Optimizer> optimizer;

  std::vector<std::vector<float>> everything() const {
    std::vector<std::vector<float>> out;
    for (const Tensor& p : params) out.push_back(p.to_vector<float>());
    for (const auto& [name, t] : optimizer->state_dict()) out.push_back(t.to_vector<float>());
    return out;
  }
};

template <class Optimizer, class Group, class Options>
Training make(const Options& options) {
  Training out;
  Generator generator(5);
  std::vector<Group> groups(2);
  for (Group& group : groups) {
    const Tensor large = randn({200, 200}, {}, &generator);
    const Tensor sparse = randn({6, 4}, {}, &generator).slice(1, 0, 4, 2).detach();
    for (const Tensor& p : {large, sparse}) {
      p.requires_grad_();
      p.set_grad(randn(p.shape(), {}, &generator));
      group.params.push_back(p);
      out.params.push_back(p);
    }
  }
  out.optimizer = std::make_unique<Optimizer>(std::move(groups), options);
  return out;
}

/// Lets step() fail at its first, second, … allocation until it no longer does.
template <class Fail>
void check_all_or_nothing(const std::function<Training()>& make_training, Fail fail_at) {
  constexpr int kEnough = 1000;
  for (int n = 0; n < kEnough; ++n) {
    CAPTURE(n);
    Training t = make_training();
    if (n % 2 == 1) t.optimizer->step();  // with buffers that exist already, too
    const auto before = t.everything();
    bool threw = false;
    try {
      fail_at(n / 2, [&] { t.optimizer->step(); });
    } catch (const OutOfMemoryError&) {
      threw = true;
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    if (!threw) {
      CHECK(t.everything() != before);
      if (n % 2 == 1) return;
      continue;
    }
    REQUIRE(t.everything() == before);
  }
  FAIL("step() never succeeded");
}

const std::function<Training()> kMakes[] = {
    [] { return make<optim::SGD, optim::SGDGroup>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}); },
    [] { return make<optim::Adam, optim::AdamGroup>(optim::AdamOptions{.amsgrad = true}); },
    [] {
      return make<optim::RMSprop, optim::RMSpropGroup>(
          optim::RMSpropOptions{.momentum = 0.9, .centered = true});
    },
    [] { return make<optim::LARS, optim::LARSGroup>(optim::LARSOptions{}); },
    [] { return make<optim::Lion, optim::LionGroup>(optim::LionOptions{}); },
    [] { return make<optim::Muon, optim::MuonGroup>(optim::MuonOptions{.ns_steps = 1}); },
    [] { return make<optim::Adafactor, optim::AdafactorGroup>(optim::AdafactorOptions{}); },
    [] { return make<optim::NovoGrad, optim::NovoGradGroup>(optim::NovoGradOptions{}); },
};

TEST_CASE("step: tensors that cannot be allocated leave parameters and state as they were") {
  for (const auto& make_training : kMakes) {
    check_all_or_nothing(make_training, [](int n, auto step) {
      const ArmedFault fault(host_allocator().fault(), n + 1);
      step();
    });
  }
}

TEST_CASE("step: so does any other allocation that fails") {
  for (const auto& make_training : kMakes) {
    check_all_or_nothing(make_training, [](int n, auto step) {
      struct Reset {
        ~Reset() { t_allocations_left = INT64_MAX; }
      } reset;
      t_allocations_left = n;
      step();
    });
  }
}

}  // namespace
}  // namespace lathe
