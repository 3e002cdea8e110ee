// The ONNX forms of layers: convolutions, pooling, products, attention, norms, lookups.
// onnx_forms.cpp has the others. Contract: onnx_export.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx_export.h"
#include "lathe/ops/creation.h"

namespace lathe::jit::onnx {

namespace {

std::vector<int64_t> both_sides(const std::vector<int64_t>& pad) {
  std::vector<int64_t> pads = pad;
  pads.insert(pads.end(), pad.begin(), pad.end());
  return pads;
}

/// `layer` of x with a batch; ops also take planes without one.
template <class F>
std::string with_batch(Emission& e, size_t ndim, F&& layer) {
  if (e.ndim(0) == ndim) return layer(e.in(0));
  std::vector<Size> one = {{0, 1}};
  const std::vector<Size>& x = e.type(0).shape;
  one.insert(one.end(), x.begin(), x.end());
  return e.reshaped(layer(e.reshaped(e.in(0), one)), e.type().shape);
}

// --- convolutions and pooling --------------------------------------------------------------------

std::string conv2d(Emission& e) {
  return with_batch(e, 4, [&](const std::string& x) {
    return e.call("Conv", {x, e.in(1), e.in(2)},
                  {{"strides", e.list("stride")},
                   {"pads", both_sides(e.list("pad"))},
                   {"dilations", e.list("dilation")},
                   {"group", e.integer("groups")}});
  });
}
/// With a residual and a relu behind it.
std::string fused_conv2d(Emission& e) {
  std::string y = conv2d(e);
  if (e.has(3)) y = e.call("Add", {y, e.in(3)});
  return e.flag("relu") ? e.call("Relu", {y}) : y;
}
std::string conv1d(Emission& e) {
  using List = std::vector<int64_t>;
  return with_batch(e, 3, [&](const std::string& x) {
    return e.call("Conv", {x, e.in(1), e.in(2)},
                  {{"strides", List{e.integer("stride")}},
                   {"pads", both_sides({e.integer("pad")})},
                   {"dilations", List{e.integer("dilation")}},
                   {"group", e.integer("groups")}});
  });
}
std::string conv_transpose2d(Emission& e) {
  return with_batch(e, 4, [&](const std::string& x) {
    return e.call("ConvTranspose", {x, e.in(1), e.in(2)},
                  {{"strides", e.list("stride")},
                   {"pads", both_sides(e.list("pad"))},
                   {"output_padding", e.list("output_pad")},
                   {"dilations", e.list("dilation")},
                   {"group", e.integer("groups")}});
  });
}

/// 0 stands for the kernel's size.
std::vector<int64_t> pool_stride(const Emission& e) {
  std::vector<int64_t> stride = e.list("stride");
  for (size_t i = 0; i < stride.size(); ++i) {
    if (stride[i] == 0) stride[i] = e.list("kernel")[i];
  }
  return stride;
}
/// ceil_mode must not add a window: runtimes disagree about the last one.
void check_floor(const Emission& e) {
  const std::vector<int64_t> kernel = e.list("kernel"), pad = e.list("pad"),
                             stride = pool_stride(e);
  for (size_t i = 0; e.flag("ceil_mode") && i < 2; ++i) {
    const int64_t dilation = e.has_attribute("dilation") ? e.list("dilation")[i] : 1;
    const int64_t room =
        e.fixed(0, e.ndim(0) - 2 + i) + 2 * pad[i] - dilation * (kernel[i] - 1) - 1;
    if (room % stride[i] != 0) {
      e.refuse("with ceil_mode, runtimes disagree about the last window");
    }
  }
}

/// Runtimes disagree about the last window of ceil_mode, so padding is written for it.
std::vector<int64_t> max_pool_pads(const Emission& e) {
  const std::vector<int64_t> kernel = e.list("kernel"), pad = e.list("pad"),
                             dilation = e.list("dilation"), stride = pool_stride(e);
  std::vector<int64_t> pads = both_sides(pad);
  for (size_t i = 0; e.flag("ceil_mode") && i < 2; ++i) {
    const int64_t places = e.type().shape[e.type().shape.size() - 2 + i].fixed;
    const int64_t end = (places - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1;
    const int64_t beyond = end - e.fixed(0, e.ndim(0) - 2 + i) - 2 * pad[i];
    int64_t& behind = pads[2 + i];
    behind += std::max<int64_t>(beyond, 0);
    if (behind >= kernel[i]) {
      e.refuse(concat("its last window reaches ", behind,
                      " elements beyond x, and runtimes take less than ", kernel[i]));
    }
  }
  return pads;
}

std::string max_pool2d(Emission& e) {
  return with_batch(e, 4, [&](const std::string& x) {
    return e.call("MaxPool", {x},
                  {{"kernel_shape", e.list("kernel")},
                   {"strides", pool_stride(e)},
                   {"pads", max_pool_pads(e)},
                   {"dilations", e.list("dilation")}});
  });
}

std::string avg_pool2d(Emission& e) {
  check_floor(e);
  const auto* const divisor = std::get_if<Size>(&e.attribute("divisor_override"));
  const int64_t counts = divisor != nullptr || e.flag("count_include_pad");
  return with_batch(e, 4, [&](const std::string& x) {
    const std::vector<int64_t> kernel = e.list("kernel");
    const std::string y = e.call("AveragePool", {x},
                                 {{"kernel_shape", kernel},
                                  {"strides", pool_stride(e)},
                                  {"pads", both_sides(e.list("pad"))},
                                  {"count_include_pad", counts}});
    if (divisor == nullptr) return y;
    const double factor =
        static_cast<double>(kernel[0] * kernel[1]) / static_cast<double>(divisor->fixed);
    return e.call("Mul", {y, e.number(factor, e.type().dtype)});
  });
}

/// [out,in], or turned [in,out]: row i has the mean of what window i covers.
std::string means(Emission& e, int64_t in, int64_t out, bool turned) {
  Tensor as_f64 = zeros({out, in}, {.dtype = kF64});
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    for (int64_t j = begin; j < end; ++j) {
      as_f64.data<double>()[i * in + j] = 1.0 / static_cast<double>(end - begin);
    }
  }
  Tensor matrix = as_f64.to(e.type().dtype);
  if (turned) matrix = matrix.transpose(0, 1).contiguous();
  return e.tensor(concat("means/", in, "/", out, turned ? "/turned" : "", "/", e.type().dtype),
                  matrix);
}

std::string adaptive_avg_pool2d(Emission& e) {
  const size_t d = e.ndim(0) - 2;
  const int64_t rows = e.fixed(0, d), columns = e.fixed(0, d + 1);
  const std::vector<int64_t> out = e.list("size");
  if (out[0] == 1 && out[1] == 1 && d == 2) return e.call("GlobalAveragePool", {e.in(0)});
  if (out[0] == rows && out[1] == columns) return e.in(0);
  if (d == 2 && rows % out[0] == 0 && columns % out[1] == 0) {
    const std::vector<int64_t> window = {rows / out[0], columns / out[1]};
    return e.call("AveragePool", {e.in(0)}, {{"kernel_shape", window}, {"strides", window}});
  }
  const std::string left = e.call("MatMul", {means(e, rows, out[0], false), e.in(0)});
  return e.call("MatMul", {left, means(e, columns, out[1], true)});
}

std::string upsample(Emission& e) {
  const std::string mode = e.word("mode");
  const bool nearest = mode.starts_with("nearest"), corners = e.flag("align_corners");
  const FileAttributes how = {
      {"mode", std::string(nearest              ? "nearest"
                           : mode == "bilinear" ? "linear"
                                                : "cubic")},
      {"coordinate_transformation_mode", std::string(mode == "nearest" ? "asymmetric"
                                                     : corners         ? "align_corners"
                                                                       : "half_pixel")},
      {"nearest_mode", std::string(mode == "nearest" ? "floor" : "round_prefer_ceil")},
      {"cubic_coeff_a", -0.75}};
  const std::vector<int64_t> size = e.list("size");
  if (size[0] != 0) return e.call("Resize", {e.in(0), "", "", e.sizes(e.type().shape)}, how);
  const double factors[] = {1, 1, e.real("scale_rows"), e.real("scale_columns")};
  Tensor scales = empty({4}, {.dtype = kF32});
  for (int i = 0; i < 4; ++i) scales.data<float>()[i] = static_cast<float>(factors[i]);
  return e.call("Resize",
                {e.in(0), "", e.tensor(concat("scales/", factors[2], "/", factors[3]), scales)},
                how);
}

// --- products ------------------------------------------------------------------------------------

std::string matmul(Emission& e) { return e.call("MatMul", {e.in(0), e.in(1)}); }

/// x * w^T + bias; w is input i, bias input i + 1.
std::string product(Emission& e, const std::string& x, size_t ndim, size_t i) {
  if (ndim == 2) return e.call("Gemm", {x, e.in(i), e.in(i + 1)}, {{"transB", int64_t{1}}});
  const std::vector<int64_t> order = {1, 0};
  const std::string y = e.call("MatMul", {x, e.call("Transpose", {e.in(i)}, {{"perm", order}})});
  return e.has(i + 1) ? e.call("Add", {y, e.in(i + 1)}) : y;
}

std::string gelu_of(Emission& e, const std::string& x, bool by_tanh) {
  const auto number = [&](double value) { return e.number(value, e.type().dtype); };
  std::string inner;
  if (by_tanh) {  // sqrt(2 / pi) * (x + 0.044715 x^3)
    const std::string cube = e.call("Mul", {e.call("Mul", {x, x}), x});
    const std::string sum = e.call("Add", {x, e.call("Mul", {cube, number(0.044715)})});
    const double factor = std::sqrt(2 / std::numbers::pi);
    inner = e.call("Tanh", {e.call("Mul", {sum, number(factor)})});
  } else {
    inner = e.call("Erf", {e.call("Div", {x, number(std::numbers::sqrt2)})});
  }
  return e.call("Mul", {e.call("Mul", {x, number(0.5)}), e.call("Add", {inner, number(1)})});
}
std::string gelu(Emission& e) { return gelu_of(e, e.in(0), e.flag("tanh_approximation")); }

std::string activated(Emission& e, const std::string& x) {
  const std::string word = e.word("activation");
  if (word == "relu" || word == "fast_relu") return e.call("Relu", {x});
  return gelu_of(e, x, word == "gelu_tanh");
}

std::string linear(Emission& e) {
  const std::string y = product(e, e.in(0), e.ndim(0), 1);
  return e.has_attribute("activation") ? activated(e, y) : y;
}
std::string mlp(Emission& e) {
  std::string x = e.in(0);
  for (size_t i = 1; i < e.inputs(); i += 2) {
    x = product(e, x, e.ndim(0), i);
    if (i + 2 < e.inputs() || e.flag("activate_last")) x = activated(e, x);
  }
  return x;
}

// --- attention -----------------------------------------------------------------------------------

/// Input i, each of its heads as often as the queries have heads for it.
std::string heads_of(Emission& e, size_t i) {
  const std::string x = e.in(i, e.type().dtype);
  const std::vector<Size>&queries = e.type(0).shape, &shape = e.type(i).shape;
  if (!e.flag("grouped") || queries.size() < 3 || shape.size() < 3) return x;
  const size_t head = shape.size() - 3;
  const int64_t many = e.fixed(0, queries.size() - 3), few = e.fixed(i, head);
  if (many == few) return x;
  std::vector<Size> apart = shape, all = shape;
  apart.insert(apart.begin() + static_cast<ptrdiff_t>(head) + 1, Size{0, 1});
  const std::string single = e.reshaped(x, apart);
  apart[head + 1] = {0, many / few};
  all[head] = {0, many};
  return e.reshaped(e.call("Expand", {single, e.sizes(apart)}), all);
}

/// By matrix products and a softmax. A row of which the mask hides everything becomes 0.
std::string attention(Emission& e) {
  if (e.has_attribute("dropout")) e.refuse("dropout draws random numbers");
  const DType dtype = e.type().dtype;
  const double never = -std::numeric_limits<double>::infinity();
  const auto number = [&](double value) { return e.number(value, dtype); };
  std::vector<int64_t> turned(e.ndim(1));
  for (size_t d = 0; d < turned.size(); ++d) turned[d] = static_cast<int64_t>(d);
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  const std::string q = e.call("Mul", {e.in(0, dtype), number(e.real("scale"))});
  const std::string k = e.call("Transpose", {heads_of(e, 1)}, {{"perm", turned}});
  std::string scores = e.call("MatMul", {q, k});
  const bool is_masked = e.has(3);
  if (is_masked) {
    const bool is_bool = e.type(3).dtype == kBool;
    scores = is_bool ? e.call("Where", {e.in(3), scores, number(never)})
                     : e.call("Add", {scores, e.in(3, dtype)});
  }
  if (e.flag("causal")) {
    const std::vector<Size>&queries = e.type(0).shape, &keys = e.type(1).shape;
    const std::string all = e.sizes({queries[queries.size() - 2], keys[keys.size() - 2]});
    const std::string seen =
        e.call("Trilu", {e.call("Expand", {e.number(1, kF32), all}), e.number(0, kI64)},
               {{"upper", int64_t{0}}});
    scores = e.call("Where", {e.cast(seen, kF32, kBool), scores, number(never)});
  }
  const std::vector<int64_t> last = {-1};
  std::string blind;
  if (is_masked) {
    const std::string largest =
        e.call("ReduceMax", {scores}, {{"axes", last}, {"keepdims", int64_t{1}}});
    blind = e.call("Equal", {largest, number(never)});
    scores = e.call("Where", {blind, number(0), scores});
  }
  std::string weights = e.call("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (is_masked) weights = e.call("Where", {blind, number(0), weights});
  return e.call("MatMul", {weights, heads_of(e, 2)});
}

// --- normalisation -------------------------------------------------------------------------------

std::string normalised(Emission& e) {
  const size_t first = e.range_inputs() - 4;  // weight, bias, mean, var; the count may follow
  if (e.flag("training") || !e.has(first + 2))
    e.refuse("batch norm with the statistics of the batch has no ONNX form");
  const std::vector<int64_t> channels = {e.fixed(first + 2, 0)};
  const DType dtype = e.type(first + 2).dtype;
  const auto or_filled = [&](size_t i, double value) {
    return e.has(i) ? e.in(i) : e.filled(channels, value, dtype);
  };
  return e.call(
      "BatchNormalization",
      {e.in(0), or_filled(first, 1), or_filled(first + 1, 0), e.in(first + 2), e.in(first + 3)},
      {{"epsilon", e.real("eps")}});
}
std::string batch_norm_relu(Emission& e) { return e.call("Relu", {normalised(e)}); }
std::string batch_norm_add_relu(Emission& e) {
  return e.call("Relu", {e.call("Add", {normalised(e), e.in(1)})});
}

std::string layer_norm(Emission& e) {
  const std::vector<int64_t> sizes = e.list("normalized");
  const DType dtype = e.type().dtype;
  const std::string weight = e.has(1) ? e.in(1, dtype) : e.filled(sizes, 1, dtype);
  const std::string bias = e.has(2) ? e.in(2, dtype) : "";
  return e.call("LayerNormalization", {e.in(0), weight, bias},
                {{"axis", -std::ssize(sizes)}, {"epsilon", e.real("eps")}});
}

/// Each group as a channel of an instance norm; weight and bias then, per channel.
std::string group_norm(Emission& e) {
  const int64_t groups = e.integer("groups"), channels = e.fixed(0, 1);
  const DType dtype = e.type().dtype;
  int64_t inner = channels / groups;
  for (size_t d = 2; d < e.ndim(0); ++d) inner *= e.fixed(0, d);
  const Size batch = e.type(0).shape[0];
  const std::string grouped = e.reshaped(e.in(0), {batch, {0, groups}, {0, inner}});
  const std::string even =
      e.call("InstanceNormalization",
             {grouped, e.filled({groups}, 1, dtype), e.filled({groups}, 0, dtype)},
             {{"epsilon", e.real("eps")}});
  std::string y = e.reshaped(even, e.type().shape);
  std::vector<Size> column(e.ndim(0) - 1, Size{0, 1});
  column[0] = {0, channels};
  if (e.has(1)) y = e.call("Mul", {y, e.reshaped(e.in(1, dtype), column)});
  if (e.has(2)) y = e.call("Add", {y, e.reshaped(e.in(2, dtype), column)});
  return y;
}

template <const char* op>
std::string along(Emission& e) {
  return e.call(op, {e.in(0, e.type().dtype)}, {{"axis", e.dim(0, e.integer("dim"))}});
}
constexpr char kSoftmax[] = "Softmax", kLogSoftmax[] = "LogSoftmax";

// --- lookups -------------------------------------------------------------------------------------

std::string embedding(Emission& e) { return e.call("Gather", {e.in(0), e.in(1)}); }
std::string index_select(Emission& e) {
  const std::string index = e.ndim(1) == 0 ? e.reshaped(e.in(1), {{0, 1}}) : e.in(1);
  return e.call("Gather", {e.in(0), index}, {{"axis", e.dim(0, e.integer("dim"))}});
}
std::string gather(Emission& e) {
  return e.call("GatherElements", {e.in(0), e.in(1)}, {{"axis", e.dim(0, e.integer("dim"))}});
}

constexpr Form kLayerForms[] = {
    {"adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"avg_pool2d", avg_pool2d},
    {"batch_norm", normalised},
    {"batch_norm_add_relu", batch_norm_add_relu},
    {"batch_norm_relu", batch_norm_relu},
    {"bmm", matmul},
    {"conv1d", conv1d},
    {"conv2d", conv2d},
    {"conv_transpose2d", conv_transpose2d},
    {"embedding", embedding},
    {"fused_conv2d", fused_conv2d},
    {"gather", gather},
    {"gelu", gelu},
    {"group_norm", group_norm},
    {"index_select", index_select},
    {"layer_norm", layer_norm},
    {"linear", linear},
    {"log_softmax", along<kLogSoftmax>},
    {"matmul", matmul},
    {"max_pool2d", max_pool2d},
    {"mlp", mlp},
    {"quantized_max_pool2d", max_pool2d},
    {"scaled_dot_product_attention", attention},
    {"softmax", along<kSoftmax>},
    {"upsample", upsample},
};

}  // namespace

std::span<const Form> layer_forms() { return kLayerForms; }

}  // namespace lathe::jit::onnx
