// Parameters with everything that an update touches, on the host and on the device, for the tests
// of update kernels.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lathe/optim/update.h"
#include "on_device.h"

namespace lathe::test {

using optim::UpdateItem;

/// Buffers that stay undefined are not used; a 0-d one is a number of the whole parameter.
struct State {
  Tensors params, grads, scratch, masters;  // masters: none, or one for each parameter
  Tensor grad_factors;                      // undefined: 1
  std::vector<std::array<Tensor, optim::kMaxBuffers>> buffers;
  std::vector<int64_t> steps;

  std::vector<UpdateItem> items() const {
    std::vector<UpdateItem> all;
    for (size_t i = 0; i < params.size(); ++i) {
      UpdateItem item{.n = params[i].numel(),
                      .dtype = params[i].dtype(),
                      .device = params[i].device(),
                      .step = steps[i],
                      .param = params[i].raw_data(),
                      .grad = grads[i].raw_data(),
                      .buffers = {},
                      .scratch = scratch[i].data<double>()};
      for (size_t b = 0; b < optim::kMaxBuffers; ++b) {
        if (buffers[i][b].defined()) item.buffers[b] = buffers[i][b].raw_data();
      }
      if (!masters.empty()) item.master = masters[i].raw_data();
      if (grad_factors.defined()) item.grad_factors = grad_factors.data<double>();
      all.push_back(item);
    }
    return all;
  }
};

inline Tensor moved(const Tensor& t) { return on_device(t.clone()); }

inline State on_device(const State& host) {
  State device = host;
  for (size_t i = 0; i < host.params.size(); ++i) {
    device.params[i] = moved(host.params[i]);
    device.grads[i] = moved(host.grads[i]);
    device.scratch[i] = moved(host.scratch[i]);
    if (!host.masters.empty()) device.masters[i] = moved(host.masters[i]);
    for (Tensor& b : device.buffers[i]) {
      if (b.defined()) b = moved(b);
    }
  }
  if (host.grad_factors.defined()) device.grad_factors = moved(host.grad_factors);
  return device;
}

/// What a rule wants of a buffer.
enum class Buffer { kNone, kArray, kNumber };
using Buffers = std::array<Buffer, optim::kMaxBuffers>;

/// Parameters of these sizes.
inline State make_state(const std::vector<int64_t>& sizes, DType dtype, const Buffers& used) {
  State state;
  const DType buffer_dtype = dtype == kF64 ? kF64 : kF32;
  for (const int64_t n : sizes) {
    state.params.push_back(randn({n}, {.dtype = dtype}));
    state.grads.push_back(randn({n}, {.dtype = dtype}));
    state.scratch.push_back(zeros({optim::norm_scratch(n)}, {.dtype = kF64}));
    auto& buffers = state.buffers.emplace_back();
    for (size_t b = 0; b < used.size(); ++b) {
      if (used[b] == Buffer::kNone) continue;
      buffers[b] =
          zeros(used[b] == Buffer::kNumber ? Shape() : Shape({n}), {.dtype = buffer_dtype});
    }
    state.steps.push_back(1);
  }
  return state;
}

inline void check_equal(const State& got, const State& want, const std::string& name,
                        double tolerance = 0) {
  const auto check = [&](const Tensor& a, const Tensor& b, size_t i) {
    const std::string text = difference(on_host(a), b, tolerance);
    CHECK_MESSAGE(text.empty(), name, ", parameter ", i, ": ", text);
  };
  for (size_t i = 0; i < want.params.size(); ++i) {
    check(got.params[i], want.params[i], i);
    if (!want.masters.empty()) check(got.masters[i], want.masters[i], i);
    for (size_t b = 0; b < optim::kMaxBuffers; ++b) {
      if (want.buffers[i][b].defined()) check(got.buffers[i][b], want.buffers[i][b], i);
    }
  }
}

/// One rule with its numbers, on both sides.
struct Rule {
  std::string name;
  Buffers used;
  std::function<void(std::span<const UpdateItem>)> on_cpu, on_cuda;
};

template <class Numbers, class F>
Rule rule(std::string name, Buffers used, const Numbers& numbers, F cpu_f, F cuda_f) {
  return {std::move(name), used, [=](auto items) { cpu_f(items, numbers); },
          [=](auto items) { cuda_f(items, numbers); }};
}

/// `steps` updates with new gradients each time, on both sides.
inline void compare(const Rule& r, State host, int steps, double tolerance = 0) {
  State device = on_device(host);
  for (int s = 0; s < steps; ++s) {
    r.on_cpu(host.items());
    r.on_cuda(device.items());
    for (size_t i = 0; i < host.params.size(); ++i) {
      host.grads[i] = randn(host.grads[i].shape(), {.dtype = host.grads[i].dtype()});
      device.grads[i] = moved(host.grads[i]);
      device.steps[i] = ++host.steps[i];
    }
  }
  check_equal(device, host, r.name, tolerance);
}

}  // namespace lathe::test
