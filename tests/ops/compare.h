// How tests compare tensors, and the layouts in which every op must work.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/core/config.h"
#include "lathe/core/cuda.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

namespace lathe::test {

/// Tolerance of the comparison rule |a-b| <= tol * (max|b| + 1): a few ulp of each type.
inline double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 1e-12;
    case DType::kF32: return 1e-5;
    case DType::kF16: return 2e-3;
    case DType::kBF16: return 1.6e-2;
    default: return 0;
  }
}

/// The CPU, and a GPU if there is one.
inline std::vector<Device> devices() {
  std::vector<Device> all{kCPU};
  if (cuda_is_available()) all.emplace_back(DeviceType::kCUDA);
  return all;
}

/// f32 on two devices: sums in other orders, and TF32 off. As for convolutions and products.
inline constexpr double kDeviceTolerance = 1e-4;

/// "" if `got` equals `want` by the rule (NaN equals NaN, infinities must match); else the worst
/// element.
inline std::string difference(const Tensor& got, const std::vector<double>& want, double tol) {
  const std::vector<double> values = got.to_vector<double>();
  if (values.size() != want.size()) {
    return concat("got ", values.size(), " values, want ", want.size());
  }
  double largest = 0;
  for (const double w : want) {
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(values[i])) continue;
    if (values[i] == want[i]) continue;
    if (!(std::fabs(values[i] - want[i]) <= tol * (largest + 1))) {
      return concat("element ", i, ": got ", values[i], ", want ", want[i], " (", got, ")");
    }
  }
  return "";
}
inline std::string difference(const Tensor& got, const Tensor& want, double tol) {
  if (!(got.shape() == want.shape())) return concat("got ", got, ", want ", want);
  return difference(got, want.to_vector<double>(), tol);
}

/// The same values as `t` in memory laid out in other ways.
struct Layout {
  std::string name;
  std::function<Tensor(const Tensor&)> apply;
};
inline const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"contiguous", [](const Tensor& t) { return t; }},
      {"transposed",
       [](const Tensor& t) {
         if (t.ndim() < 2) return t;
         const Tensor dense = t.transpose(0, -1).contiguous();
         return dense.transpose(0, -1);
       }},
      {"sliced",
       [](const Tensor& t) {
         if (t.ndim() == 0) return t;
         Shape wide = t.shape();
         wide[t.ndim() - 1] = wide[t.ndim() - 1] * 2 + 1;
         const Tensor room = zeros(wide, {.dtype = t.dtype(), .device = t.device()});
         const Tensor part = room.slice(-1, 1, wide.back(), 2);
         part.copy_(t);
         return part;
       }},
  };
  return all;
}

using Function = std::function<Tensor(const Tensors&)>;

struct GradientCase {
  std::string op;
  Function f;      // its result is squared by the check, so that a wrong dy cannot hide
  Tensors inputs;  // f64 (integer tensors are passed through)
  bool twice = true;
};

/// A constant of a case as its inputs are: on their device and, if it is floating, of their dtype.
inline Tensor beside(const Tensors& in, const Tensor& constant) {
  const Tensor there = constant.to(in[0].device());
  return is_floating(there.dtype()) ? there.to(in[0].dtype()) : there;
}

/// What an op's result is put through before it is squared, so that its gradient arrives dense,
/// transposed or overlapping.
struct GradientLayout {
  std::string name;
  Tensor (*apply)(const Tensor& y);
};
inline const GradientLayout kGradientLayouts[] = {
    {"its gradient transposed",
     [](const Tensor& y) { return y.ndim() < 2 ? y : y.transpose(0, -1).contiguous(); }},
    {"its gradient expanded",
     [](const Tensor& y) { return y.ndim() == 0 ? y : y.sum({-1}, {.keepdim = true}); }},
};

