// ONNX operators that work element by element, and sums over dimensions. onnx_layers.cpp and
// onnx_shapes.cpp have the others. Contract: onnx_import.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx_import.h"

namespace lathe::jit::onnx {

namespace {

constexpr SameOperator kSame[] = {
    {"Abs", "abs", 1, false},
    {"Acos", "acos", 1, false},
    {"Add", "add", 2, false},
    {"And", "logical_and", 2, true},
    {"Asin", "asin", 1, false},
    {"Atan", "atan", 1, false},
    {"Ceil", "ceil", 1, false},
    {"Cos", "cos", 1, false},
    {"Cosh", "cosh", 1, false},
    {"Div", "div", 2, false},
    {"Equal", "eq", 2, true},
    {"Erf", "erf", 1, false},
    {"Exp", "exp", 1, false},
    {"Floor", "floor", 1, false},
    {"Greater", "gt", 2, true},
    {"GreaterOrEqual", "ge", 2, true},
    {"HardSwish", "hardswish", 1, false},
    {"IsNaN", "isnan", 1, true},
    {"Less", "lt", 2, true},
    {"LessOrEqual", "le", 2, true},
    {"Log", "log", 1, false},
    {"Mish", "mish", 1, false},
    {"Mul", "mul", 2, false},
    {"Neg", "neg", 1, false},
    {"Not", "logical_not", 1, true},
    {"Or", "logical_or", 2, true},
    {"Reciprocal", "reciprocal", 1, false},
    {"Relu", "relu", 1, false},
    {"Round", "round", 1, false},
    {"Sigmoid", "sigmoid", 1, false},
    {"Sign", "sign", 1, false},
    {"Sin", "sin", 1, false},
    {"Sinh", "sinh", 1, false},
    {"Softsign", "softsign", 1, false},
    {"Sqrt", "sqrt", 1, false},
    {"Sub", "sub", 2, false},
    {"Tan", "tan", 1, false},
    {"Tanh", "tanh", 1, false},
    {"Xor", "logical_xor", 2, true},
};

// --- integers that are known ---------------------------------------------------------------------

/// The batch is at least 0, and else unknown.
bool equal_sizes(const Call& c, const Size& a, const Size& b) {
  if (a == b) return true;
  const bool differ = (a.of_batch == 0 && b.of_batch == 0) || a.fixed < 0 || b.fixed < 0;
  if (!differ) c.refuse("what it compares depends on the size of the batch");
  return false;
}

Size divided(const Call& c, const Size& a, const Size& b) {
  if (a.of_batch != 0 || b.of_batch != 0) return c.divided(a, b);
  if (b.fixed == 0) c.refuse("it divides by 0");
  if (b.fixed == -1) return c.times(a, b);  // which sees the one quotient that is too large
  return {0, a.fixed / b.fixed};            // towards 0
}

/// What the operator makes of two integers; null if there is no such rule.
using OfSizes = Size (*)(const Call&, const Size&, const Size&);
OfSizes of_sizes(std::string_view op) {
  if (op == "Add") return [](const Call& c, const Size& a, const Size& b) { return c.plus(a, b); };
  if (op == "Sub") {
    return [](const Call& c, const Size& a, const Size& b) { return c.plus(a, b, -1); };
  }
  if (op == "Mul") return [](const Call& c, const Size& a, const Size& b) { return c.times(a, b); };
  if (op == "Div") return divided;
  if (op == "Equal") {
    return [](const Call& c, const Size& a, const Size& b) {
      return Size{0, equal_sizes(c, a, b)};
    };
  }
  return nullptr;
}

/// The result if both inputs are known.
bool is_known(Call& c) {
  const OfSizes rule = of_sizes(c.op());
  if (rule == nullptr || c.known(0) == nullptr || c.known(1) == nullptr) return false;
  const Known a = *c.known(0), b = *c.known(1);
  const size_t count = std::max(a.values.size(), b.values.size());
  for (const Known* k : {&a, &b}) {
    if (k->values.size() != count && k->values.size() != 1) c.refuse("its lists do not broadcast");
  }
  Known out{{}, a.is_scalar && b.is_scalar, c.op() == "Equal" ? kBool : a.dtype};
  for (size_t i = 0; i < count; ++i) {
    const auto at = [&](const Known& k) { return k.values[k.values.size() == 1 ? 0 : i]; };
    out.values.push_back(rule(c, at(a), at(b)));
  }
  c.result(std::move(out));
  return true;
}

// --- nodes ---------------------------------------------------------------------------------------

Type pair_type(Call& c, size_t i, size_t j) {
  const Type a = c.type(i), b = c.type(j);
  if (a.dtype != b.dtype) {
    c.refuse(concat("its inputs must have one dtype, not ", a.dtype, " and ", b.dtype));
  }
  return {a.dtype, c.broadcast(a.shape, b.shape)};
}

void same(Call& c) {
  const SameOperator* row = kSame;
  while (row->onnx != c.op()) ++row;
  if (row->inputs == 1) {
    Type type = c.type(0);
    if (row->is_truth) type.dtype = kBool;
    return c.result(c.add(row->op, {c.in(0)}, type));
  }
  if (is_known(c)) return;
  Type type = pair_type(c, 0, 1);
  const bool whole = is_integer(type.dtype);
  if (row->is_truth) type.dtype = kBool;
  const std::vector<int> inputs = {c.in(0), c.in(1)};
  if (whole && c.op() == "Div") {
    return c.result(c.add("div", inputs, type, {{"rounding_mode", std::string("trunc")}}));
  }
  c.result(c.add(row->op, inputs, type));
}

/// a op b op c …
template <const char* op>
void chain(Call& c) {
  Type type = c.type(0);
  int value = c.in(0);
  for (size_t i = 1; i < c.inputs(); ++i) {
    type = {type.dtype, c.broadcast(type.shape, pair_type(c, 0, i).shape)};
    value = c.add(op, {value, c.in(i)}, type);
  }
  c.result(value);
}
constexpr char kMaximum[] = "maximum", kMinimum[] = "minimum", kAdd[] = "add";

void power(Call& c) {  // the exponent may have another dtype; the result has the base's
  const Type x = c.type(0), e = c.type(1);
  const Type promoted{category_of(e.dtype) > category_of(x.dtype) ? e.dtype : x.dtype,
                      c.broadcast(x.shape, e.shape)};
  const auto as = [&](size_t i, const Type& from) {
    const std::string dtype(name_of(promoted.dtype));
    if (from.dtype == promoted.dtype) return c.in(i);
    return c.add("cast", {c.in(i)}, {promoted.dtype, from.shape}, {{"dtype", dtype}});
  };
  const int y = c.add("pow", {as(0, x), as(1, e)}, promoted);
  if (promoted.dtype == x.dtype) return c.result(y);
  c.result(
      c.add("cast", {y}, {x.dtype, promoted.shape}, {{"dtype", std::string(name_of(x.dtype))}}));
}

/// The value of an input that has one element and is in the file.
std::optional<double> one_number(Call& c, size_t i) {
  if (!c.has(i)) return std::nullopt;
  const std::optional<Tensor> t = c.constant(i);
  if (!t || t->numel() != 1) return std::nullopt;
  return t->item_scalar().to<double>();
}

void clip(Call& c) {
  const Type x = c.type(0);
  const double inf = std::numeric_limits<double>::infinity();
  const bool by_input = c.opset() >= 11;
  std::optional<double> low = -inf, high = inf;
  if (!by_input) {
    low = c.real("min", -inf), high = c.real("max", inf);
  } else {
    if (c.has(1)) low = one_number(c, 1);
    if (c.has(2)) high = one_number(c, 2);
  }
  if (is_floating(x.dtype) && low && high) {
    if (*low == 0 && *high == 6) return c.result(c.add("relu6", {c.in(0)}, x));
    return c.result(c.add("clamp", {c.in(0)}, x, {{"low", *low}, {"high", *high}}));
  }
  int y = c.in(0);  // the bounds are computed, or integers
  if (c.has(1)) y = c.add("maximum", {y, c.in(1)}, x);
  if (c.has(2)) y = c.add("minimum", {y, c.in(2)}, x);
  c.result(y);
}

void hard_sigmoid(Call& c) {
  const Type x = c.type(0);
  const double alpha = c.real("alpha", 0.2), beta = c.real("beta", 0.5);
  if (std::abs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5) {
    return c.result(c.add("hardsigmoid", {c.in(0)}, x));
  }
  const int scaled = c.add("mul", {c.in(0), c.number(alpha, x.dtype)}, x);
  const int moved = c.add("add", {scaled, c.number(beta, x.dtype)}, x);
  c.result(c.add("clamp", {moved}, x, {{"low", 0.0}, {"high", 1.0}}));
}

void leaky_relu(Call& c) {
  c.result(c.add("leaky_relu", {c.in(0)}, c.type(0), {{"slope", c.real("alpha", 0.01)}}));
}
void elu(Call& c) { c.result(c.add("elu", {c.in(0)}, c.type(0), {{"alpha", c.real("alpha", 1)}})); }
void softplus(Call& c) {
  c.result(c.add("softplus", {c.in(0)}, c.type(0), {{"beta", 1.0}, {"threshold", 20.0}}));
}
void gelu(Call& c) {
  const std::string how = c.word("approximate", "none");
  if (how != "none" && how != "tanh") c.refuse("approximate must be none or tanh");
  c.result(c.add("gelu", {c.in(0)}, c.type(0), {{"tanh_approximation", how == "tanh"}}));
}

void selu(Call& c) {  // gamma * (x > 0 ? x : alpha * (exp(x) - 1))
  const Type x = c.type(0);
  const double alpha = c.real("alpha", 1.67326319217681884765625),
               gamma = c.real("gamma", 1.05070102214813232421875);
  const int y = c.add("elu", {c.in(0)}, x, {{"alpha", alpha}});
  c.result(c.add("mul", {y, c.number(gamma, x.dtype)}, x));
}

void prelu(Call& c) {  // the slope broadcasts to x
  const Type x = c.type(0);
  const int scaled = c.add("mul", {c.in(0), c.in(1)}, pair_type(c, 0, 1));
  const int above = c.add("gt", {c.in(0), c.number(0, x.dtype)}, {kBool, x.shape});
  c.result(c.add("where", {above, c.in(0), scaled}, x));
}

void is_inf(Call& c) {
  c.only("detect_negative", 1), c.only("detect_positive", 1);
  c.result(c.add("isinf", {c.in(0)}, {kBool, c.type(0).shape}));
}

void modulo(Call& c) {
  if (is_known(c)) return;
  const bool c_like = c.integer("fmod", 0) != 0;
  c.result(c.add(c_like ? "fmod" : "remainder", {c.in(0), c.in(1)}, pair_type(c, 0, 1)));
}

void mean_of_inputs(Call& c) {
  Type type = c.type(0);
  int value = c.in(0);
  for (size_t i = 1; i < c.inputs(); ++i) {
    type.shape = c.broadcast(type.shape, pair_type(c, 0, i).shape);
    value = c.add("add", {value, c.in(i)}, type);
  }
  const auto count = static_cast<double>(c.inputs());
  c.result(c.add("div", {value, c.number(count, type.dtype)}, type));
}

void where(Call& c) {
  if (c.known(0) != nullptr && c.known(1) != nullptr && c.known(2) != nullptr) {
    const Known which = *c.known(0), a = *c.known(1), b = *c.known(2);
    const size_t count = std::max({which.values.size(), a.values.size(), b.values.size()});
    Known out{{}, which.is_scalar && a.is_scalar && b.is_scalar, a.dtype};
    for (size_t i = 0; i < count; ++i) {
      const auto at = [&](const Known& k) {
        if (k.values.size() != count && k.values.size() != 1) c.refuse("lists do not broadcast");
        return k.values[k.values.size() == 1 ? 0 : i];
      };
      const Size yes = at(a), no = at(b);
      out.values.push_back(at(which).fixed != 0 ? yes : no);
    }
    return c.result(std::move(out));
  }
  Type type = pair_type(c, 1, 2);
  type.shape = c.broadcast(type.shape, c.type(0).shape);
  c.result(c.add("where", {c.in(0), c.in(1), c.in(2)}, type));
}

void cast(Call& c) {
  c.ignore("saturate"), c.ignore("round_mode");  // for types that we lack
  std::optional<DType> to;
  if (c.op() == "CastLike") {
    to = c.type(1).dtype;
  } else {
    const int64_t number = c.integer("to", 0);
    to = dtype_of_number(number);
    if (!to) c.refuse(concat("type ", number, " of onnx.TensorProto has no dtype here"));
  }
  if (c.known(0) != nullptr && !is_floating(*to)) {
    Known known = *c.known(0);
    known.dtype = *to;
    return c.result(std::move(known));
  }
  const Type x = c.type(0);
  if (x.dtype == *to) return c.result(c.in(0));
  c.result(c.add("cast", {c.in(0)}, {*to, x.shape}, {{"dtype", std::string(name_of(*to))}}));
}

// --- sums over dimensions ------------------------------------------------------------------------

struct Reduction {
  std::string_view onnx;
  const char *before, *op, *after;  // null: nothing
  int64_t axes_are_input_since;
};
constexpr Reduction kReductions[] = {
    {"ReduceL1", "abs", "sum", nullptr, 18},
    {"ReduceL2", nullptr, "norm", nullptr, 18},
    {"ReduceLogSum", nullptr, "sum", "log", 18},
    {"ReduceLogSumExp", nullptr, "logsumexp", nullptr, 18},
    {"ReduceMax", nullptr, "amax", nullptr, 18},
    {"ReduceMean", nullptr, "mean", nullptr, 18},
    {"ReduceMin", nullptr, "amin", nullptr, 18},
    {"ReduceProd", nullptr, "prod", nullptr, 18},
    {"ReduceSum", nullptr, "sum", nullptr, 13},
    {"ReduceSumSquare", "square", "sum", nullptr, 18},
};

void reduce(Call& c) {
  const Reduction* row = kReductions;
  while (row->onnx != c.op()) ++row;
  const Type x = c.type(0);
  const bool keeps = c.integer("keepdims", 1) != 0;
  const bool none_is_none = c.integer("noop_with_empty_axes", 0) != 0;
  const bool no_axes = c.opset() < row->axes_are_input_since
                           ? !c.list("axes") || c.list("axes")->empty()
                           : !c.has(1) || c.integers(1, "axes").empty();
  std::vector<size_t> axes = c.axes(row->axes_are_input_since, 1, x.shape.size());
  if (none_is_none && no_axes) c.refuse("noop_with_empty_axes has no counterpart here");
  std::vector<Size> dims;
  Type type{x.dtype, {}};
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const bool goes = std::binary_search(axes.begin(), axes.end(), d);
    if (goes) dims.push_back({0, static_cast<int64_t>(d)});
    if (!goes) type.shape.push_back(x.shape[d]);
    if (goes && keeps) type.shape.push_back({0, 1});
  }
  const std::string_view op = row->op;
  if ((op == "sum" || op == "prod") && !is_floating(x.dtype) && x.dtype != kI64) {
    c.refuse("sums of these integers are i64 here");
  }
  int y = c.in(0);
  if (row->before != nullptr) y = c.add(row->before, {y}, x);
  y = c.add(row->op, {y}, type, {{"dims", dims}, {"keepdim", keeps}});
  if (row->after != nullptr) y = c.add(row->after, {y}, type);
  c.result(y);
}

constexpr Operator kOthers[] = {
    {"Cast", cast},           {"CastLike", cast},
    {"Clip", clip},           {"Elu", elu},
    {"Gelu", gelu},           {"HardSigmoid", hard_sigmoid},
    {"IsInf", is_inf},        {"LeakyRelu", leaky_relu},
    {"Max", chain<kMaximum>}, {"Mean", mean_of_inputs},
    {"Min", chain<kMinimum>}, {"Mod", modulo},
    {"PRelu", prelu},         {"Pow", power},
    {"Selu", selu},           {"Softplus", softplus},
    {"Sum", chain<kAdd>},     {"Where", where},
};

}  // namespace

std::span<const SameOperator> same_operators() { return kSame; }

std::span<const Operator> pointwise_operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> operators(std::begin(kOthers), std::end(kOthers));
    for (const SameOperator& row : kSame) operators.push_back({row.onnx, same});
    for (const Reduction& row : kReductions) operators.push_back({row.onnx, reduce});
    return operators;
  }();
  return all;
}

}  // namespace lathe::jit::onnx
