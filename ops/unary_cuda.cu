// CUDA kernels of ops/unary.h, with the arithmetic of unary_math.h, which the CPU loop uses too.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/unary.h"
#include "lathe/ops/unary_math.h"

namespace lathe::cuda {

namespace {

template <class Out, class T, class F>
void run(const Tensor& out, const Tensor& x, F f) {
  pointwise<Out>(out, Rounded<Out, F>{f}, Input<T>{x});
}

template <class F>
void number_op(const char* name, const Tensor& out, const Tensor& x, F f) {
  visit_number(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<T, T>(out, x, f);
  });
}

/// `make(C{})` builds the functor for the compute type.
template <class Make>
void float_op(const char* name, const Tensor& out, const Tensor& x, Make make) {
  visit_float(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<T, T>(out, x, make(ComputeType<T>{}));
  });
}

template <class F>
void test_op(const char* name, const Tensor& out, const Tensor& x, F f) {
  visit_float(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<bool, T>(out, x, f);
  });
}

/// A functor without parameters, whatever the compute type.
template <class F>
struct Always {
  template <class C>
  F operator()(C) const {
    return F{};
  }
};

template <class T>
void clamp(const Tensor& out, const Tensor& x, UnaryParams p) {
  using C = ComputeType<T>;
  run<T, T>(out, x, math::Clamp<C>{math::clamp_end<C>(p.a), math::clamp_end<C>(p.b)});
}

}  // namespace

void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams p) {
  switch (op) {
    case UnaryOp::kNeg: return number_op("neg", out, x, math::Neg{});
    case UnaryOp::kAbs: return number_op("abs", out, x, math::Abs{});
    case UnaryOp::kSign: return number_op("sign", out, x, math::Sign{});
    case UnaryOp::kSquare: return number_op("square", out, x, math::Square{});
    case UnaryOp::kRelu: return number_op("relu", out, x, math::Relu{});
    case UnaryOp::kClamp:
      return visit_number(x.dtype(), "clamp",
                          [&](auto tag) { clamp<typename decltype(tag)::type>(out, x, p); });
    case UnaryOp::kFloor: return float_op("floor", out, x, Always<math::Floor>{});
    case UnaryOp::kCeil: return float_op("ceil", out, x, Always<math::Ceil>{});
    case UnaryOp::kRound: return float_op("round", out, x, Always<math::Round>{});
    case UnaryOp::kTrunc: return float_op("trunc", out, x, Always<math::Trunc>{});
    case UnaryOp::kExp: return float_op("exp", out, x, Always<math::Exp>{});
    case UnaryOp::kExpm1: return float_op("expm1", out, x, Always<math::Expm1>{});
    case UnaryOp::kLog: return float_op("log", out, x, Always<math::Log>{});
    case UnaryOp::kLog1p: return float_op("log1p", out, x, Always<math::Log1p>{});
    case UnaryOp::kLog2: return float_op("log2", out, x, Always<math::Log2>{});
    case UnaryOp::kSqrt: return float_op("sqrt", out, x, Always<math::Sqrt>{});
    case UnaryOp::kRsqrt: return float_op("rsqrt", out, x, Always<math::Rsqrt>{});
    case UnaryOp::kReciprocal: return float_op("reciprocal", out, x, Always<math::Reciprocal>{});
    case UnaryOp::kSin: return float_op("sin", out, x, Always<math::Sin>{});
    case UnaryOp::kCos: return float_op("cos", out, x, Always<math::Cos>{});
    case UnaryOp::kTanh: return float_op("tanh", out, x, Always<math::Tanh>{});
    case UnaryOp::kSigmoid: return float_op("sigmoid", out, x, Always<math::Sigmoid>{});
    case UnaryOp::kErf: return float_op("erf", out, x, Always<math::Erf>{});
    case UnaryOp::kGelu: return float_op("gelu", out, x, Always<math::Gelu>{});
    case UnaryOp::kGeluTanh: return float_op("gelu", out, x, Always<math::GeluTanh>{});
    case UnaryOp::kSilu: return float_op("silu", out, x, Always<math::Silu>{});
    case UnaryOp::kLeakyRelu:
      return float_op("leaky_relu", out, x,
                      [&]<class C>(C) { return math::LeakyRelu<C>{p.a.to<C>()}; });
    case UnaryOp::kElu:
      return float_op("elu", out, x, [&]<class C>(C) { return math::Elu<C>{p.a.to<C>()}; });
    case UnaryOp::kSoftplus:
      return float_op("softplus", out, x, [&]<class C>(C) {
        return math::Softplus<C>{p.a.to<C>(), p.b.to<C>()};
      });
    case UnaryOp::kIsNan: return test_op("isnan", out, x, math::IsNan{});
    case UnaryOp::kIsInf: return test_op("isinf", out, x, math::IsInf{});
    case UnaryOp::kIsFinite: return test_op("isfinite", out, x, math::IsFinite{});
  }
}

}  // namespace lathe::cuda
