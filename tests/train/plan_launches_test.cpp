// The ledger of `lathe plan`, which is made without a GPU, beside a training step on the emulated
// one: its launches one by one, what they move, and its memory.
#include <memory>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "../emulation/kernel_access.h"
#include "../narrow_resnet18.h"
#include "lathe/lathe.h"
#include "lathe/train/plan/memory_plan.h"
#include "lathe/train/plan/unmeasured_launches.h"
#include "planned_step.h"
#include "real_step.h"

using namespace lathe;
using namespace lathe::plan;
using namespace lathe::test;

namespace {

constexpr int64_t kBatch = 16;  // not one of those that the plan runs

const StepCase kStep{.side = 16};

StepRecording recording_of(int64_t batch) {
  return record(kStep, batch, [] { return std::make_unique<NarrowResNet18>(); });
}

/// Made once for all cases: under AddressSanitizer it takes half a minute.
const RealStep& real_step() {
  static const RealStep step = [] {
    manual_seed(3);
    NarrowResNet18 net;
    return make_real_step(net, kStep, kBatch);
  }();
  return step;
}

std::vector<Launch> own_launches() {
  const SmallStep a{2, launches_of(recording_of(2))}, b{3, launches_of(recording_of(3))};
  std::vector<Launch> own = launches_at(kBatch, a, b);
  std::erase_if(own, [](const Launch& launch) { return launch.library; });
  return own;
}

/// A stem, two blocks in a row, and one with a shortcut of its own: what Recompute can meet.
struct ThreeBlocks final : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 3, 8, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 8};
  nn::Sequential blocks{*this, "blocks"};
  nn::Linear fc{*this, "fc", 16, 10};

  ThreeBlocks() {
    blocks.add<nn::BasicBlock>(8, 8, 1, true);
    blocks.add<nn::BasicBlock>(8, 8, 1, true);
    blocks.add<nn::BasicBlock>(8, 16, 2, true);
  }
  Tensor forward(const Tensor& x) override { return fc(mean(blocks(bn1.relu(conv1(x))), {2, 3})); }
};

/// What a kernel reads and writes besides its tensors, at most: numbers of channels, partial sums.
constexpr double kBeside = 2048;

}  // namespace

TEST_CASE("plan: the launches of ResNet-18 in f16 are those of the emulated GPU" * cuda_case()) {
  const RealStep& real = real_step();
  const std::vector<Launch> planned = own_launches();
  REQUIRE(planned.size() == real.launches.size());
  double moved = 0, needed = 0;  // by batch norm and element-wise work
  for (size_t i = 0; i < planned.size(); ++i) {
    const Launch& plan = planned[i];
    const Moved& launch = real.launches[i];
    CAPTURE(i);
    CAPTURE(plan.op);
    CAPTURE(launch.kernel);
    const bool named = plan.kind != LaunchKind::kReduction;  // those have several kernels
    CHECK((!named || launch.kernel.find(plan.kernel) != std::string::npos));
    if (!emulation::TrafficLog::sees_all()) continue;
    CHECK(launch.read + 4 >= plan.read_bytes);  // a number may come as an argument
    CHECK(launch.read <= 1.02 * plan.read_bytes + kBeside);
    // g++ does not announce the copies of structures by which an update writes its buffers.
    const bool seen = plan.kernel != "update_kernel";
    CHECK(launch.written >= (seen ? 1 : 0.5) * plan.written_bytes);
    CHECK(launch.written <= 1.02 * plan.written_bytes + kBeside);
    if (plan.kind == LaunchKind::kBatchNormForward || plan.kind == LaunchKind::kBatchNormBackward ||
        plan.kind == LaunchKind::kElementwise) {
      moved += launch.read + launch.written;
      needed += plan.bytes() - plan.extra_bytes;
    }
  }
  if (!emulation::TrafficLog::sees_all()) return;
  MESSAGE("launches: ", planned.size(), ", bytes per byte needed: ", moved / needed);
  CHECK(moved < 1.1 * needed);  // 1.07; 1.01 with 64 channels and more images
}

TEST_CASE("plan: the kernels that may be dependent launches wait themselves" * cuda_case()) {
  const RealStep& real = real_step();
  std::vector<Launch> planned = own_launches();
  planned = with_part(std::move(planned), Unmeasured::kDependentLaunch);
  REQUIRE(planned.size() == real.launches.size());
  for (size_t i = 1; i < planned.size(); ++i) {
    CAPTURE(planned[i].op);
    CAPTURE(real.launches[i].kernel);
    CHECK(planned[i].dependent == real.launches[i].waits);
  }
}

