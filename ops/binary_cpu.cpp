// CPU kernels of ops/binary.h: one strided loop, one instance per op and dtype.
#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/binary_math.h"

namespace lathe::cpu {

namespace {

/// out[i] = f(a[i], b[i]) over one row; dense rows and rows with one repeated operand vectorise.
template <class Out, class T, class F>
void binary_row(const StridedRow& row, F f) {
  using C = ComputeType<T>;
  const auto store = [&](Out& out, C a, C b) { out = Out(f(a, b)); };
  Out* out = row.at<Out>(0);
  const T* a = row.at<T>(1);
  const T* b = row.at<T>(2);
  const int64_t n = row.size;
  if (row.dense<Out>(0) && row.dense<T>(1) && row.dense<T>(2)) {
    for (int64_t i = 0; i < n; ++i) store(out[i], C(a[i]), C(b[i]));
  } else if (row.dense<Out>(0) && row.dense<T>(1) && row.step[2] == 0) {
    const C same = C(*b);
    for (int64_t i = 0; i < n; ++i) store(out[i], C(a[i]), same);
  } else if (row.dense<Out>(0) && row.step[1] == 0 && row.dense<T>(2)) {
    const C same = C(*a);
    for (int64_t i = 0; i < n; ++i) store(out[i], same, C(b[i]));
  } else {
    char *po = row.data[0], *pa = row.data[1], *pb = row.data[2];
    for (int64_t i = 0; i < n; ++i) {
      store(*reinterpret_cast<Out*>(po), C(*reinterpret_cast<T*>(pa)),
            C(*reinterpret_cast<T*>(pb)));
      po += row.step[0], pa += row.step[1], pb += row.step[2];
    }
  }
}

template <class F>
void number_op(const char* name, const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  visit_number(a.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(out, a, b, [f](const StridedRow& row) { binary_row<T, T>(row, f); });
  });
}

template <class F>
void float_op(const char* name, const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  visit_float(a.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(out, a, b, [f](const StridedRow& row) { binary_row<T, T>(row, f); });
  });
}

template <class F>
void compare_op(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  visit_all(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(out, a, b, [f](const StridedRow& row) { binary_row<bool, T>(row, f); });
  });
}

}  // namespace

void binary(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b) {
  switch (op) {
    case BinaryOp::kAdd: return number_op("add", out, a, b, math::Add{});
    case BinaryOp::kSub: return number_op("sub", out, a, b, math::Sub{});
    case BinaryOp::kMul: return number_op("mul", out, a, b, math::Mul{});
    case BinaryOp::kDiv: return float_op("div", out, a, b, math::Div{});
    case BinaryOp::kDivTrunc: return number_op("div", out, a, b, math::DivTrunc{});
    case BinaryOp::kDivFloor: return number_op("div", out, a, b, math::DivFloor{});
    case BinaryOp::kMaximum: return number_op("maximum", out, a, b, math::Maximum{});
    case BinaryOp::kMinimum: return number_op("minimum", out, a, b, math::Minimum{});
    case BinaryOp::kPow: return number_op("pow", out, a, b, math::Pow{});
    case BinaryOp::kReluGrad: return float_op("relu_grad", out, a, b, math::ReluGrad{});
    case BinaryOp::kTanhGrad: return float_op("tanh_grad", out, a, b, math::TanhGrad{});
    case BinaryOp::kSigmoidGrad: return float_op("sigmoid_grad", out, a, b, math::SigmoidGrad{});
    case BinaryOp::kGeluGrad: return float_op("gelu_grad", out, a, b, math::GeluGrad{});
    case BinaryOp::kGeluTanhGrad:
      return float_op("gelu_tanh_grad", out, a, b, math::GeluTanhGrad{});
    case BinaryOp::kEq: return compare_op(out, a, b, math::Eq{});
    case BinaryOp::kNe: return compare_op(out, a, b, math::Ne{});
    case BinaryOp::kLt: return compare_op(out, a, b, math::Lt{});
    case BinaryOp::kLe: return compare_op(out, a, b, math::Le{});
    case BinaryOp::kGt: return compare_op(out, a, b, math::Gt{});
    case BinaryOp::kGe: return compare_op(out, a, b, math::Ge{});
    case BinaryOp::kLogicalAnd: return compare_op(out, a, b, math::And{});
    case BinaryOp::kLogicalOr: return compare_op(out, a, b, math::Or{});
    case BinaryOp::kLogicalXor: return compare_op(out, a, b, math::Xor{});
  }
}

}  // namespace lathe::cpu
