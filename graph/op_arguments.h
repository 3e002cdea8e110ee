// How an op's arguments become a node's attributes, and back: one visit() per options struct, one
// Field per type of a member. make_op() derives the rest of an Op from a function's signature.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/core/pair.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv1d.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv_transpose2d.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/fused_conv2d.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/layer_norm.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/losses/nll_loss.h"
#include "lathe/ops/mlp.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/quantized.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/upsample.h"

namespace lathe::jit {

// --- options: their members, each once -----------------------------------------------------------

/// The options of a batch norm that moves its running statistics.
struct TrainingNorm : BatchNormOptions {};
/// The options of an attention that drops weights.
struct DroppingAttention : AttentionOptions {};

// clang-format off
template <class F> void visit(Conv2dOptions& o, F&& f) { f("bias", o.bias), f("stride", o.stride), f("pad", o.pad), f("dilation", o.dilation), f("groups", o.groups); }
template <class F> void visit(Conv2dEpilogue& o, F&& f) { f("residual", o.residual), f("constant_filters", o.constant_filters), f("relu", o.relu); }
template <class F> void visit(QuantizedEpilogue& o, F&& f) { f("residual", o.residual), f("x_scale", o.x_scale), f("residual_scale", o.residual_scale), f("y_scale", o.y_scale), f("dtype", o.dtype), f("relu", o.relu); }
template <class F> void visit(Conv1dOptions& o, F&& f) { f("bias", o.bias), f("stride", o.stride), f("pad", o.pad), f("dilation", o.dilation), f("groups", o.groups); }
template <class F> void visit(ConvTranspose2dOptions& o, F&& f) { f("bias", o.bias), f("stride", o.stride), f("pad", o.pad), f("output_pad", o.output_pad), f("dilation", o.dilation), f("groups", o.groups); }
template <class F> void visit(MaxPool2dOptions& o, F&& f) { f("kernel", o.kernel), f("stride", o.stride), f("pad", o.pad), f("dilation", o.dilation), f("ceil_mode", o.ceil_mode); }
template <class F> void visit(AvgPool2dOptions& o, F&& f) { f("kernel", o.kernel), f("stride", o.stride), f("pad", o.pad), f("ceil_mode", o.ceil_mode), f("count_include_pad", o.count_include_pad), f("divisor_override", o.divisor_override); }
template <class F> void visit(UpsampleOptions& o, F&& f) { f("size", o.size), f("scale_rows", o.scale.rows), f("scale_columns", o.scale.cols), f("mode", o.mode), f("align_corners", o.align_corners); }
template <class F> void visit(BatchNormOptions& o, F&& f) { f("training", o.training), f("eps", o.eps); }
template <class F> void visit(TrainingNorm& o, F&& f) { f("training", o.training), f("momentum", o.momentum), f("eps", o.eps), f("num_batches", o.num_batches); }
template <class F> void visit(CrossEntropyOptions& o, F&& f) { f("weight", o.weight), f("ignore_index", o.ignore_index), f("label_smoothing", o.label_smoothing), f("reduction", o.reduction); }
template <class F> void visit(NllLossOptions& o, F&& f) { f("weight", o.weight), f("ignore_index", o.ignore_index), f("reduction", o.reduction); }
template <class F> void visit(DropoutOptions& o, F&& f) { f("p", o.p); }
template <class F> void visit(AttentionOptions& o, F&& f) { f("mask", o.mask), f("causal", o.causal), f("scale", o.scale.emplace(o.scale.value_or(1))), f("grouped", o.grouped); }
template <class F> void visit(DroppingAttention& o, F&& f) { f("dropout", o.dropout), visit(static_cast<AttentionOptions&>(o), f); }
template <class F> void visit(LayerNormOptions& o, F&& f) { f("weight", o.weight), f("bias", o.bias), f("eps", o.eps); }
template <class F> void visit(GroupNormOptions& o, F&& f) { f("weight", o.weight), f("bias", o.bias), f("eps", o.eps); }
template <class F> void visit(EmbeddingOptions& o, F&& f) { f("padding_index", o.padding_index); }
template <class F> void visit(MlpOptions& o, F&& f) { f("activation", o.activation), f("activate_last", o.activate_last); }
template <class F> void visit(ReduceOptions& o, F&& f) { f("keepdim", o.keepdim); }
template <class F> void visit(VarOptions& o, F&& f) { f("unbiased", o.unbiased), f("keepdim", o.keepdim), f("correction", o.correction); }
template <class F> void visit(GeluOptions& o, F&& f) { f("tanh_approximation", o.tanh_approximation); }
template <class F> void visit(SoftplusOptions& o, F&& f) { f("beta", o.beta), f("threshold", o.threshold); }
// clang-format on

template <class T>
concept Options = requires(T& o) {
  visit(o, [](const char*, auto&) {});
};

// --- members and single arguments ----------------------------------------------------------------

/// The words of an enumeration, in its order.
template <class T>
inline constexpr std::initializer_list<const char*> kWords = {};
template <>
inline constexpr std::initializer_list<const char*> kWords<Activation> = {"relu", "fast_relu",
                                                                          "gelu", "gelu_tanh"};
template <>
inline constexpr std::initializer_list<const char*> kWords<PadMode> = {"reflect", "replicate",
                                                                       "circular"};
template <>
inline constexpr std::initializer_list<const char*> kWords<Reduction> = {"none", "mean", "sum"};
template <>
inline constexpr std::initializer_list<const char*> kWords<RoundingMode> = {"none", "trunc",
                                                                            "floor"};
template <>
inline constexpr std::initializer_list<const char*> kWords<UpsampleMode> = {
    "nearest", "nearest_exact", "bilinear", "bicubic"};
template <>
inline constexpr std::initializer_list<const char*> kWords<MemoryFormat> = {"contiguous",
                                                                            "channels_last"};

/// throws: ValueError if there is no such word.
template <class T>
T from_word(const std::string& word) {
  int at = 0;
  for (const char* const known : kWords<T>) {
    if (word == known) return static_cast<T>(at);
    ++at;
  }
  LATHE_FAIL(ValueError, "graph: \"", word, "\" is no value of its attribute");
}

/// A type as an attribute: its kind, to(value) and from(attribute).
template <class T>
struct Field {  // an enumeration
  static_assert(kWords<T>.size() > 0, "give the enumeration its words above");
  static constexpr AttributeKind kKind = AttributeKind::kWord;
  static Attribute to(T v) { return std::string(kWords<T>.begin()[static_cast<int>(v)]); }
  static T from(const Attribute& a) { return from_word<T>(std::get<std::string>(a)); }
};
template <>
struct Field<bool> {
  static constexpr AttributeKind kKind = AttributeKind::kBool;
  static Attribute to(bool v) { return v; }
  static bool from(const Attribute& a) { return std::get<bool>(a); }
};
template <>
struct Field<int64_t> {
  static constexpr AttributeKind kKind = AttributeKind::kInteger;
  static Attribute to(int64_t v) { return Size{0, v}; }
  static int64_t from(const Attribute& a) { return std::get<Size>(a).fixed; }
};
template <>
struct Field<double> {
  static constexpr AttributeKind kKind = AttributeKind::kReal;
  static Attribute to(double v) { return v; }
  static double from(const Attribute& a) { return std::get<double>(a); }
};
template <>
struct Field<Scalar> {
  static constexpr AttributeKind kKind = AttributeKind::kNumber;
  static Attribute to(const Scalar& v) {
    if (v.is_floating()) return v.to<double>();
    if (v.dtype() == kBool) return v.to<bool>();
    return Size{0, v.to<int64_t>()};
  }
  static Scalar from(const Attribute& a) {
    if (const auto* real = std::get_if<double>(&a)) return *real;
    if (const auto* truth = std::get_if<bool>(&a)) return *truth;
    return std::get<Size>(a).fixed;
  }
};
template <>
struct Field<std::optional<int64_t>> {
  static constexpr AttributeKind kKind = AttributeKind::kMaybeInteger;
  static Attribute to(const std::optional<int64_t>& v) {
    if (v) return Size{0, *v};
    return std::string("none");
  }
  static std::optional<int64_t> from(const Attribute& a) {
    if (const auto* size = std::get_if<Size>(&a)) return size->fixed;
    return std::nullopt;
  }
};
template <>
struct Field<DType> {
  static constexpr AttributeKind kKind = AttributeKind::kWord;
  static Attribute to(DType v) { return std::string(name_of(v)); }
  static DType from(const Attribute& a) { return dtype_from_name(std::get<std::string>(a)); }
};
template <>
struct Field<std::vector<int64_t>> {
  static constexpr AttributeKind kKind = AttributeKind::kList;
  static Attribute to(const std::vector<int64_t>& v) {
    std::vector<Size> sizes;
    for (const int64_t value : v) sizes.push_back({0, value});
    return sizes;
  }
  static std::vector<int64_t> from(const Attribute& a) {
    std::vector<int64_t> values;
    for (const Size& size : std::get<std::vector<Size>>(a)) values.push_back(size.fixed);
    return values;
  }
};
template <>
struct Field<Dims> {
  static constexpr AttributeKind kKind = AttributeKind::kList;
  static Attribute to(const Dims& v) { return Field<std::vector<int64_t>>::to(v.vector()); }
  static Dims from(const Attribute& a) { return Field<std::vector<int64_t>>::from(a); }
};
template <>
struct Field<Pair> {
  static constexpr AttributeKind kKind = AttributeKind::kList;
  static Attribute to(const Pair& v) { return std::vector<Size>{{0, v.rows}, {0, v.cols}}; }
  static Pair from(const Attribute& a) {
    const auto values = Field<std::vector<int64_t>>::from(a);
    LATHE_CHECK(ValueError, values.size() == 2, "graph: expected [rows,columns], got ",
                values.size(), " numbers");
    return {values[0], values[1]};
  }
};

// --- a call --------------------------------------------------------------------------------------

/// What a node has of a call, being written or read from left to right.
struct CallWriter {
  std::vector<Attribute>& attributes;
  Tensors& tensors;
};
struct CallReader {
  const std::vector<Attribute>& attributes;
  const Tensors& tensors;  // the inputs that come after those of the range
  size_t next_attribute = 0, next_tensor = 0;