TEST_CASE("plan: the memory of ResNet-18 in f16 is that of the emulated GPU" * cuda_case()) {
  const RealStep& real = real_step();
  const auto planned = replay(memory_script(recording_of(2), recording_of(3)), kBatch, 1 << 30);
  REQUIRE(planned);
  MESSAGE("peak: planned ", planned->peak_allocated, ", of the emulated GPU ", real.peak_allocated);
  // 512 bytes of 3.36 MB: the smallest block of the allocator.
  CHECK(static_cast<double>(planned->peak_allocated) ==
        doctest::Approx(static_cast<double>(real.peak_allocated)).epsilon(0.002));
}

TEST_CASE("plan: with --recompute too, launches and memory are those of the emulated GPU" *
          cuda_case()) {
  StepCase how = kStep;
  how.recompute = true;
  const auto recording = [&](int64_t batch) {
    return record(how, batch, [] { return std::make_unique<ThreeBlocks>(); });
  };
  const StepRecording two = recording(2), three = recording(3);
  std::vector<Launch> planned = launches_at(8, {2, launches_of(two)}, {3, launches_of(three)});
  std::erase_if(planned, [](const Launch& launch) { return launch.library; });
  const auto memory = replay(memory_script(two, three), 8, 1 << 30);
  REQUIRE(memory);
  ThreeBlocks net;
  const RealStep real = make_real_step(net, how, 8);
  REQUIRE(planned.size() == real.launches.size());
  int again = 0;
  for (size_t i = 0; i < planned.size(); ++i) {
    CAPTURE(i);
    if (planned[i].op != "batch_norm_again") continue;
    ++again;
    CHECK(real.launches[i].kernel.find("apply_kernel") != std::string::npos);
    if (!emulation::TrafficLog::sees_all()) continue;
    CHECK(real.launches[i].read == doctest::Approx(planned[i].read_bytes).epsilon(0.05));
    CHECK(real.launches[i].written == doctest::Approx(planned[i].written_bytes).epsilon(0.05));
  }
  CHECK(again == 3 + (1 + 2 + 3) + 2);  // in the blocks; a chain of three; a shortcut and its block
  MESSAGE("peak: planned ", memory->peak_allocated, ", real ", real.peak_allocated);
  CHECK(static_cast<double>(memory->peak_allocated) ==
        doctest::Approx(static_cast<double>(real.peak_allocated)).epsilon(0.005));
}

TEST_CASE("plan: with relu-bits the ends of blocks move the bytes of the emulated GPU" *
          cuda_case()) {
  const auto launches = [](int64_t batch) {
    return launches_of(record(kStep, batch, [] { return std::make_unique<ThreeBlocks>(); }));
  };
  std::vector<Launch> planned = launches_at(16, {2, launches(2)}, {3, launches(3)});
  std::erase_if(planned, [](const Launch& launch) { return launch.library; });
  const std::vector<Launch> with_bits = with_part(planned, Unmeasured::kReluBits);
  ThreeBlocks net;
  set_unmeasured("relu-bits");
  const RealStep real = make_real_step(net, kStep, 16);
  set_unmeasured("");
  REQUIRE(planned.size() == real.launches.size());
  int ends = 0;
  double saved = 0, of_y = 0;
  for (size_t i = 0; i < planned.size(); ++i) {
    CAPTURE(planned[i].op);
    const Launch& plan = with_bits[i];
    of_y += plan.masked_bytes;
    saved += planned[i].bytes() - plan.bytes();
    if (plan.masked_bytes == 0) continue;
    ++ends;
    CHECK(plan.bytes() != planned[i].bytes());
    if (!emulation::TrafficLog::sees_all()) continue;
    const Moved& launch = real.launches[i];
    CHECK(launch.read >= plan.read_bytes);
    CHECK(launch.read <= 1.02 * plan.read_bytes + kBeside);
    CHECK(launch.written >= plan.written_bytes);
    CHECK(launch.written <= 1.02 * plan.written_bytes + kBeside);
  }
  CHECK(ends == 6);                 // three blocks, forward and back
  CHECK(saved == 1.75 / 4 * of_y);  // 1.75 of 2 bytes per number; y is in two launches
}
