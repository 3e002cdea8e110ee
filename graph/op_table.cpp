// The table of ops that graphs can hold. An op of ops/ is traced as one node if it stands here;
// otherwise the ops that it calls are.
#include "lathe/graph/op_table.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "lathe/graph/op_arguments.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/bitwise.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/special.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::jit {

namespace {

using Ts = const Tensors&;
using Dim = const int64_t&;
using Real = const double&;

/// Of a batch norm that writes nothing: the form with effects is training_norm().
const BatchNormOptions& checked(const BatchNormOptions& o, const Tensor& running_mean) {
  LATHE_CHECK(
      ValueError, !o.training || !running_mean.defined(),
      "graph: a batch norm in training with running statistics needs momentum and num_batches");
  return o;
}

/// The op as in make_op(), of calls in training, which move the running statistics: the range's
/// tensors `mean` and mean + 1, and the number of batches, which is the option tensor.
Op training_norm(const char* name, int inputs, int mean, Tensor (*call)(Ts, const TrainingNorm&)) {
  Op op = make_op(name, inputs, {}, call);
  op.read = [](std::span<const profile::Argument> arguments, std::vector<Attribute>& attributes,
               Tensors& tensors) {
    const auto* const o = arguments.size() == 1 ? arguments[0].as<BatchNormOptions>() : nullptr;
    if (o == nullptr || !o->training) return false;
    CallWriter out{attributes, tensors};
    write(TrainingNorm{*o}, out);
    return true;
  };
  op.writes = {mean, mean + 1, inputs};
  return op;
}

/// Of calls that draw from the default generator.
Op dropout_op() {
  Op op = make_op(
      "dropout", 1, {}, +[](Ts t, const DropoutOptions& o) { return dropout(t[0], o); });
  op.read = [](std::span<const profile::Argument> arguments, std::vector<Attribute>& attributes,
               Tensors& tensors) {
    const auto* const o = arguments.size() == 1 ? arguments[0].as<DropoutOptions>() : nullptr;
    if (o == nullptr || !o->train || o->generator != nullptr) return false;
    CallWriter out{attributes, tensors};
    write(*o, out);
    return true;
  };
  op.draws = true;
  return op;
}

Tensor attention(Ts t, const AttentionOptions& o) {
  return scaled_dot_product_attention(t[0], t[1], t[2], o);
}

Tensor dropping_attention(Ts t, const DroppingAttention& o) { return attention(t, o); }

/// Of calls with dropout, which draw from the default generator, or of those without.
Op attention_op(bool drops) {
  constexpr const char* kName = "scaled_dot_product_attention";
  Op op = drops ? make_op(kName, 3, {}, dropping_attention) : make_op(kName, 3, {}, attention);
  op.read = [drops](std::span<const profile::Argument> arguments,
                    std::vector<Attribute>& attributes, Tensors& tensors) {
    const auto* const o = arguments.size() == 1 ? arguments[0].as<AttentionOptions>() : nullptr;
    if (o == nullptr || (o->dropout > 0) != drops) return false;
    CallWriter out{attributes, tensors};
    if (drops) {
      write(DroppingAttention{*o}, out);
    } else {
      write(*o, out);
    }
    return true;
  };
  op.draws = drops;
  return op;
}

/// Ops of tensors alone.
template <Tensor (*op)(const Tensor&)>
Tensor unary(Ts t) {
  return op(t[0]);
}
template <Tensor (*op)(const Tensor&, const Tensor&)>
Tensor binary(Ts t) {
  return op(t[0], t[1]);
}
template <Tensor (*op)(const Tensor&, int64_t)>
Tensor along(Ts t, Dim dim) {
  return op(t[0], dim);
}
template <Tensor (*op)(const Tensor&, const Dims&, ReduceOptions)>
Tensor reduce(Ts t, const Dims& dims, const ReduceOptions& o) {
  return op(t[0], dims, o);
}

// clang-format off
void add_pointwise(std::vector<Op>& ops) {
  const auto add1 = [&](const char* name, Tensor (*call)(Ts)) { ops.push_back(make_op(name, 1, {}, call)); };
  const auto add2 = [&](const char* name, Tensor (*call)(Ts)) { ops.push_back(make_op(name, 2, {}, call)); };
  add1("neg", unary<neg>), add1("abs", unary<abs>), add1("square", unary<square>), add1("sign", unary<sign>);
  add1("floor", unary<floor>), add1("ceil", unary<ceil>), add1("round", unary<round>), add1("trunc", unary<trunc>);
  add1("exp", unary<exp>), add1("expm1", unary<expm1>), add1("exp2", unary<exp2>);
  add1("log", unary<log>), add1("log1p", unary<log1p>), add1("log2", unary<log2>), add1("log10", unary<log10>);
  add1("sqrt", unary<sqrt>), add1("rsqrt", unary<rsqrt>), add1("reciprocal", unary<reciprocal>);
  add1("sin", unary<sin>), add1("cos", unary<cos>), add1("tan", unary<tan>), add1("asin", unary<asin>), add1("acos", unary<acos>), add1("atan", unary<atan>);
  add1("sinh", unary<sinh>), add1("cosh", unary<cosh>), add1("tanh", unary<tanh>);
  add1("erf", unary<erf>), add1("lgamma", unary<lgamma>), add1("digamma", unary<digamma>), add1("erfinv", unary<erfinv>);
  add1("sigmoid", unary<sigmoid>), add1("relu", unary<relu>), add1("silu", unary<silu>);
  add1("relu6", unary<relu6>), add1("hardsigmoid", unary<hardsigmoid>), add1("hardswish", unary<hardswish>), add1("mish", unary<mish>);
  add1("selu", unary<selu>), add1("softsign", unary<softsign>), add1("logsigmoid", unary<logsigmoid>);
  add1("logical_not", unary<logical_not>), add1("isnan", unary<isnan>), add1("isinf", unary<isinf>), add1("isfinite", unary<isfinite>), add1("clone", unary<clone>);

  add2("add", binary<add>), add2("sub", binary<sub>), add2("mul", binary<mul>), add2("div", binary<div>), add2("pow", binary<pow>);
  add2("maximum", binary<maximum>), add2("minimum", binary<minimum>), add2("fmod", binary<fmod>), add2("remainder", binary<remainder>);
  add2("hypot", binary<hypot>), add2("atan2", binary<atan2>), add2("prelu", binary<prelu>);
  add2("eq", binary<eq>), add2("ne", binary<ne>), add2("lt", binary<lt>), add2("le", binary<le>), add2("gt", binary<gt>), add2("ge", binary<ge>);
  add2("relu_grad", binary<relu_grad>), add2("tanh_grad", binary<tanh_grad>), add2("sigmoid_grad", binary<sigmoid_grad>);
  add2("gelu_grad", binary<gelu_grad>), add2("gelu_tanh_grad", binary<gelu_tanh_grad>);
  add2("logical_and", binary<logical_and>), add2("logical_or", binary<logical_or>), add2("logical_xor", binary<logical_xor>);

  ops.push_back(make_op("div", 2, {"rounding_mode"}, +[](Ts t, const RoundingMode& mode) { return div(t[0], t[1], {.rounding_mode = mode}); }));
  ops.push_back(make_op("leaky_relu", 1, {"slope"}, +[](Ts t, Real slope) { return leaky_relu(t[0], slope); }));
  ops.push_back(make_op("polygamma", 1, {"n"}, +[](Ts t, Dim n) { return polygamma(n, t[0]); }));
  ops.push_back(make_op("elu", 1, {"alpha"}, +[](Ts t, Real alpha) { return elu(t[0], alpha); }));
  ops.push_back(make_op("gelu", 1, {}, +[](Ts t, const GeluOptions& o) { return gelu(t[0], o); }));
  ops.push_back(make_op("softplus", 1, {}, +[](Ts t, const SoftplusOptions& o) { return softplus(t[0], o); }));
  ops.push_back(make_op("clamp", 1, {"low", "high"}, +[](Ts t, const Scalar& low, const Scalar& high) { return clamp(t[0], low, high); }));
  ops.push_back(make_op("hardtanh", 1, {"low", "high"}, +[](Ts t, Real low, Real high) { return hardtanh(t[0], low, high); }));
  ops.push_back(make_op("glu", 1, {"dim"}, along<glu>));
  ops.push_back(make_op("where", 3, {}, +[](Ts t) { return where(t[0], t[1], t[2]); }));
  ops.push_back(make_op("masked_fill", 2, {"value"}, +[](Ts t, const Scalar& value) { return masked_fill(t[0], t[1], value); }));
  ops.push_back(make_op("masked_fill", 3, {}, +[](Ts t) { return masked_fill(t[0], t[1], t[2]); }));
  ops.push_back(make_op("cast", 1, {"dtype"}, +[](Ts t, const DType& dtype) { return cast(t[0], dtype); }));
}

/// Of integers, which fused kernels do not compute with.
void add_bits(std::vector<Op>& ops) {
  const auto add = [&](const char* name, Tensor (*call)(Ts)) { ops.push_back(make_op(name, 2, {}, call)); };
  add("bitwise_and", binary<bitwise_and>), add("bitwise_or", binary<bitwise_or>), add("bitwise_xor", binary<bitwise_xor>);
  add("bitwise_left_shift", binary<bitwise_left_shift>), add("bitwise_right_shift", binary<bitwise_right_shift>);
  ops.push_back(make_op("bitwise_not", 1, {}, unary<bitwise_not>));
}

void add_views(std::vector<Op>& ops) {
  ops.push_back(make_op("view", 1, {"shape"}, +[](Ts t, const Dims& shape) { return view(t[0], shape); }));
  ops.push_back(make_op("reshape", 1, {"shape"}, +[](Ts t, const Dims& shape) { return reshape(t[0], shape); }));
  ops.push_back(make_op("flatten", 1, {"first", "last"}, +[](Ts t, Dim first, Dim last) { return flatten(t[0], first, last); }));
  ops.push_back(make_op("squeeze", 1, {}, +[](Ts t) { return squeeze(t[0]); }));
  ops.push_back(make_op("squeeze", 1, {"dim"}, along<squeeze>));
  ops.push_back(make_op("unsqueeze", 1, {"dim"}, along<unsqueeze>));
  ops.push_back(make_op("transpose", 1, {"a", "b"}, +[](Ts t, Dim a, Dim b) { return transpose(t[0], a, b); }));
  ops.push_back(make_op("permute", 1, {"order"}, +[](Ts t, const Dims& order) { return permute(t[0], order); }));
  ops.push_back(make_op("expand", 1, {"shape"}, +[](Ts t, const Dims& shape) { return expand(t[0], shape); }));
  ops.push_back(make_op("select", 1, {"dim", "index"}, +[](Ts t, Dim dim, Dim index) { return select(t[0], dim, index); }));
  ops.push_back(make_op("narrow", 1, {"dim", "start", "length"}, +[](Ts t, Dim dim, Dim start, Dim length) { return narrow(t[0], dim, start, length); }));
  ops.push_back(make_op("slice", 1, {"dim", "start", "stop", "step"}, +[](Ts t, Dim dim, Dim start, Dim stop, Dim step) { return slice(t[0], dim, start, stop, step); }));
  ops.push_back(make_op("contiguous", 1, {"format"}, +[](Ts t, const MemoryFormat& format) { return contiguous(t[0], format); }));
  ops.push_back(make_op("cat", -1, {"dim"}, +[](Ts t, Dim dim) { return cat(t, dim); }));
  ops.push_back(make_op("stack", -1, {"dim"}, +[](Ts t, Dim dim) { return stack(t, dim); }));
  ops.push_back(make_op("pad", 1, {"amounts", "value"}, +[](Ts t, const std::vector<int64_t>& amounts, const Scalar& value) { return pad(t[0], amounts, value); }));
  ops.push_back(make_op("pad", 1, {"amounts", "mode"}, +[](Ts t, const std::vector<int64_t>& amounts, const PadMode& mode) { return pad(t[0], amounts, mode); }));
  ops.push_back(make_op("tril", 1, {"diagonal"}, along<tril>));
  ops.push_back(make_op("triu", 1, {"diagonal"}, along<triu>));
}

void add_sums(std::vector<Op>& ops) {
  const auto add = [&](const char* name, Tensor (*call)(Ts, const Dims&, const ReduceOptions&)) { ops.push_back(make_op(name, 1, {"dims"}, call)); };
  add("sum", reduce<sum>), add("mean", reduce<mean>), add("prod", reduce<prod>), add("norm", reduce<norm>), add("logsumexp", reduce<logsumexp>);
  add("amax", reduce<amax>), add("amin", reduce<amin>);
  add("max", +[](Ts t, const Dims&, const ReduceOptions&) { return max(t[0]); });
  add("min", +[](Ts t, const Dims&, const ReduceOptions&) { return min(t[0]); });
  ops.push_back(make_op("all", 1, {"dims", "keepdim"}, +[](Ts t, const Dims& dims, const bool& keepdim) { return all(t[0], dims, {.keepdim = keepdim}); }));
  ops.push_back(make_op("any", 1, {"dims", "keepdim"}, +[](Ts t, const Dims& dims, const bool& keepdim) { return any(t[0], dims, {.keepdim = keepdim}); }));
  ops.push_back(make_op("var", 1, {"dims"}, +[](Ts t, const Dims& dims, const VarOptions& o) { return var(t[0], dims, o); }));
  ops.push_back(make_op("std", 1, {"dims"}, +[](Ts t, const Dims& dims, const VarOptions& o) { return std(t[0], dims, o); }));
  ops.push_back(make_op("cumsum", 1, {"dim"}, along<cumsum>));
  ops.push_back(make_op("softmax", 1, {"dim"}, along<softmax>));
  ops.push_back(make_op("log_softmax", 1, {"dim"}, along<log_softmax>));
}

void add_layers(std::vector<Op>& ops) {
  ops.push_back(make_op("cross_entropy", 2, {}, +[](Ts t, const CrossEntropyOptions& o) { return cross_entropy(t[0], t[1], o); }));
  ops.push_back(make_op("nll_loss", 2, {}, +[](Ts t, const NllLossOptions& o) { return nll_loss(t[0], t[1], o); }));
  ops.push_back(make_op("matmul", 2, {}, binary<matmul>));
  ops.push_back(make_op("bmm", 2, {}, binary<bmm>));
  ops.push_back(make_op("linear", 3, {}, +[](Ts t) { return linear(t[0], t[1], t[2]); }));
  ops.push_back(make_op("linear", 1, {}, +[](Ts t, const std::vector<MlpLayer>& layers, const MlpOptions& o) { return linear(t[0], layers.at(0).w, layers.at(0).bias, o.activation); }));
  ops.push_back(make_op("mlp", 1, {}, +[](Ts t, const std::vector<MlpLayer>& layers, const MlpOptions& o) { return mlp(t[0], layers, o); }));
  ops.push_back(make_op("embedding", 2, {}, +[](Ts t, const EmbeddingOptions& o) { return embedding(t[0], t[1], o); }));
  ops.push_back(make_op("index_select", 2, {"dim"}, +[](Ts t, Dim dim) { return index_select(t[0], dim, t[1]); }));
  ops.push_back(make_op("gather", 2, {"dim"}, +[](Ts t, Dim dim) { return gather(t[0], dim, t[1]); }));
  ops.push_back(make_op("conv1d", 2, {}, +[](Ts t, const Conv1dOptions& o) { return conv1d(t[0], t[1], o); }));
  ops.push_back(make_op("conv2d", 2, {}, +[](Ts t, const Conv2dOptions& o) { return conv2d(t[0], t[1], o); }));
  ops.push_back(make_op("fused_conv2d", 2, {}, +[](Ts t, const Conv2dOptions& o, const Conv2dEpilogue& then) { return fused_conv2d(t[0], t[1], o, then); }));
  ops.push_back(make_op("quantize", 1, {"scale", "dtype"}, +[](Ts t, Real scale, const DType& dtype) { return quantize(t[0], scale, dtype); }));
  ops.push_back(make_op("dequantize", 1, {"scale"}, +[](Ts t, Real scale) { return dequantize(t[0], scale); }));
  ops.push_back(make_op("quantized_conv2d", 3, {}, +[](Ts t, const Conv2dOptions& o, const QuantizedEpilogue& then) { return quantized_conv2d(t[0], t[1], t[2], o, then); }));
  ops.push_back(make_op("quantized_linear", 4, {}, +[](Ts t, const QuantizedEpilogue& then) { return quantized_linear(t[0], t[1], t[2], t[3], then); }));
  ops.push_back(make_op("quantized_max_pool2d", 1, {}, +[](Ts t, const MaxPool2dOptions& o) { return quantized_max_pool2d(t[0], o); }));
  ops.push_back(make_op("conv_transpose2d", 2, {}, +[](Ts t, const ConvTranspose2dOptions& o) { return conv_transpose2d(t[0], t[1], o); }));
  ops.push_back(make_op("max_pool2d", 1, {}, +[](Ts t, const MaxPool2dOptions& o) { return max_pool2d(t[0], o); }));
  ops.push_back(make_op("avg_pool2d", 1, {}, +[](Ts t, const AvgPool2dOptions& o) { return avg_pool2d(t[0], o); }));
  ops.push_back(make_op("adaptive_avg_pool2d", 1, {"size"}, +[](Ts t, const Pair& size) { return adaptive_avg_pool2d(t[0], size); }));
  ops.push_back(make_op("upsample", 1, {}, +[](Ts t, const UpsampleOptions& o) { return upsample(t[0], o); }));
  ops.push_back(training_norm("batch_norm", 5, 3, +[](Ts t, const TrainingNorm& o) { return batch_norm(t[0], t[1], t[2], t[3], t[4], o); }));
  ops.push_back(training_norm("batch_norm_relu", 5, 3, +[](Ts t, const TrainingNorm& o) { return batch_norm_relu(t[0], t[1], t[2], t[3], t[4], o); }));
  ops.push_back(training_norm("batch_norm_add_relu", 6, 4, +[](Ts t, const TrainingNorm& o) { return batch_norm_add_relu(t[0], t[1], t[2], t[3], t[4], t[5], o); }));
  ops.push_back(make_op("batch_norm", 5, {}, +[](Ts t, const BatchNormOptions& o) { return batch_norm(t[0], t[1], t[2], t[3], t[4], checked(o, t[3])); }));
  ops.push_back(make_op("batch_norm_relu", 5, {}, +[](Ts t, const BatchNormOptions& o) { return batch_norm_relu(t[0], t[1], t[2], t[3], t[4], checked(o, t[3])); }));
  ops.push_back(make_op("batch_norm_add_relu", 6, {}, +[](Ts t, const BatchNormOptions& o) { return batch_norm_add_relu(t[0], t[1], t[2], t[3], t[4], t[5], checked(o, t[4])); }));
  ops.push_back(dropout_op());
  ops.push_back(attention_op(false));
  ops.push_back(attention_op(true));
  ops.push_back(make_op("layer_norm", 1, {"normalized"}, +[](Ts t, const Shape& normalized, const LayerNormOptions& o) { return layer_norm(t[0], normalized, o); }));
  ops.push_back(make_op("group_norm", 1, {"groups"}, +[](Ts t, Dim groups, const GroupNormOptions& o) { return group_norm(t[0], groups, o); }));
}
// clang-format on

/// Of add_pointwise(): glu halves a dimension; prelu's slopes belong to dimension 1 and are not
/// broadcast.
bool is_pointwise(const Op& op) { return op.name != "glu" && op.name != "prelu"; }

/// What the op's own amp::cast() says.
std::optional<amp::Policy> amp_policy(std::string_view op) {
  constexpr std::string_view kHalf[] = {"bmm",
                                        "conv1d",
                                        "conv2d",
                                        "conv_transpose2d",
                                        "fused_conv2d",
                                        "linear",
                                        "matmul",
                                        "mlp",
                                        "scaled_dot_product_attention"};
  constexpr std::string_view kFloat[] = {
      "acos",       "asin",  "cos", "cosh",        "cross_entropy", "cumsum",   "exp",
      "exp2",       "expm1", "log", "group_norm",  "layer_norm",    "log10",    "log1p",
      "log2",       "norm",  "pow", "log_softmax", "logsumexp",     "nll_loss", "prod",
      "reciprocal", "rsqrt", "sin", "sinh",        "softmax",       "sum",      "tan"};
  if (std::ranges::find(kHalf, op) != std::end(kHalf)) return amp::kHalf;
  if (std::ranges::find(kFloat, op) != std::end(kFloat)) return amp::kFloat;
  return {};
}

/// Sorted by name.
const std::vector<Op>& table() {
  static const std::vector<Op> ops = [] {
    std::vector<Op> all;
    add_pointwise(all);
    for (Op& op : all) op.pointwise = is_pointwise(op);
    add_bits(all);
    add_views(all);
    add_sums(all);
    add_layers(all);
    for (Op& op : all) op.amp = amp_policy(op.name);
    std::stable_sort(all.begin(), all.end(),
                     [](const Op& a, const Op& b) { return a.name < b.name; });
    return all;
  }();
  return ops;
}

}  // namespace

bool Op::takes(size_t count) const {
  const auto least = static_cast<size_t>(inputs < 0 ? 1 : inputs);
  if (inputs < 0) return count >= least;
  if (option_tensors < 0) return count >= least + 2 && (count - least) % 2 == 0;
  return count == least + static_cast<size_t>(option_tensors);
}

std::span<const Op> all_ops() { return table(); }

std::span<const Op> find_ops(std::string_view name) {
  const std::vector<Op>& ops = table();
  const auto first = std::lower_bound(ops.begin(), ops.end(), name,
                                      [](const Op& op, std::string_view n) { return op.name < n; });
  auto last = first;
  while (last != ops.end() && last->name == name) ++last;
  return {first, last};
}

const Op* find_op(std::string_view name, std::span<const std::string> attributes) {
  for (const Op& op : find_ops(name)) {
    if (std::equal(op.attributes.begin(), op.attributes.end(), attributes.begin(), attributes.end(),
                   [](const AttributeName& a, const std::string& b) { return a.name == b; })) {
      return &op;
    }
  }
  return nullptr;
}

}  // namespace lathe::jit
