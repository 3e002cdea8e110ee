// Which kernel computes which pointwise op. Contract: pointwise_kernels.h.
#include "lathe/graph/fused/pointwise_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "lathe/core/format.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/row_kernels.h"

namespace lathe::jit {

namespace {

/// An op and its functor in unary_math.h or binary_math.h.
template <class Op>
struct Named {
  Op op;
  std::string_view functor;
};

// clang-format off
/// Ops of one floating operand without arguments.
const std::unordered_map<std::string_view, Named<UnaryOp>>& unary_ops() {
  static const std::unordered_map<std::string_view, Named<UnaryOp>> ops = {
      {"neg", {UnaryOp::kNeg, "Neg"}}, {"abs", {UnaryOp::kAbs, "Abs"}}, {"square", {UnaryOp::kSquare, "Square"}}, {"sign", {UnaryOp::kSign, "Sign"}},
      {"floor", {UnaryOp::kFloor, "Floor"}}, {"ceil", {UnaryOp::kCeil, "Ceil"}}, {"round", {UnaryOp::kRound, "Round"}}, {"trunc", {UnaryOp::kTrunc, "Trunc"}},
      {"exp", {UnaryOp::kExp, "Exp"}}, {"expm1", {UnaryOp::kExpm1, "Expm1"}}, {"exp2", {UnaryOp::kExp2, "Exp2"}},
      {"log", {UnaryOp::kLog, "Log"}}, {"log1p", {UnaryOp::kLog1p, "Log1p"}}, {"log2", {UnaryOp::kLog2, "Log2"}}, {"log10", {UnaryOp::kLog10, "Log10"}},
      {"sqrt", {UnaryOp::kSqrt, "Sqrt"}}, {"rsqrt", {UnaryOp::kRsqrt, "Rsqrt"}}, {"reciprocal", {UnaryOp::kReciprocal, "Reciprocal"}},
      {"sin", {UnaryOp::kSin, "Sin"}}, {"cos", {UnaryOp::kCos, "Cos"}}, {"tan", {UnaryOp::kTan, "Tan"}},
      {"asin", {UnaryOp::kAsin, "Asin"}}, {"acos", {UnaryOp::kAcos, "Acos"}}, {"atan", {UnaryOp::kAtan, "Atan"}},
      {"sinh", {UnaryOp::kSinh, "Sinh"}}, {"cosh", {UnaryOp::kCosh, "Cosh"}}, {"tanh", {UnaryOp::kTanh, "Tanh"}},
      {"erf", {UnaryOp::kErf, "Erf"}}, {"sigmoid", {UnaryOp::kSigmoid, "Sigmoid"}}, {"relu", {UnaryOp::kRelu, "Relu"}}, {"silu", {UnaryOp::kSilu, "Silu"}},
      {"isnan", {UnaryOp::kIsNan, "IsNan"}}, {"isinf", {UnaryOp::kIsInf, "IsInf"}}, {"isfinite", {UnaryOp::kIsFinite, "IsFinite"}}};
  return ops;
}

/// Ops of two operands of one dtype, a floating one but for comparisons and logic.
const std::unordered_map<std::string_view, Named<BinaryOp>>& binary_ops() {
  static const std::unordered_map<std::string_view, Named<BinaryOp>> ops = {
      {"add", {BinaryOp::kAdd, "Add"}}, {"sub", {BinaryOp::kSub, "Sub"}}, {"mul", {BinaryOp::kMul, "Mul"}}, {"div", {BinaryOp::kDiv, "Div"}}, {"pow", {BinaryOp::kPow, "Pow"}},
      {"maximum", {BinaryOp::kMaximum, "Maximum"}}, {"minimum", {BinaryOp::kMinimum, "Minimum"}}, {"hypot", {BinaryOp::kHypot, "Hypot"}}, {"atan2", {BinaryOp::kAtan2, "Atan2"}},
      {"fmod", {BinaryOp::kFmod, "Fmod"}}, {"remainder", {BinaryOp::kRemainder, "Remainder"}},
      {"relu_grad", {BinaryOp::kReluGrad, "ReluGrad"}}, {"tanh_grad", {BinaryOp::kTanhGrad, "TanhGrad"}}, {"sigmoid_grad", {BinaryOp::kSigmoidGrad, "SigmoidGrad"}},
      {"gelu_grad", {BinaryOp::kGeluGrad, "GeluGrad"}}, {"gelu_tanh_grad", {BinaryOp::kGeluTanhGrad, "GeluTanhGrad"}},
      {"eq", {BinaryOp::kEq, "Eq"}}, {"ne", {BinaryOp::kNe, "Ne"}}, {"lt", {BinaryOp::kLt, "Lt"}}, {"le", {BinaryOp::kLe, "Le"}}, {"gt", {BinaryOp::kGt, "Gt"}}, {"ge", {BinaryOp::kGe, "Ge"}},
      {"logical_and", {BinaryOp::kLogicalAnd, "And"}}, {"logical_or", {BinaryOp::kLogicalOr, "Or"}}, {"logical_xor", {BinaryOp::kLogicalXor, "Xor"}}};
  return ops;
}
// clang-format on

bool gives_truth(BinaryOp op) { return op >= BinaryOp::kEq; }

/// An argument that is a number.
Scalar number_of(const Attribute& attribute) {
  if (const auto* real = std::get_if<double>(&attribute)) return *real;
  if (const auto* truth = std::get_if<bool>(&attribute)) return *truth;
  return std::get<Size>(attribute).fixed;
}

/// A floating literal with the bits of a finite `number`. It is hexadecimal: decimals would have to
/// say that they are no integers, which have no -0.
template <class T>
std::string literal(T number) {
  std::array<char, 64> digits;
  const T size = std::abs(number);
  char* const end =
      std::to_chars(digits.data(), digits.data() + digits.size(), size, std::chars_format::hex).ptr;
  return concat(std::signbit(number) ? "-0x" : "0x",
                std::string_view(digits.data(), static_cast<size_t>(end - digits.data())));
}

/// A number in the text of a GPU's kernel, rounded to `dtype`'s compute type, with all its bits.
std::string number_text(Scalar value, DType dtype) {
  if (dtype == kF64) {
    const double number = value.to<double>();
    return std::isfinite(number)
               ? literal(number)
               : concat("__builtin_bit_cast(double, ", std::bit_cast<uint64_t>(number), "ull)");
  }
  const float number = value.to<float>();
  return std::isfinite(number)
             ? literal(number) + "f"
             : concat("__builtin_bit_cast(float, ", std::bit_cast<uint32_t>(number), "u)");
}

/// Ops of one floating operand with arguments.
std::optional<PointwiseKernel> with_arguments(std::string_view op,
                                              const std::vector<Attribute>& given, DType x) {
  const auto kernel = [&](UnaryOp of, const std::string& code, UnaryParams p = {}) {
    return PointwiseKernel{.kernel = cpu::unary_kernel(of, x, p), .code = code};
  };
  const auto functor = [&](const char* name, const Scalar& a) {
    return concat(name, x == kF64 ? "<double>{" : "<float>{", number_text(a, x));
  };
  if (op == "gelu") {
    return std::get<bool>(given[0]) ? kernel(UnaryOp::kGeluTanh, "GeluTanh{}")
                                    : kernel(UnaryOp::kGelu, "Gelu{}");
  }
  if (op != "leaky_relu" && op != "elu" && op != "clamp") return std::nullopt;
  const Scalar a = number_of(given[0]);
  if (op == "leaky_relu")
    return kernel(UnaryOp::kLeakyRelu, functor("LeakyRelu", a) + "}", {.a = a});
  if (op == "elu") return kernel(UnaryOp::kElu, functor("Elu", a) + "}", {.a = a});
  const Scalar b = number_of(given[1]);
  return kernel(UnaryOp::kClamp, concat(functor("Clamp", a), ", ", number_text(b, x), "}"),
                {.a = a, .b = b});
}

std::optional<PointwiseKernel> of_one(const PointwiseProgram::Step& step, DType x) {
  if (step.op->name == "cast") return PointwiseKernel{.kernel = cpu::copy_kernel(step.dtype, x)};
  if (!is_floating(x)) return std::nullopt;  // most are then converted, some do nothing
  if (!step.attributes.empty()) return with_arguments(step.op->name, step.attributes, x);
  const auto found = unary_ops().find(step.op->name);
  if (found == unary_ops().end()) return std::nullopt;
  const auto& [op, functor] = found->second;
  return PointwiseKernel{.kernel = cpu::unary_kernel(op, x, {}), .code = concat(functor, "{}")};
}

std::optional<PointwiseKernel> of_two(const PointwiseProgram::Step& step, DType a, DType b) {
  const auto found = binary_ops().find(step.op->name);
  if (found == binary_ops().end() || !step.attributes.empty() || a != b) return std::nullopt;
  const auto& [op, functor] = found->second;
  if (!is_floating(a) && !gives_truth(op)) return std::nullopt;
  return PointwiseKernel{
      .kernel = cpu::binary_kernel(op, a), .code = concat(functor, "{}"), .count = 2};
}

std::optional<PointwiseKernel> of_three(const PointwiseProgram::Step& step,
                                        std::span<const DType> dtypes) {
  PointwiseKernel chosen{.count = 3};
  if (step.op->name == "masked_fill") {  // x, mask, value → mask, value, x
    chosen.order[0] = 1, chosen.order[1] = 2, chosen.order[2] = 0;
  } else if (step.op->name != "where") {
    return std::nullopt;
  }
  const auto dtype = [&](int k) { return dtypes[static_cast<size_t>(chosen.order[k])]; };
  if (dtype(0) != kBool || dtype(1) != dtype(2)) return std::nullopt;
  chosen.kernel = cpu::where_kernel(dtype(1));
  return chosen;
}

}  // namespace

std::optional<PointwiseKernel> kernel_of(const PointwiseProgram::Step& step,
                                         std::span<const DType> dtypes) {
  std::optional<PointwiseKernel> chosen;
  if (dtypes.size() == 1) chosen = of_one(step, dtypes[0]);
  if (dtypes.size() == 2) chosen = of_two(step, dtypes[0], dtypes[1]);
  if (dtypes.size() == 3 && step.attributes.empty()) chosen = of_three(step, dtypes);
  if (chosen && chosen->kernel.result() != step.dtype) return std::nullopt;
  return chosen;
}

}  // namespace lathe::jit
