// The ONNX forms of ops that work element by element, of views and of sums. onnx_layer_forms.cpp
// has the others. Ops that are called alike on both sides stand in onnx_pointwise.cpp. Contract:
// onnx_export.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx_export.h"
#include "lathe/graph/onnx/onnx_import.h"
#include "lathe/graph/onnx/onnx_proto.h"

namespace lathe::jit::onnx {

namespace {

// --- element by element --------------------------------------------------------------------------

/// The dtype in which two operands meet; a number of no dimension raises the category alone.
DType common_dtype(const Emission& e) {
  const auto dims = [&](size_t i) { return e.ndim(i) > 0; };
  const DType a = e.type(0).dtype, b = e.type(1).dtype;
  if (dims(0) == dims(1)) return promote_types(a, b);
  const DType tensor = dims(0) ? a : b, number = dims(0) ? b : a;
  return category_of(number) > category_of(tensor) ? number : tensor;
}

std::string same(Emission& e) {
  const auto rows = same_operators();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const SameOperator& r) { return r.op == e.op(); });
  if (row->inputs == 1) {
    const bool is_not = e.op() == "logical_not";
    return e.call(row->onnx, {e.in(0, is_not          ? kBool
                                      : row->is_truth ? e.type(0).dtype
                                                      : e.type().dtype)});
  }
  const bool is_logical = e.op().starts_with("logical_");
  const DType dtype = is_logical ? kBool : row->is_truth ? common_dtype(e) : e.type().dtype;
  return e.call(row->onnx, {e.in(0, dtype), e.in(1, dtype)});
}

/// Two inputs in the result's dtype.
template <const char* op>
std::string both(Emission& e) {
  return e.call(op, {e.in(0, e.type().dtype), e.in(1, e.type().dtype)});
}
constexpr char kPow[] = "Pow", kMax[] = "Max", kMin[] = "Min";

std::string x_of(Emission& e) { return e.in(0, e.type().dtype); }
std::string number(Emission& e, double value) { return e.number(value, e.type().dtype); }

