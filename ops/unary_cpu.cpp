// CPU kernels of ops/unary.h: one strided loop, one instance per op and dtype.
#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/unary_math.h"

namespace lathe::cpu {

namespace {

template <class Out, class T, class F>
void unary_row(const StridedRow& row, F f) {
  using C = ComputeType<T>;
  if (row.dense<Out>(0) && row.dense<T>(1)) {
    Out* out = row.at<Out>(0);
    const T* x = row.at<T>(1);
    for (int64_t i = 0; i < row.size; ++i) out[i] = Out(f(C(x[i])));
    return;
  }
  char *out = row.data[0], *x = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], x += row.step[1]) {
    *reinterpret_cast<Out*>(out) = Out(f(C(*reinterpret_cast<T*>(x))));
  }
}

template <class F>
void number_op(const char* name, const Tensor& out, const Tensor& x, F f) {
  visit_number(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(out, x, [f](const StridedRow& row) { unary_row<T, T>(row, f); });
  });
}

template <class F>
void float_op(const char* name, const Tensor& out, const Tensor& x, F f) {
  visit_float(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(out, x, [f](const StridedRow& row) { unary_row<T, T>(row, f); });
  });
}

/// For functors with parameters: `make(C{})` builds the functor for the compute type.
template <class Make>
void float_op_with(const char* name, const Tensor& out, const Tensor& x, Make make) {
  visit_float(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto f = make(ComputeType<T>{});
    strided_loop(out, x, [f](const StridedRow& row) { unary_row<T, T>(row, f); });
  });
}

template <class F>
void test_op(const char* name, const Tensor& out, const Tensor& x, F f) {
  visit_float(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(out, x, [f](const StridedRow& row) { unary_row<bool, T>(row, f); });
  });
}

void clamp(const Tensor& out, const Tensor& x, UnaryParams p) {
  visit_number(x.dtype(), "clamp", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const math::Clamp<C> f{math::clamp_end<C>(p.a), math::clamp_end<C>(p.b)};
    strided_loop(out, x, [f](const StridedRow& row) { unary_row<T, T>(row, f); });
  });
}

}  // namespace

void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams p) {
  switch (op) {
    case UnaryOp::kNeg: return number_op("neg", out, x, math::Neg{});
    case UnaryOp::kAbs: return number_op("abs", out, x, math::Abs{});
    case UnaryOp::kSign: return number_op("sign", out, x, math::Sign{});
    case UnaryOp::kSquare: return number_op("square", out, x, math::Square{});
    case UnaryOp::kRelu: return number_op("relu", out, x, math::Relu{});
    case UnaryOp::kClamp: return clamp(out, x, p);
    case UnaryOp::kFloor: return float_op("floor", out, x, math::Floor{});
    case UnaryOp::kCeil: return float_op("ceil", out, x, math::Ceil{});
    case UnaryOp::kRound: return float_op("round", out, x, math::Round{});
    case UnaryOp::kTrunc: return float_op("trunc", out, x, math::Trunc{});
    case UnaryOp::kExp: return float_op("exp", out, x, math::Exp{});
    case UnaryOp::kExpm1: return float_op("expm1", out, x, math::Expm1{});
    case UnaryOp::kLog: return float_op("log", out, x, math::Log{});
    case UnaryOp::kLog1p: return float_op("log1p", out, x, math::Log1p{});
    case UnaryOp::kLog2: return float_op("log2", out, x, math::Log2{});
    case UnaryOp::kSqrt: return float_op("sqrt", out, x, math::Sqrt{});
    case UnaryOp::kRsqrt: return float_op("rsqrt", out, x, math::Rsqrt{});
    case UnaryOp::kReciprocal: return float_op("reciprocal", out, x, math::Reciprocal{});
    case UnaryOp::kSin: return float_op("sin", out, x, math::Sin{});
    case UnaryOp::kCos: return float_op("cos", out, x, math::Cos{});
    case UnaryOp::kTanh: return float_op("tanh", out, x, math::Tanh{});
    case UnaryOp::kSigmoid: return float_op("sigmoid", out, x, math::Sigmoid{});
    case UnaryOp::kErf: return float_op("erf", out, x, math::Erf{});
    case UnaryOp::kGelu: return float_op("gelu", out, x, math::Gelu{});
    case UnaryOp::kGeluTanh: return float_op("gelu", out, x, math::GeluTanh{});
    case UnaryOp::kSilu: return float_op("silu", out, x, math::Silu{});
    case UnaryOp::kLeakyRelu:
      return float_op_with("leaky_relu", out, x,
                           [&]<class C>(C) { return math::LeakyRelu<C>{p.a.to<C>()}; });
    case UnaryOp::kElu:
      return float_op_with("elu", out, x, [&]<class C>(C) { return math::Elu<C>{p.a.to<C>()}; });
    case UnaryOp::kSoftplus:
      return float_op_with("softplus", out, x, [&]<class C>(C) {
        return math::Softplus<C>{p.a.to<C>(), p.b.to<C>()};
      });
    case UnaryOp::kIsNan: return test_op("isnan", out, x, math::IsNan{});
    case UnaryOp::kIsInf: return test_op("isinf", out, x, math::IsInf{});
    case UnaryOp::kIsFinite: return test_op("isfinite", out, x, math::IsFinite{});
  }
}

}  // namespace lathe::cpu
