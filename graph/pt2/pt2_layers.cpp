// Operators of layers: products, convolutions, norms, pools, attention, recurrence, reductions.
// Contract: pt2_call.h.
#include "lathe/graph/pt2/pt2_layers.h"

#include <cmath>

#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv1d.h"
#include "lathe/ops/conv_transpose2d.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/einsum.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/layer_norm.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/recurrent.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/upsample.h"

namespace lathe::jit::pt2 {

BatchNormOptions batch_norm_options(const Call& c) {
  BatchNormOptions o{.training = !c.has("running_mean") || c.trains("training")};
  o.momentum = c.real("momentum", 0.1);
  o.eps = c.real("eps", 1e-5);
  if (o.training) o.num_batches = c.num_batches();
  return o;
}

Conv2dOptions conv2d_options(const Call& c) {
  Conv2dOptions o{.stride = c.pair("stride", 1)};
  o.dilation = c.pair("dilation", 1);
  o.groups = c.integer("groups", 1);
  if (!c.is_word("padding")) o.pad = c.pair("padding", 0);
  return o;
}

namespace {

// --- products and convolutions -------------------------------------------------------------------

void linear_of(Call& c) {
  c.result(linear(c.tensor("input"), c.tensor("weight"), c.maybe("bias")));
}

struct Conv2dArguments {
  Conv2dOptions options;                // without the bias
  int64_t rows_behind, columns_behind;  // zeros after those that options.pad adds on each side
};

/// `weight`: the sizes of the weight.
Conv2dArguments conv2d_arguments(const Call& c, const Shape& weight) {
  Conv2dOptions o = conv2d_options(c);
  if (c.is_word("padding") && c.word("padding", "valid") == "same") {
    // The larger half of an odd number comes behind.
    const int64_t rows = o.dilation.rows * (weight[2] - 1);
    const int64_t columns = o.dilation.cols * (weight[3] - 1);
    o.pad = {rows / 2, columns / 2};
    return {o, rows % 2, columns % 2};
  }
  return {o, 0, 0};
}

void conv2d_of(Call& c) {
  Tensor x = c.tensor("input");
  const Tensor w = c.tensor("weight");
  auto [o, rows_behind, columns_behind] = conv2d_arguments(c, w.shape());
  o.bias = c.maybe("bias");
  const bool batched = x.ndim() == 4;
  if (!batched) x = x.unsqueeze(0);
  if (rows_behind != 0 || columns_behind != 0) x = pad(x, {0, columns_behind, 0, rows_behind});
  const Tensor y = conv2d(x, w, o);
  c.result(batched ? y : y.squeeze(0));
}

void conv1d_of(Call& c) {
  Conv1dOptions o{.bias = c.maybe("bias"), .stride = c.pair("stride", 1).rows};
  o.pad = c.pair("padding", 0).rows;
  o.dilation = c.pair("dilation", 1).rows;
  o.groups = c.integer("groups", 1);
  c.result(conv1d(c.tensor("input"), c.tensor("weight"), o));
}

void conv_transpose2d_of(Call& c) {
  ConvTranspose2dOptions o;
  o.bias = c.maybe("bias");
  o.stride = c.pair("stride", 1);
  o.pad = c.pair("padding", 0);
  o.output_pad = c.pair("output_padding", 0);
  o.dilation = c.pair("dilation", 1);
  o.groups = c.integer("groups", 1);
  c.result(conv_transpose2d(c.tensor("input"), c.tensor("weight"), o));
}

void addmm_of(Call& c) {
  const Scalar alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  const bool is_plain = alpha.to<double>() == 1 && beta.to<double>() == 1;
  // Without gradients by ops that a graph holds, for jit::trace.
  if (is_plain && !grad_enabled()) {
    return c.result(add(matmul(c.tensor("mat1"), c.tensor("mat2")), c.tensor("self")));
  }
  c.result(
      addmm(c.tensor("self"), c.tensor("mat1"), c.tensor("mat2"), {.beta = beta, .alpha = alpha}));
}

void embedding_of(Call& c) {
  const int64_t padding = c.integer("padding_idx", -1);
  EmbeddingOptions o;
  if (padding >= 0) o.padding_index = padding;
  if (c.boolean("scale_grad_by_freq", false))
    c.refuse("divides gradients by how often a row is looked up, which is not supported");
  c.result(embedding(c.tensor("weight"), c.tensor("indices"), o));
}

void attention(Call& c) {
  AttentionOptions o{.mask = c.maybe("attn_mask"), .causal = c.boolean("is_causal", false)};
  if (c.trains()) o.dropout = c.real("dropout_p", 0.0);
  if (c.has("scale")) o.scale = c.real("scale");
  o.grouped = c.boolean("enable_gqa", false);
  c.result(scaled_dot_product_attention(c.tensor("query"), c.tensor("key"), c.tensor("value"), o));
}

/// The tensors of a stack of layers, as PyTorch lists them.
std::vector<RecurrentLayer> recurrent_layers(Call& c, bool projects) {
  const Tensors all = c.tensors("params");
  const bool biased = c.boolean("has_biases", true);
  const size_t each = (biased ? 4 : 2) + (projects ? 1 : 0);
  if (all.empty() || all.size() % each != 0) c.refuse("has a list of weights of another length");
  std::vector<RecurrentLayer> layers;
  for (size_t i = 0; i < all.size(); i += each) {
    RecurrentLayer& layer = layers.emplace_back(RecurrentLayer{all[i], all[i + 1]});
    if (biased) {
      layer.b_x = all[i + 2];
      layer.b_h = all[i + 3];
    }
    if (projects) layer.w_out = all[i + each - 1];
  }
  return layers;
}

RecurrentOptions recurrent_options(Call& c) {
  return {.bidirectional = c.boolean("bidirectional", false),
          .batch_first = c.boolean("batch_first", false),
          .dropout = c.trains("train") ? c.real("dropout", 0.0) : 0.0};
}

void lstm_of(Call& c) {
  const Tensors states = c.tensors("hx");
  if (states.size() != 2) c.refuse("needs two states");
  const bool projects = states[0].dim(-1) != states[1].dim(-1);
  const RecurrentResult r = lstm(c.tensor("input"), states[0], states[1],
                                 recurrent_layers(c, projects), recurrent_options(c));
  c.results({r.y, r.h, r.c});
}

void gru_of(Call& c) {
  const RecurrentResult r =
      gru(c.tensor("input"), c.tensor("hx"), recurrent_layers(c, false), recurrent_options(c));
  c.results({r.y, r.h});
}

// --- norms, dropout, pools -----------------------------------------------------------------------

void batch_norm_of(Call& c) {
  c.result(batch_norm(c.tensor("input"), c.maybe("weight"), c.maybe("bias"),
                      c.maybe("running_mean"), c.maybe("running_var"), batch_norm_options(c)));
}

void layer_norm_of(Call& c) {
  c.result(layer_norm(c.tensor("input"), c.dims("normalized_shape"),
                      {c.maybe("weight"), c.maybe("bias"), c.real("eps", 1e-5)}));
}

void group_norm_of(Call& c) {
  c.result(group_norm(c.tensor("input"), c.integer("num_groups"),
                      {c.maybe("weight"), c.maybe("bias"), c.real("eps", 1e-5)}));
}

Tensor dropped(Call& c, const char* input) {
  return dropout(c.tensor(input), {.p = c.real("p", 0.5), .train = c.trains("train")});
}

MaxPool2dOptions max_pool_options(Call& c) {
  return {.kernel = c.pair("kernel_size"),
          .stride = c.pair("stride", 0),
          .pad = c.pair("padding", 0),
          .dilation = c.pair("dilation", 1),
          .ceil_mode = c.boolean("ceil_mode", false)};
}

void avg_pool2d_of(Call& c) {
  AvgPool2dOptions o{.kernel = c.pair("kernel_size"), .stride = c.pair("stride", 0)};
  o.pad = c.pair("padding", 0);
  o.ceil_mode = c.boolean("ceil_mode", false);
  o.count_include_pad = c.boolean("count_include_pad", true);
  if (c.has("divisor_override")) o.divisor_override = c.integer("divisor_override");
  c.result(avg_pool2d(c.tensor("self"), o));
}

template <UpsampleMode mode>
void upsample_of(Call& c) {
  UpsampleOptions o{.mode = mode, .align_corners = c.boolean("align_corners", false)};
  if (c.has("output_size")) {
    o.size = c.pair("output_size");
  } else {
    const std::vector<double> factors = c.reals("scale_factors");
    if (factors.size() != 2) c.refuse("needs two factors");
    o.scale = {factors[0], factors[1]};
  }
  c.result(upsample(c.tensor("input"), o));
}

// --- reductions ----------------------------------------------------------------------------------

/// "self", converted if the call asks for a dtype.
Tensor self_as_asked(Call& c) {
  const Tensor x = c.tensor("self");
  return x.to(c.dtype("dtype", x.dtype()));
}

template <Tensor (*op)(const Tensor&, const Dims&, ReduceOptions)>
void reduced(Call& c) {
  c.result(op(self_as_asked(c), c.dims("dim", {}), {.keepdim = c.boolean("keepdim", false)}));
}

template <Tensor (*op)(const Tensor&, const Dims&, VarOptions)>
void varied(Call& c) {
  VarOptions o{.keepdim = c.boolean("keepdim", false)};
  o.unbiased = c.boolean("unbiased", true);
  if (c.has("correction")) o.correction = c.integer("correction");
  c.result(op(c.tensor("self"), c.dims("dim", {}), o));
}

void vector_norm_of(Call& c) {
  c.result(vector_norm(self_as_asked(c), c.real("ord", 2.0), c.dims("dim", {}),
                       {.keepdim = c.boolean("keepdim", false)}));
}

template <Tensor (*op)(const Tensor&, int64_t)>
void along(Call& c) {
  c.result(op(self_as_asked(c), c.integer("dim")));
}

template <ValuesAndIndices (*op)(const Tensor&, int64_t, ReduceOptions)>
void largest(Call& c) {
  const auto [values, indices] =
      op(c.tensor("self"), c.integer("dim"), {.keepdim = c.boolean("keepdim", false)});
  c.results({values, indices});
}

using enum Kind;

// clang-format off
const Target kLayers[] = {
    {"aten.linear.default", linear_of}, {"aten.addmm.default", addmm_of},
    {"aten.matmul.default", [](Call& c) { c.result(matmul(c.tensor("self"), c.tensor("other"))); }},
    {"aten.mm.default", [](Call& c) { c.result(mm(c.tensor("self"), c.tensor("mat2"))); }},
    {"aten.bmm.default", [](Call& c) { c.result(bmm(c.tensor("self"), c.tensor("mat2"))); }},
    {"aten.einsum.default", [](Call& c) { c.result(einsum(c.word("equation", ""), c.tensors("tensors"))); }},
    {"aten.conv2d.default", conv2d_of}, {"aten.conv2d.padding", conv2d_of}, {"aten.conv1d.default", conv1d_of}, {"aten.conv_transpose2d.input", conv_transpose2d_of},
    {"aten.embedding.default", embedding_of}, {"aten.scaled_dot_product_attention.default", attention},
    {"aten.lstm.input", lstm_of}, {"aten.gru.input", gru_of},

    {"aten.batch_norm.default", batch_norm_of}, {"aten.layer_norm.default", layer_norm_of}, {"aten.group_norm.default", group_norm_of},
    {"aten.dropout.default", [](Call& c) { c.result(dropped(c, "input")); }, kView}, {"aten.dropout_.default", [](Call& c) { c.write(dropped(c, "self")); }, kWrite},
    {"aten.max_pool2d.default", [](Call& c) { c.result(max_pool2d(c.tensor("self"), max_pool_options(c))); }},
    {"aten.max_pool2d_with_indices.default", [](Call& c) { const auto [y, at] = max_pool2d_with_indices(c.tensor("self"), max_pool_options(c)); c.results({y, at}); }},
    {"aten.avg_pool2d.default", avg_pool2d_of},
    {"aten.adaptive_avg_pool2d.default", [](Call& c) { c.result(adaptive_avg_pool2d(c.tensor("self"), c.pair("output_size"))); }},
    {"aten.upsample_bilinear2d.vec", upsample_of<UpsampleMode::kBilinear>}, {"aten.upsample_bicubic2d.vec", upsample_of<UpsampleMode::kBicubic>},
    {"aten.upsample_nearest2d.vec", upsample_of<UpsampleMode::kNearest>}, {"aten._upsample_nearest_exact2d.vec", upsample_of<UpsampleMode::kNearestExact>},

    {"aten.softmax.int", along<softmax>}, {"aten.log_softmax.int", along<log_softmax>},
    {"aten.mean.dim", reduced<mean>}, {"aten.mean.default", reduced<mean>}, {"aten.sum.dim_IntList", reduced<sum>}, {"aten.sum.default", reduced<sum>},
    {"aten.amax.default", reduced<amax>}, {"aten.amin.default", reduced<amin>}, {"aten.logsumexp.default", reduced<logsumexp>},
    {"aten.any.dim", reduced<any>}, {"aten.all.dim", reduced<all>}, {"aten.any.default", reduced<any>}, {"aten.all.default", reduced<all>},
    {"aten.var.correction", varied<var>}, {"aten.var.dim", varied<var>}, {"aten.std.correction", varied<lathe::std>}, {"aten.std.dim", varied<lathe::std>},
    {"aten.linalg_vector_norm.default", vector_norm_of}, {"aten.max.dim", largest<max>}, {"aten.min.dim", largest<min>},
};
// clang-format on

}  // namespace

std::optional<nn::LoraLayer> lora_layer_of(const Call& c, std::string_view target,
                                           const Tensor& weight) {
  using enum nn::LoraLayer::Kind;
  if (target == "aten.conv2d.default" || target == "aten.conv2d.padding") {
    if (weight.ndim() != 4) return {};
    const auto [options, rows_behind, columns_behind] = conv2d_arguments(c, weight.shape());
    if (options.groups != 1 || rows_behind != 0 || columns_behind != 0) return {};
    return nn::LoraLayer{.kind = kConv2d, .conv = options};
  }
  if (weight.ndim() != 2) return {};
  if (target == "aten.linear.default") return nn::LoraLayer{.kind = kLinear};
  if (target == "aten.addmm.default") {
    if (c.real("beta", 1) != 1 || c.real("alpha", 1) != 1) return {};
    return nn::LoraLayer{.kind = kLinear, .is_transposed = true};
  }
  if (target != "aten.embedding.default") return {};
  nn::LoraLayer out{.kind = kEmbedding};
  if (const int64_t padding = c.integer("padding_idx", -1); padding >= 0) {
    out.padding_index = padding;
  }
  return out;
}

std::span<const Target> layer_targets() { return kLayers; }

}  // namespace lathe::jit::pt2
