// How tests compare tensors, and the layouts in which every op must work.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "lathe/autograd/gradcheck.h"
#include "lathe/core/cuda.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
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
         const Tensor room = zeros(wide, {.dtype = t.dtype()});
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
  if (!cuda_is_available()) return;
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

/// gradcheck, and gradgradcheck unless `twice` is false, over contiguous, transposed, sliced and,
/// expanded inside the function, overlapping inputs, and over the layouts of the result's gradient.
/// Failure texts name op, layout, input and element.
inline void check_gradients(const GradientCase& c) {
  check_device(c);
  const auto check = [&c](const std::string& layout, const Function& f, const Tensors& inputs) {
    const Function squared = [&f](const Tensors& in) {
      const Tensor y = f(in);
      return y * y;
    };
    const GradReport once = gradcheck(squared, inputs);
    CHECK_MESSAGE(once.ok, c.op, " (", layout, "): ", once.text);
    if (!c.twice) return;
    const GradReport twice = gradgradcheck(squared, inputs);
    CHECK_MESSAGE(twice.ok, c.op, " twice (", layout, "): ", twice.text);
  };
  for (const Layout& layout : layouts()) {
    Tensors inputs;
    for (const Tensor& t : c.inputs) inputs.push_back(layout.apply(t));
    check(layout.name, c.f, inputs);
  }
  for (const GradientLayout& layout : kGradientLayouts) {
    check(
        layout.name, [&](const Tensors& in) { return layout.apply(c.f(in)); }, c.inputs);
  }
  // Overlapping memory: each floating input is one number per row, expanded to its shape.
  Tensors narrow;
  for (const Tensor& t : c.inputs) {
    const bool expandable = is_floating(t.dtype()) && t.ndim() > 0 && t.dim(-1) > 0;
    narrow.push_back(expandable ? t.narrow(-1, 0, 1).contiguous() : t);
  }
  const Function expanded = [&c](const Tensors& in) {
    Tensors full;
    for (size_t i = 0; i < in.size(); ++i) full.push_back(in[i].expand(c.inputs[i].shape()));
    return c.f(full);
  };
  check("expanded", expanded, narrow);
}

inline Tensor f64(const Shape& shape) { return randn(shape, {.dtype = kF64}); }
/// Uniform in [low, high): for functions with a limited domain, or kinks to stay away from.
inline Tensor f64_in(const Shape& shape, double low, double high) {
  const Tensor t = empty(shape, {.dtype = kF64});
  uniform_(t, low, high);
  return t;
}

}  // namespace lathe::test
