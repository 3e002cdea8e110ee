// The op swiglu: checks, gradient, and the loops for the CPU. Contract: swiglu.h.
#include "swiglu.h"

using lathe::Tensor, lathe::Tensors;

namespace {

constexpr int64_t kGrain = 1 << 13;  // elements that are worth a thread

/// What autograd has to know of the op.
struct Swiglu : lathe::CustomFunction<Swiglu> {
  static Tensor forward(Context& context, const Tensor& gate, const Tensor& value) {
    context.save_for_backward({gate, value});
    // Calls cpu::swiglu, or cuda::swiglu with the tensor's GPU current.
    return LATHE_DISPATCH(gate.device(), swiglu(gate, value));
  }

  static Tensors backward(Context& context, const Tensors& dys) {
    const Tensors saved = context.saved_tensors();
    const Tensor dy = dys[0].contiguous(), gate = saved[0], value = saved[1];
    if (lathe::grad_enabled()) {
      // Somebody wants the gradient of the gradient (create_graph). A kernel has none, so this time
      // the same is computed by ops that have.
      const Tensor s = gate.sigmoid();
      return {dy * value * s * (1 + gate * (1 - s)), dy * gate * s};
    }
    auto [d_gate, d_value] = LATHE_DISPATCH(gate.device(), swiglu_grad(dy, gate, value));
    return {d_gate, d_value};
  }
};

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& value) {
  LATHE_CHECK(lathe::ShapeError, gate.shape() == value.shape(),
              "swiglu: gate and value must have one shape (gate: ", gate, ", value: ", value, ")");
  LATHE_CHECK(lathe::DTypeError, gate.dtype() == value.dtype(),
              "swiglu: gate and value must have one dtype (gate: ", gate, ", value: ", value, ")");
  LATHE_CHECK(lathe::DeviceError, gate.device() == value.device(),
              "swiglu: gate and value must be on one device (gate: ", gate, ", value: ", value,
              ")");
  return Swiglu::apply(gate.contiguous(), value.contiguous());
}

Tensor cpu::swiglu(const Tensor& gate, const Tensor& value) {
  Tensor y = lathe::empty_like(gate);
  lathe::visit_float(gate.dtype(), "swiglu", [&](auto tag) {
    using T = typename decltype(tag)::type;  // float for a tensor of kF32
    using C = lathe::ComputeType<T>;         // float for half types, which only store
    T* const out = y.data<T>();
    const T *const g = gate.data<T>(), *const v = value.data<T>();
    lathe::parallel_for(gate.numel(), kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = T(swiglu_of(C(g[i]), C(v[i])));
    });
  });
  return y;
}

std::pair<Tensor, Tensor> cpu::swiglu_grad(const Tensor& dy, const Tensor& gate,
                                           const Tensor& value) {
  Tensor d_gate = lathe::empty_like(gate), d_value = lathe::empty_like(value);
  lathe::visit_float(gate.dtype(), "swiglu", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = lathe::ComputeType<T>;
    T *const dg = d_gate.data<T>(), *const dv = d_value.data<T>();
    const T *const d = dy.data<T>(), *const g = gate.data<T>(), *const v = value.data<T>();
    lathe::parallel_for(gate.numel(), kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto slopes = swiglu_slopes(C(g[i]), C(v[i]));
        dg[i] = T(C(d[i]) * slopes.gate);
        dv[i] = T(C(d[i]) * slopes.value);
      }
    });
  });
  return {d_gate, d_value};
}
