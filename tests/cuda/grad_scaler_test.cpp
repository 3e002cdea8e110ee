// The kernels of optim/kernels/grad_scaler_cuda.cu against the CPU loops.
#include "lathe/optim/grad_scaler.h"

#include <cstring>
#include <limits>

#include "../layout_copy.h"
#include "lathe/core/copy.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Sizes around those of packets and chunks, one gradient at an odd address, some that are not
/// dense.
Tensors gradients() {
  Tensors all;
  for (const int64_t n : {0, 1, 31, 33, 1023, 1025, 4099}) all.push_back(randn({n}));
  for (const int64_t n : {3, 1025}) all.push_back(randn({n}, {.dtype = kF64}));
  all.push_back(randn({8193}).narrow(0, 1, 4099));
  all.push_back(randn({6, 10}).slice(1, 1, 10, 2));
  all.push_back(randn({5, 7}).transpose(0, 1));
  return all;
}

/// Unscales copies on both sides. → the flag, which must be the same.
bool compare(const Tensors& grads, double scale) {
  const Tensor factor = full({}, scale);
  const Tensor cpu_flag = zeros({}), cuda_flag = on_device(zeros({}));
  Tensors host, device;
  for (const Tensor& g : grads) {
    host.push_back(layout_copy(g, kCPU));
    device.push_back(layout_copy(g, kernel_device()));
  }
  optim::cpu::unscale_grads(host, factor, cpu_flag);
  optim::cuda::unscale_grads(device, on_device(factor), cuda_flag);
  for (size_t i = 0; i < grads.size(); ++i) {
    const std::string text = difference(on_host(device[i]), host[i], 0);
    CHECK_MESSAGE(text.empty(), "gradient ", i, ": ", text);
  }
  CHECK(on_host(cuda_flag).item<float>() == cpu_flag.item<float>());
  return cpu_flag.item<float>() == 1;
}

}  // namespace

TEST_CASE("unscale kernel: equals the CPU bit for bit, and finds inf and NaN wherever they are") {
  manual_seed(41);
  const Tensors grads = gradients();
  CHECK_FALSE(compare(grads, 48));
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].numel() == 0) continue;
    Tensors bad = grads;
    bad[i] = layout_copy(grads[i], kCPU);
    Tensor last = bad[i];
    while (last.ndim() > 0) last = last.select(0, last.dim(0) - 1);
    last.fill_(i % 3 == 1 ? kInfinity : i % 3 == 2 ? -kInfinity : kNaN);
    CHECK_MESSAGE(compare(bad, 65536), "gradient ", i);
  }
  CHECK_FALSE(compare({zeros({0})}, 2));
  CHECK_FALSE(compare(Tensors(300, full({2}, 3.0)), 2));  // several tables
}

TEST_CASE("update_loss_scale kernel: equals the CPU over a sequence, reports included") {
  optim::LossScaleRule rule{.growth_factor = 2,
                            .backoff_factor = 0.5,
                            .min_scale = 4,
                            .growth_interval = 2,
                            .dynamic = true};
  struct State {
    Tensor scale = full({}, 16.0), tracker = zeros({}, {.dtype = kI64});
    Tensor counts = zeros({4}, {.dtype = kI64});
    Tensor report = zeros({sizeof(optim::LossScaleReport)}, {.dtype = kU8});
  };
  State host, device;
  for (Tensor* t : {&device.scale, &device.tracker, &device.counts}) *t = on_device(*t);
  if (kHasCuda) device.report = device.report.pin_memory();
  const bool script[] = {false, false, true, true, true, true, false, false};
  for (const bool overflow : script) {
    const Tensor flag = full({}, overflow ? 1.0 : 0.0);
    optim::cpu::update_loss_scale(host.scale, host.tracker, host.counts, host.report, flag, rule);
    optim::cuda::update_loss_scale(device.scale, device.tracker, device.counts,
                                   overflow ? device.report : Tensor(), on_device(flag), rule);
    CHECK(on_host(device.scale).item<float>() == host.scale.item<float>());
    CHECK(on_host(device.tracker).item<int64_t>() == host.tracker.item<int64_t>());
    CHECK(on_host(device.counts).to_vector<int64_t>() == host.counts.to_vector<int64_t>());
    if (overflow) CHECK(device.report.to_vector<int>() == host.report.to_vector<int>());
  }
  if constexpr (kHasCuda) fill_values(device.report, 0);
  optim::cuda::report_loss_scale(device.scale, device.counts, device.report);
  on_host(device.scale);  // waits
  CHECK(device.report.to_vector<int>() == host.report.to_vector<int>());
  CHECK(host.scale.item<float>() == 8);  // 32, then three halvings, one refused, one growth
  CHECK(host.counts.to_vector<int64_t>() == std::vector<int64_t>{8, 4, 6, 4});
}
