// The launches of each --optimizer in the ledger of `lathe plan`, beside those of the emulated GPU.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "../emulation/kernel_access.h"
#include "lathe/lathe.h"
#include "lathe/nn/cifarnet.h"
#include "planned_step.h"
#include "real_step.h"

using namespace lathe;
using namespace lathe::plan;
using namespace lathe::test;

namespace {

constexpr int64_t kBatch = 4;

/// A convolution with its norm and a classifier.
struct Net final : nn::Module {
  nn::Conv2d conv{*this, "conv", 3, 8, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d norm{*this, "norm", 8};
  nn::Linear out{*this, "out", 8, 10};

  Tensor forward(const Tensor& x) override { return out(mean(norm.relu(conv(x)), {2, 3})); }
};

SmallStep planned(const StepCase& c, int64_t batch, const MakeModel& make) {
  const StepRecording step = record(c, batch, make);
  return {batch, launches_of(step, {.tf32 = false})};  // as the library's own choice
}

/// What a kernel reads and writes besides its tensors, at most: partial sums, counts.
constexpr double kBeside = 2400;

/// Compares the own launches one by one, by name and bytes.
void check_case(
    StepCase c, const MakeModel& make = [] { return std::make_unique<Net>(); }) {
  CAPTURE(c.optimizer);
  CAPTURE(c.amp);
  CAPTURE(c.momentum);
  CAPTURE(c.clip);
  const auto net = make();
  const RealStep real = make_real_step(*net, c, kBatch);
  std::vector<Launch> plan = launches_at(kBatch, planned(c, 2, make), planned(c, 3, make));
  std::erase_if(plan, [](const Launch& launch) { return launch.library; });
  REQUIRE(plan.size() == real.launches.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    const Launch& launch = plan[i];
    const Moved& moved = real.launches[i];
    CAPTURE(i);
    CAPTURE(launch.op);
    CAPTURE(moved.kernel);
    CAPTURE(moved.read);
    CAPTURE(moved.written);
    if (launch.kind != LaunchKind::kReduction)
      CHECK(moved.kernel.find(launch.kernel) != std::string::npos);
    if (launch.kind != LaunchKind::kOptimizer || !emulation::TrafficLog::sees_all()) continue;
    CHECK(moved.read + 4 >= launch.read_bytes);
    CHECK(moved.read <= 1.02 * launch.read_bytes + kBeside);
    // Not from below: g++ does not announce the copies of structures by which an update writes.
    CHECK(moved.written <= 1.02 * launch.written_bytes + kBeside);
  }
}

}  // namespace

TEST_CASE("plan: the launches of each optimiser are those of the emulated GPU" * cuda_case()) {
  for (const char* const name :
       {"sgd", "adamw", "rmsprop", "lars", "lamb", "novograd", "lion", "nadam"})
    check_case({.optimizer = name, .side = 4});
  check_case({.optimizer = "sgd", .momentum = 0, .no_decay_norm = true, .side = 4});
  check_case({.optimizer = "rmsprop", .amp = "off", .momentum = 0, .side = 4});
  check_case({.optimizer = "adam", .amp = "off", .clip = 1, .side = 4});
}

// In another order: in the plan Muon's copies follow its products. The launches of the network's
// layers are left out: where an image has one pixel left, the GPU reorders more tensors.
TEST_CASE("plan: Muon's update makes the launches of the emulated GPU" * cuda_case()) {
  const MakeModel narrow = [] {
    return std::make_unique<nn::CifarNet>(nn::CifarNetOptions{.widths = {8, 8, 16}});
  };
  for (const bool sgd : {true, false}) {
    CAPTURE(sgd);
    const StepCase c{.optimizer = "muon", .muon_sgd = sgd, .side = 9};
    const auto net = narrow();
    const RealStep real = make_real_step(*net, c, kBatch);
    int64_t count = 0;
    Moved sum, real_sum;
    for (const Launch& launch : launches_at(kBatch, planned(c, 2, narrow), planned(c, 3, narrow))) {
      if (launch.kind != LaunchKind::kOptimizer) continue;
      ++count;
      sum.read += launch.read_bytes;
      sum.written += launch.written_bytes;
    }
    const auto begin = std::ranges::find_if(real.launches, [](const Moved& launch) {
      return launch.kernel.find("norm_parts_kernel") != std::string::npos;
    });
    CHECK(count == real.launches.end() - begin);
    if (!emulation::TrafficLog::sees_all()) continue;
    for (auto launch = begin; launch != real.launches.end(); ++launch) {
      real_sum.read += launch->read;
      real_sum.written += launch->written;
    }
    CHECK(real_sum.read == doctest::Approx(sum.read).epsilon(0.03));
    // g++ does not announce the copies of structures by which an update writes.
    CHECK(real_sum.written == doctest::Approx(sum.written).epsilon(0.06));
  }
}

TEST_CASE("plan: Adafactor's update makes the launches of the emulated GPU" * cuda_case()) {
  const MakeModel narrow = [] {
    return std::make_unique<nn::CifarNet>(nn::CifarNetOptions{.widths = {8, 8, 16}});
  };
  for (const char* const amp : {"fp16", "bf16"}) {
    CAPTURE(amp);
    const StepCase c{.optimizer = "adafactor", .amp = amp, .clip = 1, .side = 9};
    const auto net = narrow();
    const RealStep real = make_real_step(*net, c, kBatch);
    int64_t count = 0;
    Moved sum, real_sum;
    for (const Launch& launch : launches_at(kBatch, planned(c, 2, narrow), planned(c, 3, narrow))) {
      if (launch.kind != LaunchKind::kOptimizer) continue;
      ++count;
      sum.read += launch.read_bytes;
      sum.written += launch.written_bytes;
    }
    const auto begin = std::ranges::find_if(real.launches, [](const Moved& launch) {
      return launch.kernel.find("norm_parts_kernel") != std::string::npos;
    });
    CHECK(count == real.launches.end() - begin);
    if (!emulation::TrafficLog::sees_all()) continue;
    for (auto launch = begin; launch != real.launches.end(); ++launch) {
      real_sum.read += launch->read;
      real_sum.written += launch->written;
    }
    CHECK(real_sum.read == doctest::Approx(sum.read).epsilon(0.03));
    // g++ does not announce the copies of structures by which an update writes: v and p here.
    CHECK(real_sum.written == doctest::Approx(sum.written).epsilon(0.16));
  }
}
