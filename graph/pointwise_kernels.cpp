// Which kernel computes which pointwise op. Contract: pointwise_kernels.h.
#include "lathe/graph/pointwise_kernels.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "lathe/graph/op_table.h"
#include "lathe/ops/row_kernels.h"

namespace lathe::jit {

namespace {

// clang-format off
/// Ops of one floating operand without arguments.
const std::unordered_map<std::string_view, UnaryOp>& unary_ops() {
  static const std::unordered_map<std::string_view, UnaryOp> ops = {
      {"neg", UnaryOp::kNeg}, {"abs", UnaryOp::kAbs}, {"square", UnaryOp::kSquare}, {"sign", UnaryOp::kSign},
      {"floor", UnaryOp::kFloor}, {"ceil", UnaryOp::kCeil}, {"round", UnaryOp::kRound}, {"trunc", UnaryOp::kTrunc},
      {"exp", UnaryOp::kExp}, {"expm1", UnaryOp::kExpm1}, {"exp2", UnaryOp::kExp2},
      {"log", UnaryOp::kLog}, {"log1p", UnaryOp::kLog1p}, {"log2", UnaryOp::kLog2}, {"log10", UnaryOp::kLog10},
      {"sqrt", UnaryOp::kSqrt}, {"rsqrt", UnaryOp::kRsqrt}, {"reciprocal", UnaryOp::kReciprocal},
      {"sin", UnaryOp::kSin}, {"cos", UnaryOp::kCos}, {"tan", UnaryOp::kTan},
      {"asin", UnaryOp::kAsin}, {"acos", UnaryOp::kAcos}, {"atan", UnaryOp::kAtan},
      {"sinh", UnaryOp::kSinh}, {"cosh", UnaryOp::kCosh}, {"tanh", UnaryOp::kTanh},
      {"erf", UnaryOp::kErf}, {"sigmoid", UnaryOp::kSigmoid}, {"relu", UnaryOp::kRelu}, {"silu", UnaryOp::kSilu},
      {"isnan", UnaryOp::kIsNan}, {"isinf", UnaryOp::kIsInf}, {"isfinite", UnaryOp::kIsFinite}};
  return ops;
}

/// Ops of two operands of one dtype, a floating one but for comparisons and logic.
const std::unordered_map<std::string_view, BinaryOp>& binary_ops() {
  static const std::unordered_map<std::string_view, BinaryOp> ops = {
      {"add", BinaryOp::kAdd}, {"sub", BinaryOp::kSub}, {"mul", BinaryOp::kMul}, {"div", BinaryOp::kDiv}, {"pow", BinaryOp::kPow},
      {"maximum", BinaryOp::kMaximum}, {"minimum", BinaryOp::kMinimum}, {"hypot", BinaryOp::kHypot}, {"atan2", BinaryOp::kAtan2},
      {"fmod", BinaryOp::kFmod}, {"remainder", BinaryOp::kRemainder},
      {"relu_grad", BinaryOp::kReluGrad}, {"tanh_grad", BinaryOp::kTanhGrad}, {"sigmoid_grad", BinaryOp::kSigmoidGrad},
      {"gelu_grad", BinaryOp::kGeluGrad}, {"gelu_tanh_grad", BinaryOp::kGeluTanhGrad},
      {"eq", BinaryOp::kEq}, {"ne", BinaryOp::kNe}, {"lt", BinaryOp::kLt}, {"le", BinaryOp::kLe}, {"gt", BinaryOp::kGt}, {"ge", BinaryOp::kGe},
      {"logical_and", BinaryOp::kLogicalAnd}, {"logical_or", BinaryOp::kLogicalOr}, {"logical_xor", BinaryOp::kLogicalXor}};
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

/// Ops of one floating operand with arguments.
std::optional<RowKernel> with_arguments(std::string_view op, const std::vector<Attribute>& given,
                                        DType x) {
  const auto kernel = [&](UnaryOp of, UnaryParams p = {}) { return cpu::unary_kernel(of, x, p); };
  if (op == "leaky_relu") return kernel(UnaryOp::kLeakyRelu, {.a = number_of(given[0])});
  if (op == "elu") return kernel(UnaryOp::kElu, {.a = number_of(given[0])});
  if (op == "clamp")
    return kernel(UnaryOp::kClamp, {.a = number_of(given[0]), .b = number_of(given[1])});
  if (op == "gelu") return kernel(std::get<bool>(given[0]) ? UnaryOp::kGeluTanh : UnaryOp::kGelu);
  return std::nullopt;
}

std::optional<PointwiseKernel> of_one(const PointwiseProgram::Step& step, DType x) {
  if (step.op->name == "cast") return PointwiseKernel{.kernel = cpu::copy_kernel(step.dtype, x)};
  if (!is_floating(x)) return std::nullopt;  // most are then converted, some do nothing
  if (!step.attributes.empty()) {
    const std::optional<RowKernel> kernel = with_arguments(step.op->name, step.attributes, x);
    if (!kernel) return std::nullopt;
    return PointwiseKernel{.kernel = *kernel};
  }
  const auto found = unary_ops().find(step.op->name);
  if (found == unary_ops().end()) return std::nullopt;
  return PointwiseKernel{.kernel = cpu::unary_kernel(found->second, x, {})};
}

std::optional<PointwiseKernel> of_two(const PointwiseProgram::Step& step, DType a, DType b) {
  const auto found = binary_ops().find(step.op->name);
  if (found == binary_ops().end() || !step.attributes.empty() || a != b) return std::nullopt;
  if (!is_floating(a) && !gives_truth(found->second)) return std::nullopt;
  return PointwiseKernel{.kernel = cpu::binary_kernel(found->second, a), .count = 2};
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