  Tensor tensor() { return next_tensor < tensors.size() ? tensors[next_tensor++] : Tensor(); }
};

template <class T>
void write(const T& value, CallWriter& out) {
  if constexpr (std::is_same_v<T, std::vector<MlpLayer>>) {
    for (const MlpLayer& layer : value) {
      out.tensors.insert(out.tensors.end(), {layer.w, layer.bias});
    }
  } else if constexpr (Options<T>) {
    T copy = value;
    visit(copy, [&](const char*, const auto& member) { write(member, out); });
  } else if constexpr (std::is_same_v<T, Tensor>) {
    out.tensors.push_back(value);
  } else {
    out.attributes.push_back(Field<T>::to(value));
  }
}

template <class T>
T read(CallReader& in) {
  if constexpr (std::is_same_v<T, std::vector<MlpLayer>>) {
    std::vector<MlpLayer> layers;
    while (in.next_tensor + 1 < in.tensors.size()) {
      Tensor w = in.tensor();
      layers.push_back({std::move(w), in.tensor()});
    }
    return layers;
  } else if constexpr (Options<T>) {
    T options;
    visit(options, [&]<class M>(const char*, M& member) { member = read<M>(in); });
    return options;
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return in.tensor();
  } else {
    return Field<T>::from(in.attributes[in.next_attribute++]);
  }
}

/// Adds the attributes of an argument of type T; `name` is that of a single argument.
template <class T>
void describe(Op& op, const char* const*& name) {
  if constexpr (std::is_same_v<T, std::vector<MlpLayer>>) {
    op.option_tensors = -1;
  } else if constexpr (Options<T>) {
    T options;
    visit(options, [&]<class M>(const char* member, const M&) {
      if constexpr (std::is_same_v<M, Tensor>) {
        ++op.option_tensors;
      } else {
        op.attributes.push_back({member, Field<M>::kKind});
      }
    });
  } else {
    op.attributes.push_back({*name++, Field<T>::kKind});
  }
}

template <class... Args, size_t... I>
bool read_arguments(std::span<const profile::Argument> arguments,
                    std::vector<Attribute>& attributes, Tensors& tensors,
                    std::index_sequence<I...>) {
  if (arguments.size() != sizeof...(Args) || !(arguments[I].template as<Args>() && ...)) {
    return false;
  }
  [[maybe_unused]] CallWriter out{attributes, tensors};
  (write(*arguments[I].template as<Args>(), out), ...);
  return true;
}

/// The op `name` with this many tensors in its range. `names` are those of the arguments that are
/// not options; `call` takes the tensors of the range, then the arguments.
template <class... Args>
Op make_op(const char* name, int inputs, std::initializer_list<const char*> names,
           Tensor (*call)(const Tensors&, const Args&...)) {
  Op op{name, inputs, 0, {}, {}, {}};
  [[maybe_unused]] const char* const* next = names.begin();
  (describe<Args>(op, next), ...);
  op.read = [](std::span<const profile::Argument> arguments, std::vector<Attribute>& attributes,
               Tensors& tensors) {
    return read_arguments<Args...>(arguments, attributes, tensors,
                                   std::index_sequence_for<Args...>());
  };
  op.call = [inputs, call](const Tensors& in, const std::vector<Attribute>& attributes) {
    const size_t count = inputs < 0 ? in.size() : static_cast<size_t>(inputs);
    const auto rest = in.begin() + static_cast<ptrdiff_t>(count);
    const Tensors first(in.begin(), rest), tensors(rest, in.end());
    [[maybe_unused]] CallReader reader{attributes, tensors};
    std::tuple<Args...> arguments{read<Args>(reader)...};  // braces: from left to right
    return std::apply([&](const Args&... a) { return call(first, a...); }, arguments);
  };
  return op;
}

}  // namespace lathe::jit
