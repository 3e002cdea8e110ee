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
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/optimizers.h"

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

/// The third step of the model on square images, under the settings' --amp and --optimizer.
inline RealStep make_real_step(nn::Module& net, cli::Settings settings, int64_t batch) {
  const emulation::WatchScope watched(emulation::Watch::kAccesses);
  const Device gpu(DeviceType::kCUDA);
  settings.lr = 0.01;
  settings.weight_decay = 5e-4;
  manual_seed(3);
  net.to(gpu).to(kChannelsLast);
  const std::unique_ptr<optim::Optimizer> optimizer = cli::make_optimizer(settings, net);
  if (settings.amp != "off") optimizer->set_half_copies();
  optim::GradScaler scaler({.enabled = settings.amp == "fp16"});
  const int64_t side = *settings.image_size;
  const Tensor x = randn({batch, 3, side, side}).contiguous(kChannelsLast).to(gpu);
  const Tensor y = randint(0, 10, {batch}).to(gpu);
  RealStep result;
  for (int step = 0; step < 3; ++step) {
    cuda::synchronize(gpu);
    profile::reset_memory_peak(gpu);
    emulation::TrafficLog log;
    Tensor loss;
    const Recompute again(settings.recompute);
    if (settings.amp == "off") {
      loss = cross_entropy(net(x), y);
    } else {
      const Autocast half(gpu, kF16);
      loss = cross_entropy(net(x).to(kF32), y);
    }
    scaler.scale(loss).backward();
    scaler.step(*optimizer, {.max_grad_norm = settings.clip_grad_norm, .fused = true});
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