std::string not_equal(Emission& e) {
  const DType dtype = common_dtype(e);
  return e.call("Not", {e.call("Equal", {e.in(0, dtype), e.in(1, dtype)})});
}
std::string alias(Emission& e) { return e.in(0); }
std::string square(Emission& e) { return e.call("Mul", {x_of(e), x_of(e)}); }
std::string expm1(Emission& e) { return e.call("Sub", {e.call("Exp", {x_of(e)}), number(e, 1)}); }
std::string exp2(Emission& e) { return e.call("Pow", {number(e, 2), x_of(e)}); }
std::string log1p(Emission& e) { return e.call("Log", {e.call("Add", {x_of(e), number(e, 1)})}); }
std::string log_to(Emission& e, double base) {
  return e.call("Div", {e.call("Log", {x_of(e)}), number(e, std::log(base))});
}
std::string log2(Emission& e) { return log_to(e, 2); }
std::string log10(Emission& e) { return log_to(e, 10); }
std::string rsqrt(Emission& e) { return e.call("Reciprocal", {e.call("Sqrt", {x_of(e)})}); }
std::string truncated(Emission& e, const std::string& x) {
  return e.call("Mul", {e.call("Sign", {x}), e.call("Floor", {e.call("Abs", {x})})});
}
std::string trunc(Emission& e) { return truncated(e, x_of(e)); }
std::string silu(Emission& e) { return e.call("Mul", {x_of(e), e.call("Sigmoid", {x_of(e)})}); }
std::string mish(Emission& e) {
  return e.call("Mul", {x_of(e), e.call("Tanh", {e.call("Softplus", {x_of(e)})})});
}
std::string log_sigmoid(Emission& e) {
  return e.call("Neg", {e.call("Softplus", {e.call("Neg", {x_of(e)})})});
}
std::string selu(Emission& e) { return e.call("Selu", {x_of(e)}); }
std::string hard_sigmoid(Emission& e) {
  return e.call("HardSigmoid", {x_of(e)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}
/// In a type that IsInf takes in opset 17.
std::string in_f32_or_f64(Emission& e) { return e.in(0, e.type(0).dtype == kF64 ? kF64 : kF32); }
std::string is_inf(Emission& e) { return e.call("IsInf", {in_f32_or_f64(e)}); }
std::string is_finite(Emission& e) {
  const std::string x = in_f32_or_f64(e);
  return e.call("Not", {e.call("Or", {e.call("IsInf", {x}), e.call("IsNaN", {x})})});
}

/// Operands of a quotient, with zero in their type. Half numbers are computed in f32, as the op
/// does; small integers in i64, since runtimes compare few types.
struct Quotient {
  explicit Quotient(Emission& emission) : e(emission) {
    if (is_floating(dtype)) {
      if (is_half(dtype)) dtype = kF32;
    } else if (dtype != kI32) {
      dtype = kI64;
    }
    x = e.in(0, dtype), y = e.in(1, dtype), zero = e.number(0, dtype);
  }

  std::string negative(const std::string& a) const { return e.call("Less", {a, zero}); }
  /// `rest` is not 0 and its sign is not that of y.
  std::string crosses(const std::string& rest) const {
    const std::string some = e.call("Not", {e.call("Equal", {rest, zero})});
    return e.call("And", {some, e.call("Xor", {negative(rest), negative(y)})});
  }
  std::string rest() const { return e.call("Mod", {x, y}, {{"fmod", int64_t{1}}}); }
  std::string number(double value) const { return e.number(value, dtype); }
  std::string done(const std::string& result) const {
    return e.cast(result, dtype, e.type().dtype);
  }

  Emission& e;
  DType dtype = e.type().dtype;
  std::string x, y, zero;
};

/// floor(x / y) from the exact remainder, as the op computes it: x / y may round up to the next
/// integer.
std::string floor_of_reals(const Quotient& q) {
  Emission& e = q.e;
  const std::string rest = q.rest(), ratio = e.call("Div", {q.x, q.y}), one = q.number(1);
  const std::string whole = e.call("Div", {e.call("Sub", {q.x, rest}), q.y});
  const std::string down = e.call("Where", {q.crosses(rest), e.call("Sub", {whole, one}), whole});
  const std::string floor = e.call("Floor", {down});
  const std::string is_more = e.call("Greater", {e.call("Sub", {down, floor}), q.number(0.5)});
  const std::string near = e.call("Where", {is_more, e.call("Add", {floor, one}), floor});
  const std::string signed_zero = e.call("Mul", {ratio, q.zero});
  const std::string some = e.call("Where", {e.call("Equal", {down, q.zero}), signed_zero, near});
  return q.done(e.call("Where", {e.call("Equal", {q.y, q.zero}), ratio, some}));
}

std::string divide(Emission& e) {
  const DType dtype = e.type().dtype;
  const std::string mode = e.has_attribute("rounding_mode") ? e.word("rounding_mode") : "none";
  if (mode == "none") return e.call("Div", {e.in(0, dtype), e.in(1, dtype)});
  const Quotient q(e);
  if (is_floating(dtype) && mode == "floor") return floor_of_reals(q);
  const std::string ratio = e.call("Div", {q.x, q.y});
  if (is_floating(dtype)) return q.done(truncated(e, ratio));
  if (mode == "trunc") return q.done(ratio);
  // x - rest might be too small for an integer.
  const std::string below = e.cast(q.crosses(q.rest()), kBool, q.dtype);
  return q.done(e.call("Sub", {ratio, below}));
}

std::string fmod(Emission& e) {
  const DType dtype = e.type().dtype;
  return e.call("Mod", {e.in(0, dtype), e.in(1, dtype)}, {{"fmod", int64_t{1}}});
}
std::string remainder(Emission& e) {
  const DType dtype = e.type().dtype;
  if (!is_floating(dtype)) return e.call("Mod", {e.in(0, dtype), e.in(1, dtype)});
  const Quotient q(e);
  const std::string rest = q.rest();
  return q.done(e.call("Where", {q.crosses(rest), e.call("Add", {rest, q.y}), rest}));
}
std::string hypot(Emission& e) {
  const DType dtype = e.type().dtype;
  const std::string x = e.in(0, dtype), y = e.in(1, dtype);
  return e.call("Sqrt", {e.call("Add", {e.call("Mul", {x, x}), e.call("Mul", {y, y})})});
}
std::string prelu(Emission& e) {
  const size_t ndim = e.ndim(0);
  std::vector<Size> shape = {e.type(1).shape[0]};
  for (size_t d = 2; d < ndim; ++d) shape.push_back({0, 1});
  const std::string slope = e.in(1, e.type().dtype);
  return e.call("PRelu", {x_of(e), shape.size() == 1 ? slope : e.reshaped(slope, shape)});
}

std::string leaky_relu(Emission& e) {
  return e.call("LeakyRelu", {x_of(e)}, {{"alpha", e.real("slope")}});
}
std::string elu(Emission& e) { return e.call("Elu", {x_of(e)}, {{"alpha", e.real("alpha")}}); }

std::string softplus(Emission& e) {
  const double beta = e.real("beta"), threshold = e.real("threshold");
  if (beta == 1 && threshold == 20) return e.call("Softplus", {x_of(e)});  // alike in f32
  const std::string scaled = e.call("Mul", {x_of(e), number(e, beta)});
  const std::string y = e.call("Div", {e.call("Softplus", {scaled}), number(e, beta)});
  return e.call("Where", {e.call("Greater", {scaled, number(e, threshold)}), x_of(e), y});
}

std::string clipped(Emission& e, double low, double high) {
  return e.call("Clip", {x_of(e), number(e, low), number(e, high)});
}
std::string clamp(Emission& e) { return clipped(e, e.number("low"), e.number("high")); }
std::string relu6(Emission& e) { return clipped(e, 0, 6); }

std::string glu(Emission& e) {
  const int64_t dim = e.dim(0, e.integer("dim"));
  const int64_t half = e.fixed(0, static_cast<size_t>(dim)) / 2;
  const auto part = [&](int64_t begin) {
    return e.call("Slice",
                  {x_of(e), e.integers({begin}), e.integers({begin + half}), e.integers({dim})});
  };
  return e.call("Mul", {part(0), e.call("Sigmoid", {part(half)})});
}

std::string where(Emission& e) {
  const DType dtype = e.type().dtype;
  return e.call("Where", {e.in(0), e.in(1, dtype), e.in(2, dtype)});
}
std::string masked_fill(Emission& e) {
  const DType dtype = e.type().dtype;
  const bool by_tensor = e.inputs() == 3;
  const std::string value = by_tensor ? e.in(2, dtype) : e.number(e.number("value"), dtype);
  return e.call("Where", {e.in(1), value, e.in(0)});
}
std::string cast(Emission& e) { return e.in(0, e.type().dtype); }

// --- views ---------------------------------------------------------------------------------------

/// The same elements in the result's shape.
std::string reshape(Emission& e) { return e.reshaped(e.in(0), e.type().shape); }

std::string flatten(Emission& e) {
  const bool as_onnx = e.dim(0, e.integer("first")) == 1 && e.ndim(0) > 1 &&
                       e.dim(0, e.integer("last")) == static_cast<int64_t>(e.ndim(0)) - 1;
  return as_onnx ? e.call("Flatten", {e.in(0)}, {{"axis", int64_t{1}}}) : reshape(e);
}

std::string transpose(Emission& e) {
  std::vector<int64_t> order(e.ndim(0));
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  const auto at = [&](const char* name) { return static_cast<size_t>(e.dim(0, e.integer(name))); };
  std::swap(order[at("a")], order[at("b")]);
  return e.call("Transpose", {e.in(0)}, {{"perm", order}});
}
std::string permute(Emission& e) {
  std::vector<int64_t> order = e.list("order");
  for (int64_t& d : order) d = e.dim(0, d);
  return e.call("Transpose", {e.in(0)}, {{"perm", order}});
}
std::string expand(Emission& e) { return e.call("Expand", {e.in(0), e.sizes(e.type().shape)}); }

std::string select(Emission& e) {
  const int64_t dim = e.dim(0, e.integer("dim"));
  const std::string index = e.number(static_cast<double>(e.integer("index")), kI64);
  return e.call("Gather", {e.in(0), index}, {{"axis", dim}});
}

std::string sliced(Emission& e, const Size& begin, const Size& end, int64_t step) {
  const int64_t dim = e.dim(0, e.integer("dim"));
  return e.call("Slice",
                {e.in(0), e.sizes({begin}), e.sizes({end}), e.integers({dim}), e.integers({step})});
}
std::string narrow(Emission& e) {
  const Size start = std::get<Size>(e.attribute("start")),
             length = std::get<Size>(e.attribute("length"));
  const Size end{start.of_batch + length.of_batch, start.fixed + length.fixed};
  if (end.of_batch != 0 && end.fixed != 0) e.refuse("its end is no multiple of the batch");
  return sliced(e, start, end, 1);
}
std::string slice(Emission& e) {
  return sliced(e, std::get<Size>(e.attribute("start")), std::get<Size>(e.attribute("stop")),
                e.integer("step"));
}

std::string cat(Emission& e) {
  Names parts;
  for (size_t i = 0; i < e.inputs(); ++i) parts.push_back(e.in(i, e.type().dtype));
  return e.call("Concat", parts, {{"axis", e.dim(0, e.integer("dim"))}});
}
std::string stack(Emission& e) {
  const int64_t given = e.integer("dim"), ndim = std::ssize(e.type().shape);
  const int64_t dim = given < 0 ? given + ndim : given;
  Names parts;
  for (size_t i = 0; i < e.inputs(); ++i) {
    parts.push_back(e.call("Unsqueeze", {e.in(i, e.type().dtype), e.integers({dim})}));
  }
  return e.call("Concat", parts, {{"axis", dim}});
}

std::string pad(Emission& e) {
  const std::vector<int64_t> amounts = e.list("amounts");  // from the last dimension on
  const size_t ndim = e.ndim(0);
  std::vector<int64_t> pads(2 * ndim);
  for (size_t i = 0; i < amounts.size(); ++i) {
    const size_t d = ndim - 1 - i / 2;
    pads[i % 2 == 0 ? d : ndim + d] = amounts[i];
  }
  if (!e.has_attribute("mode")) {
    return e.call("Pad", {e.in(0), e.integers(pads), e.number(e.number("value"), e.type().dtype)});
  }
  const std::string mode = e.word("mode");
  if (mode == "circular") e.refuse("circular padding has no ONNX form in opset 17");
  return e.call("Pad", {e.in(0), e.integers(pads)},
                {{"mode", mode == "replicate" ? std::string("edge") : mode}});
}

std::string triangle(Emission& e) {
  const std::string k = e.number(static_cast<double>(e.integer("diagonal")), kI64);
  return e.call("Trilu", {e.in(0), k}, {{"upper", int64_t{e.op() == "triu"}}});
}

// --- sums over dimensions ------------------------------------------------------------------------

/// The dimensions of a sum, all of them if it names none.
std::vector<int64_t> dims_of(const Emission& e) {
  std::vector<int64_t> dims = e.list("dims");
  if (dims.empty()) {
    for (int64_t d = 0; d < static_cast<int64_t>(e.ndim(0)); ++d) dims.push_back(d);
  }
  for (int64_t& d : dims) d = e.dim(0, d);
  return dims;
}

std::string reduced(Emission& e, const char* op, const std::string& x, bool keeps) {
  return e.call(op, {x}, {{"axes", dims_of(e)}, {"keepdims", int64_t{keeps}}});
}
template <const char* op>
std::string reduce(Emission& e) {
  return reduced(e, op, x_of(e), e.flag("keepdim"));
}
constexpr char kMean[] = "ReduceMean", kProd[] = "ReduceProd", kNorm[] = "ReduceL2",
               kLogSumExp[] = "ReduceLogSumExp", kAmax[] = "ReduceMax", kAmin[] = "ReduceMin";

std::string sum(Emission& e) {  // its axes are an input
  return e.call("ReduceSum", {x_of(e), e.integers(dims_of(e))},
                {{"keepdims", int64_t{e.flag("keepdim")}}});
}
std::string any_or_all(Emission& e) {
  const std::string numbers = e.cast(e.in(0, kBool), kBool, kI32);
  const char* const op = e.op() == "any" ? "ReduceMax" : "ReduceMin";
  return e.cast(reduced(e, op, numbers, e.flag("keepdim")), kI32, kBool);
}

std::string variance(Emission& e) {
  double count = 1;
  for (const int64_t d : dims_of(e))
    count *= static_cast<double>(e.fixed(0, static_cast<size_t>(d)));
  const Attribute& correction = e.attribute("correction");
  const auto* const given = std::get_if<Size>(&correction);
  const double less = given != nullptr ? static_cast<double>(given->fixed) : e.flag("unbiased");
  const std::string away = e.call("Sub", {e.in(0), reduced(e, "ReduceMean", e.in(0), true)});
  const std::string mean = reduced(e, "ReduceMean", e.call("Mul", {away, away}), e.flag("keepdim"));
  return e.call("Mul", {mean, number(e, count / std::max(0.0, count - less))});
}
std::string deviation(Emission& e) { return e.call("Sqrt", {variance(e)}); }

std::string cumsum(Emission& e) {
  const std::string axis = e.number(static_cast<double>(e.dim(0, e.integer("dim"))), kI64);
  return e.call("CumSum", {x_of(e), axis});
}

constexpr Form kForms[] = {
    {"all", any_or_all},
    {"amax", reduce<kAmax>},
    {"amin", reduce<kAmin>},
    {"any", any_or_all},
    {"cast", cast},
    {"cat", cat},
    {"clamp", clamp},
    {"clone", alias},
    {"contiguous", alias},
    {"cumsum", cumsum},
    {"div", divide},
    {"elu", elu},
    {"exp2", exp2},
    {"expand", expand},
    {"expm1", expm1},
    {"flatten", flatten},
    {"fmod", fmod},
    {"glu", glu},
    {"hardsigmoid", hard_sigmoid},
    {"hardtanh", clamp},
    {"hypot", hypot},
    {"isfinite", is_finite},
    {"isinf", is_inf},
    {"leaky_relu", leaky_relu},
    {"log10", log10},
    {"log1p", log1p},
    {"log2", log2},
    {"logsigmoid", log_sigmoid},
    {"logsumexp", reduce<kLogSumExp>},
    {"masked_fill", masked_fill},
    {"max", reduce<kAmax>},
    {"maximum", both<kMax>},
    {"mean", reduce<kMean>},
    {"min", reduce<kAmin>},
    {"minimum", both<kMin>},
    {"mish", mish},
    {"narrow", narrow},
    {"ne", not_equal},
    {"norm", reduce<kNorm>},
    {"pad", pad},
    {"permute", permute},
    {"pow", both<kPow>},
    {"prelu", prelu},
    {"prod", reduce<kProd>},
    {"relu6", relu6},
    {"remainder", remainder},
    {"reshape", reshape},
    {"rsqrt", rsqrt},
    {"select", select},
    {"selu", selu},
    {"silu", silu},
    {"slice", slice},
    {"softplus", softplus},
    {"square", square},
    {"squeeze", reshape},
    {"stack", stack},
    {"std", deviation},
    {"sum", sum},
    {"transpose", transpose},
    {"tril", triangle},
    {"triu", triangle},
    {"trunc", trunc},
    {"unsqueeze", reshape},
    {"var", variance},
    {"view", reshape},
    {"where", where},
};

}  // namespace

std::span<const Form> simple_forms() {
  static const std::vector<Form> all = [] {
    std::vector<Form> forms(std::begin(kForms), std::end(kForms));
    for (const SameOperator& row : same_operators()) forms.push_back({row.op, same});
    return forms;
  }();
  return all;
}

}  // namespace lathe::jit::onnx
