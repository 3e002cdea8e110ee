// The ledger of `lathe plan`, which is made without a GPU, beside a training step on the emulated
// one: its launches one by one, what they move, and its memory.
#include <memory>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "../emulation/kernel_access.h"
#include "../narrow_resnet18.h"
#include "lathe/lathe.h"
#include "lathe/tools/cli/plan/launch_list.h"
#include "lathe/tools/cli/plan/memory_plan.h"
#include "lathe/tools/cli/plan/step_ledger.h"
#include "lathe/tools/cli/plan/step_recording.h"
#include "real_step.h"

using namespace lathe;
using namespace lathe::cli;
using namespace lathe::test;

namespace {

constexpr int64_t kBatch = 16;  // not one of those that the plan runs

Settings settings() {
  Settings s;
  s.amp = "fp16";
  s.image_size = 16;
  return s;
}

StepRecording recording_of(int64_t batch) {
  return record_small_step(settings(), batch, [] { return std::make_unique<NarrowResNet18>(); });
}

/// Made once for all cases: under AddressSanitizer it takes half a minute.
const RealStep& real_step() {
  static const RealStep step = [] {
    manual_seed(3);
    NarrowResNet18 net;
    return make_real_step(net, settings(), kBatch);
  }();
  return step;
}

std::vector<Launch> own_launches() {
  const SmallStep a{2, launches_of(recording_of(2), settings())},
      b{3, launches_of(recording_of(3), settings())};
  std::vector<Launch> own = launches_at(kBatch, a, b);
  std::erase_if(own, [](const Launch& launch) { return launch.library; });
  return own;
}

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

TEST_CASE("plan: the memory of ResNet-18 in f16 is that of the emulated GPU" * cuda_case()) {
  const RealStep& real = real_step();
  const auto planned = replay(memory_script(recording_of(2), recording_of(3)), kBatch, 1 << 30);
  REQUIRE(planned);
  MESSAGE("peak: planned ", planned->peak_allocated, ", of the emulated GPU ", real.peak_allocated);
  // 512 bytes of 3.36 MB: the smallest block of the allocator.
  CHECK(static_cast<double>(planned->peak_allocated) ==
        doctest::Approx(static_cast<double>(real.peak_allocated)).epsilon(0.002));
}