/// Where there is a GPU, real or emulated: the op and its gradients in f32 there against the CPU,
/// on the same inputs, dense and transposed.
inline void check_device(const GradientCase& c) {
  const Device gpu(DeviceType::kCUDA);
  for (const Layout& layout : {layouts()[0], layouts()[1]}) {
    Tensors host, device;
    for (const Tensor& t : c.inputs) {
      const bool floating = is_floating(t.dtype());
      host.push_back(floating ? cast(t.detach(), kF32) : t);
      device.push_back(layout.apply(host.back().to(gpu)));
      host.back() = layout.apply(host.back());
      if (floating) {
        host.back().requires_grad_();
        device.back().requires_grad_();
      }
    }
    const Tensor want = c.f(host), got = c.f(device);
    CHECK_MESSAGE(got.device() == gpu, c.op, " left the GPU");
    const std::string text = difference(got.cpu(), want, kDeviceTolerance);
    CHECK_MESSAGE(text.empty(), c.op, " on a GPU (", layout.name, "): ", text);
    if (!want.requires_grad()) continue;
    const Tensor dy = randn(want.shape(), {.dtype = want.dtype()});
    want.backward(dy);
    got.backward(dy.to(gpu));
    for (size_t i = 0; i < host.size(); ++i) {
      if (!host[i].grad().defined()) continue;
      const std::string wrong =
          difference(device[i].grad().cpu(), host[i].grad(), kDeviceTolerance);
      CHECK_MESSAGE(wrong.empty(), c.op, " on a GPU (", layout.name, "), gradient of input ", i,
                    ": ", wrong);
    }
  }
}

/// visit(layout's name, f, inputs) for contiguous, transposed, sliced and, expanded inside f,
/// overlapping inputs, and for images in NHWC.
inline void each_layout(
    const GradientCase& c, const Tensors& inputs,
    const std::function<void(const std::string&, const Function&, const Tensors&)>& visit) {
  for (const Layout& layout : layouts()) {
    Tensors laid_out;
    for (const Tensor& t : inputs) laid_out.push_back(layout.apply(t));
    visit(layout.name, c.f, laid_out);
  }
  Tensors images = inputs;
  bool any = false;
  for (Tensor& t : images) {
    if (t.ndim() != 4) continue;
    t = t.contiguous(kChannelsLast);
    any = true;
  }
  if (any) visit("NHWC", c.f, images);
  // Overlapping memory: each floating input is one number per row, expanded to its shape.
  Tensors narrow;
  for (const Tensor& t : inputs) {
    const bool expandable = is_floating(t.dtype()) && t.ndim() > 0 && t.dim(-1) > 0;
    narrow.push_back(expandable ? t.narrow(-1, 0, 1).contiguous() : t);
  }
  const Function expanded = [&](const Tensors& in) {
    Tensors full;
    for (size_t i = 0; i < in.size(); ++i) full.push_back(in[i].expand(inputs[i].shape()));
    return c.f(full);
  };
  visit("expanded", expanded, narrow);
}

/// gradcheck, and gradgradcheck unless `twice` is false, of f squared. Failure texts name op,
/// layout, input and element.
inline void check_differences(const GradientCase& c, const std::string& layout, const Function& f,
                              const Tensors& inputs, const GradcheckOptions& options = {}) {
  const Function squared = [&f](const Tensors& in) {
    const Tensor y = f(in);
    return y * y;
  };
  const GradReport once = gradcheck(squared, inputs, options);
  CHECK_MESSAGE(once.ok, c.op, " (", layout, "): ", once.text);
  if (!c.twice) return;
  const GradReport twice = gradgradcheck(squared, inputs, options);
  CHECK_MESSAGE(twice.ok, c.op, " twice (", layout, "): ", twice.text);
}

/// f's value, its first derivatives along dy and, if asked for, second ones by inputs and dy.
/// Undefined where there is none.
inline Tensors derivatives(const Function& f, const Tensors& inputs, const Tensor& weights,
                           bool twice) {
  Tensors leaves, floating;
  for (const Tensor& t : inputs) {
    leaves.push_back(t.detach());
    if (is_floating(t.dtype())) floating.push_back(leaves.back().requires_grad_());
  }
  const Tensor y = f(leaves);
  Tensors results{y.detach()};
  if (!y.requires_grad()) return results;
  const Tensor dy = weights.narrow(0, 0, y.numel()).reshape(y.shape()).clone().requires_grad_();
  const Tensors first =
      grad({y}, floating, {.grad_outputs = {dy}, .create_graph = twice, .allow_unused = true});
  results.insert(results.end(), first.begin(), first.end());
  if (!twice) return results;
  Tensor sum = zeros({}, {.dtype = y.dtype(), .device = y.device()});
  for (const Tensor& g : first) {
    if (g.defined()) sum = sum + (g * g * 0.5 + g).sum();
  }
  if (!sum.requires_grad()) return results;
  floating.push_back(dy);
  const Tensors second = grad({sum}, floating, {.allow_unused = true});
  results.insert(results.end(), second.begin(), second.end());
  return results;
}

