// A training step on the emulated GPU, as `lathe bench step --no-capture` makes it, with its launches,
// to compare the ledger of `lathe plan` with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../emulation/dependent_launch.h"
#include "../emulation/kernel_access.h"
#include "../emulation/kernel_name.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/lathe.h"
#include "planned_step.h"

namespace lathe::test {

struct Moved {
  std::string kernel;
  double read = 0, written = 0;
  bool waits = false;  // itself, for the kernel before
};

struct RealStep {
  std::vector<Moved> launches;
  int64_t peak_allocated = 0;
};

/// The third step of the model.
inline RealStep make_real_step(nn::Module& net, const StepCase& c, int64_t batch) {
  const emulation::WatchScope watched(emulation::Watch::kAccesses);
  const Device gpu(DeviceType::kCUDA);
  manual_seed(3);
  net.to(gpu).to(kChannelsLast);
  const std::unique_ptr<optim::Optimizer> optimizer = optimizer_of(c, net, 0.01);
  if (c.amp != "off") optimizer->set_half_copies();
  optim::GradScaler scaler({.enabled = c.amp == "fp16"});
  const Tensor x = randn({batch, 3, c.side, c.side}).contiguous(kChannelsLast).to(gpu);
  const Tensor y = randint(0, 10, {batch}).to(gpu);
  RealStep result;
  for (int step = 0; step < 3; ++step) {
    cuda::synchronize(gpu);
    profile::reset_memory_peak(gpu);
    emulation::TrafficLog log;
    Tensor loss;
    const Recompute again(c.recompute);
    if (c.amp == "off") {
      loss = cross_entropy(net(x), y);
    } else {
      const Autocast half(gpu, kF16);
      loss = cross_entropy(net(x).to(kF32), y);
    }
    scaler.scale(loss).backward();
    scaler.step(*optimizer, {.max_grad_norm = c.clip, .fused = true});
    scaler.update();
    optimizer->zero_grad();
    cuda::synchronize(gpu);
    result.launches.clear();
    for (const emulation::TrafficLog::Launch& launch : log.launches()) {
      result.launches.push_back(
          {emulation::kernel_name(launch.kernel), static_cast<double>(launch.read_bytes),
           static_cast<double>(launch.written_bytes), emulation::must_wait(launch.kernel)});
    }
    result.peak_allocated = profile::memory_use(gpu).peak_allocated;
  }
  return result;
}

}  // namespace lathe::test