/// In f64 on a GPU, over the layouts: values and derivatives, first and second, are those of the
/// CPU, which finite differences check. A real GPU also checks by differences itself, along one
/// direction; an emulated one takes minutes for that, so LATHE_GRADCHECK=gpu asks for it.
inline void check_derivatives_on_gpu(const GradientCase& c) {
#if defined(LATHE_ASAN)
  const char* const only = "sliced";
#else
  const char* const only = nullptr;
#endif
#if defined(LATHE_CUDA_EMULATED)
  const char* const asked = std::getenv("LATHE_GRADCHECK");
  const bool differences = asked != nullptr && std::string(asked) == "gpu";
#else
  const bool differences = true;
#endif
  const Tensor weights = randn({4096}, {.dtype = kF64});
  const Device gpu(DeviceType::kCUDA);
  Tensors there;
  for (const Tensor& t : c.inputs) there.push_back(t.detach().to(gpu));
  std::vector<Tensors> want;
  each_layout(c, c.inputs, [&](const std::string&, const Function& f, const Tensors& inputs) {
    want.push_back(derivatives(f, inputs, weights, c.twice));
  });
  size_t at = 0;
  each_layout(c, there, [&](const std::string& layout, const Function& f, const Tensors& inputs) {
    const Tensors& host = want[at++];
    if (only != nullptr && layout != only) return;
    const Tensors got = derivatives(f, inputs, weights.to(gpu), c.twice);
    REQUIRE_MESSAGE(got.size() == host.size(), c.op, " on a GPU (", layout, ")");
    for (size_t i = 0; i < got.size(); ++i) {
      if (!got[i].defined() && !host[i].defined()) continue;
      REQUIRE_MESSAGE(got[i].defined() == host[i].defined(), c.op, " on a GPU (", layout, ")");
      const std::string text = difference(got[i].cpu(), host[i], 1e-9);  // sums in other orders
      CHECK_MESSAGE(text.empty(), c.op, " on a GPU in f64 (", layout, "), result ", i, ": ", text);
    }
    if (differences) check_differences(c, layout + " on a GPU", f, inputs, {.fast_mode = true});
  });
}

/// Finite differences on the CPU over the layouts of inputs and of the result's gradient; on a GPU,
/// real or emulated, the same in f32 and f64. AddressSanitizer looks at memory, which the first
/// layout's elements and one direction of the others touch as well as all their elements.
inline void check_gradients(const GradientCase& c) {
  GradcheckOptions how;
  const auto check_next = [&](const std::string& layout, const Function& f, const Tensors& inputs) {
    check_differences(c, layout, f, inputs, how);
#if defined(LATHE_ASAN)
    how.fast_mode = true;
#endif
  };
  each_layout(c, c.inputs, check_next);
  for (const GradientLayout& layout : kGradientLayouts) {
    check_next(
        layout.name, [&](const Tensors& in) { return layout.apply(c.f(in)); }, c.inputs);
  }
  if (!cuda_is_available()) return;
  check_device(c);
  check_derivatives_on_gpu(c);
}

inline Tensor f64(const Shape& shape) { return randn(shape, {.dtype = kF64}); }
/// Uniform in [low, high): for functions with a limited domain, or kinks to stay away from.
inline Tensor f64_in(const Shape& shape, double low, double high) {
  const Tensor t = empty(shape, {.dtype = kF64});
  uniform_(t, low, high);
  return t;
}

}  // namespace lathe::test
