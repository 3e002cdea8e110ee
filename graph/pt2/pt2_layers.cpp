// Operators of layers: convolutions, norms, pools, attention, recurrence.
// Contract: pt2_call.h.
#include "lathe/graph/pt2/pt2_layers.h"

#include "lathe/ops/attention.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv1d.h"
#include "lathe/ops/conv3d.h"
#include "lathe/ops/conv_transpose2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/embedding_bag.h"
#include "lathe/ops/grid_sample.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/index.h"
#include "lathe/ops/layer_norm.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/pool1d.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/pool3d.h"
#include "lathe/ops/recurrent.h"
#include "lathe/ops/rms_norm.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/upsample.h"
#include "lathe/ops/views.h"

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

// --- convolutions and attention ------------------------------------------------------------------

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

void conv3d_of(Call& c) {
  Conv3dOptions o{.bias = c.maybe("bias"), .stride = c.triple("stride", 1)};
  o.pad = c.triple("padding", 0);
  o.dilation = c.triple("dilation", 1);
  o.groups = c.integer("groups", 1);
  c.result(conv3d(c.tensor("input"), c.tensor("weight"), o));
}

/// A row of an image.
Tensor as_image(const Tensor& x) { return unsqueeze(x, -2); }

/// As an image of one row.
void conv_transpose1d_of(Call& c) {
  const auto along_row = [&](const char* name, int64_t otherwise) {
    return Pair{otherwise, c.pair(name, otherwise).cols};
  };
  ConvTranspose2dOptions o{.bias = c.maybe("bias"), .stride = along_row("stride", 1)};
  o.pad = along_row("padding", 0);
  o.output_pad = along_row("output_padding", 0);
  o.dilation = along_row("dilation", 1);
  o.groups = c.integer("groups", 1);
  const Tensor y = conv_transpose2d(as_image(c.tensor("input")), as_image(c.tensor("weight")), o);
  c.result(squeeze(y, -2));
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

void embedding_of(Call& c) {
  const int64_t padding = c.integer("padding_idx", -1);
  EmbeddingOptions o;
  if (padding >= 0) o.padding_index = padding;
  if (c.boolean("scale_grad_by_freq", false))
    c.refuse("divides gradients by how often a row is looked up, which is not supported");
  c.result(embedding(c.tensor("weight"), c.tensor("indices"), o));
}

void embedding_bag_of(Call& c) {
  constexpr EmbeddingBagMode kModes[] = {EmbeddingBagMode::kSum, EmbeddingBagMode::kMean,
                                         EmbeddingBagMode::kMax};
  const int64_t mode = c.integer("mode", 0);
  if (mode < 0 || mode >= std::ssize(kModes)) c.refuse("has an unknown mode");
  if (c.boolean("scale_grad_by_freq", false))
    c.refuse("divides gradients by how often a row is looked up, which is not supported");
  EmbeddingBagOptions o{.offsets = c.tensor("offsets"), .mode = kModes[mode]};
  o.per_sample_weights = c.maybe("per_sample_weights");
  o.include_last_offset = c.boolean("include_last_offset", false);
  if (c.has("padding_idx")) o.padding_index = c.integer("padding_idx");
  c.result(embedding_bag(c.tensor("weight"), c.tensor("indices"), o));
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

template <RecurrentResult (*op)(const Tensor&, const Tensor&, const std::vector<RecurrentLayer>&,
                                const RecurrentOptions&)>
void recurrent(Call& c) {
  const RecurrentResult r =
      op(c.tensor("input"), c.tensor("hx"), recurrent_layers(c, false), recurrent_options(c));
  c.results({r.y, r.h});
}

/// The weights of a cell.
std::vector<RecurrentLayer> cell_layer(Call& c) {
  return {{.w_x = c.tensor("w_ih"),
           .w_h = c.tensor("w_hh"),
           .b_x = c.maybe("b_ih"),
           .b_h = c.maybe("b_hh")}};
}
/// A step is a sequence of length 1.
template <RecurrentResult (*op)(const Tensor&, const Tensor&, const std::vector<RecurrentLayer>&,
                                const RecurrentOptions&)>
void cell(Call& c) {
  const RecurrentResult r =
      op(unsqueeze(c.tensor("input"), 0), unsqueeze(c.tensor("hx"), 0), cell_layer(c), {});
  c.result(squeeze(r.h, 0));
}
void lstm_cell_of(Call& c) {
  const Tensors states = c.tensors("hx");
  if (states.size() != 2) c.refuse("needs two states");
  const RecurrentResult r = lstm(unsqueeze(c.tensor("input"), 0), unsqueeze(states[0], 0),
                                 unsqueeze(states[1], 0), cell_layer(c), {});
  c.results({squeeze(r.h, 0), squeeze(r.c, 0)});
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

/// With running statistics in evaluation only: in training they would be means over the images.
void instance_norm_of(Call& c) {
  const Tensor x = c.tensor("input"), weight = c.maybe("weight"), bias = c.maybe("bias");
  const double eps = c.real("eps", 1e-5);
  if (!c.has("running_mean")) {
    return c.result(group_norm(x, x.dim(1), {.weight = weight, .bias = bias, .eps = eps}));
  }
  if (c.trains("use_input_stats"))
    c.refuse("has running statistics, which are not updated: call eval() on its module");
  c.result(
      batch_norm(x, weight, bias, c.tensor("running_mean"), c.tensor("running_var"), {.eps = eps}));
}

void rms_norm_of(Call& c) {
  RmsNormOptions o{.weight = c.maybe("weight")};
  if (c.has("eps")) o.eps = c.real("eps");
  c.result(rms_norm(c.tensor("input"), c.dims("normalized_shape"), o));
}

/// Whole channels become 0: nn.Dropout1d, 2d and 3d.
Tensor dropped_channels(Call& c, const char* input) {
  const Tensor x = c.tensor(input);
  if (x.ndim() < 2) c.refuse(concat("needs channels (", x, ")"));
  Shape size = x.shape();
  for (int d = 2; d < x.ndim(); ++d) size[d] = 1;
  const Tensor kept = ones(size, {.dtype = x.dtype(), .device = x.device()});
  return mul(x, dropout(kept, {.p = c.real("p", 0.5), .train = c.trains("train")}));
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

void max_pool1d_of(Call& c) {
  c.result(max_pool1d(c.tensor("self"), {.kernel = c.pair("kernel_size").cols,
                                         .stride = c.pair("stride", 0).cols,
                                         .pad = c.pair("padding", 0).cols,
                                         .dilation = c.pair("dilation", 1).cols,
                                         .ceil_mode = c.boolean("ceil_mode", false)}));
}
void avg_pool1d_of(Call& c) {
  c.result(
      avg_pool1d(c.tensor("self"), {.kernel = c.pair("kernel_size").cols,
                                    .stride = c.pair("stride", 0).cols,
                                    .pad = c.pair("padding", 0).cols,
                                    .ceil_mode = c.boolean("ceil_mode", false),
                                    .count_include_pad = c.boolean("count_include_pad", true)}));
}

void max_pool3d_of(Call& c) {
  c.result(max_pool3d(c.tensor("self"), {.kernel = c.triple("kernel_size"),
                                         .stride = c.triple("stride", 0),
                                         .pad = c.triple("padding", 0),
                                         .dilation = c.triple("dilation", 1),
                                         .ceil_mode = c.boolean("ceil_mode", false)}));
}
void avg_pool3d_of(Call& c) {
  if (c.has("divisor_override")) c.refuse("has a divisor of its own, which is not supported");
  c.result(
      avg_pool3d(c.tensor("self"), {.kernel = c.triple("kernel_size"),
                                    .stride = c.triple("stride", 0),
                                    .pad = c.triple("padding", 0),
                                    .ceil_mode = c.boolean("ceil_mode", false),
                                    .count_include_pad = c.boolean("count_include_pad", true)}));
}

void grid_sampler_of(Call& c) {
  const int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  if (mode != 0 && mode != 1) c.refuse("is bicubic, which is not supported");
  if (padding < 0 || padding > 2)
    c.refuse(concat("has the padding ", padding, ", which is not known"));
  c.result(grid_sample(c.tensor("input"), c.tensor("grid"),
                       {.mode = mode == 0 ? SampleMode::kBilinear : SampleMode::kNearest,
                        .padding = static_cast<SamplePadding>(padding),
                        .align_corners = c.boolean("align_corners", false)}));
}
void affine_grid_of(Call& c) {
  const Dims size = c.dims("size");
  if (size.size() != 4) c.refuse(concat("makes grids of 2-d images only (size ", size, ")"));
  c.result(affine_grid(c.tensor("theta"), size[2], size[3], c.boolean("align_corners", false)));
}

/// Windows of equal size only: of x's size divided by the result's.
void adaptive_max_pool2d_of(Call& c) {
  const Tensor x = c.tensor("self");
  const Pair out = c.pair("output_size");
  const int64_t rows = x.dim(-2), columns = x.dim(-1);
  if (out.rows < 1 || out.cols < 1 || rows % out.rows != 0 || columns % out.cols != 0) {
    c.refuse(
        concat("needs windows of equal size (", x, ", result ", out.rows, " x ", out.cols, ")"));
  }
  const auto [y, at] =
      max_pool2d_with_indices(x, {.kernel = {rows / out.rows, columns / out.cols}});
  c.results({y, at});
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
  const Tensor x = c.tensor("input");
  const bool is_row = x.ndim() == 3;  // as an image of one row
  UpsampleOptions o{.mode = mode, .align_corners = c.boolean("align_corners", false)};
  if (c.has("output_size")) {
    o.size = c.pair("output_size");
    if (is_row) o.size.rows = 1;
  } else {
    const std::vector<double> factors = c.reals("scale_factors");
    if (factors.size() != (is_row ? 1 : 2)) c.refuse(concat("has ", factors.size(), " factors"));
    o.scale = {is_row ? 1 : factors[0], factors.back()};
  }
  const Tensor y = upsample(is_row ? as_image(x) : x, o);
  c.result(is_row ? squeeze(y, -2) : y);
}

using enum Kind;

// clang-format off
constexpr Target kLayers[] = {
    {"aten.conv1d.default", conv1d_of}, {"aten.conv2d.default", conv2d_of}, {"aten.conv2d.padding", conv2d_of}, {"aten.conv3d.default", conv3d_of},
    {"aten.conv_transpose1d.default", conv_transpose1d_of}, {"aten.conv_transpose2d.input", conv_transpose2d_of},
    {"aten.embedding.default", embedding_of}, {"aten.embedding_bag.padding_idx", embedding_bag_of}, {"aten.scaled_dot_product_attention.default", attention},
    {"aten.lstm.input", lstm_of}, {"aten.gru.input", recurrent<gru>}, {"aten.rnn_tanh.input", recurrent<rnn_tanh>}, {"aten.rnn_relu.input", recurrent<rnn_relu>},
    {"aten.lstm_cell.default", lstm_cell_of}, {"aten.gru_cell.default", cell<gru>}, {"aten.rnn_tanh_cell.default", cell<rnn_tanh>}, {"aten.rnn_relu_cell.default", cell<rnn_relu>},

    {"aten.batch_norm.default", batch_norm_of}, {"aten.layer_norm.default", layer_norm_of}, {"aten.group_norm.default", group_norm_of},
    {"aten.instance_norm.default", instance_norm_of}, {"aten.rms_norm.default", rms_norm_of},
    {"aten.dropout.default", [](Call& c) { c.result(dropped(c, "input")); }, kView}, {"aten.dropout_.default", [](Call& c) { c.result(dropped(c, "self")); }, kWrite},
    {"aten.feature_dropout.default", [](Call& c) { c.result(dropped_channels(c, "input")); }}, {"aten.feature_dropout_.default", [](Call& c) { c.result(dropped_channels(c, "self")); }, kWrite},
    {"aten.max_pool1d.default", max_pool1d_of}, {"aten.avg_pool1d.default", avg_pool1d_of},
    {"aten.adaptive_avg_pool1d.default", [](Call& c) { c.result(adaptive_avg_pool1d(c.tensor("self"), c.pair("output_size").cols)); }},
    {"aten.max_pool2d.default", [](Call& c) { c.result(max_pool2d(c.tensor("self"), max_pool_options(c))); }},
    {"aten.max_pool2d_with_indices.default", [](Call& c) { const auto [y, at] = max_pool2d_with_indices(c.tensor("self"), max_pool_options(c)); c.results({y, at}); }},
    {"aten.avg_pool2d.default", avg_pool2d_of}, {"aten.adaptive_max_pool2d.default", adaptive_max_pool2d_of},
    {"aten.adaptive_avg_pool2d.default", [](Call& c) { c.result(adaptive_avg_pool2d(c.tensor("self"), c.pair("output_size"))); }},
    {"aten.max_pool3d.default", max_pool3d_of}, {"aten.avg_pool3d.default", avg_pool3d_of},
    {"aten.adaptive_avg_pool3d.default", [](Call& c) { c.result(adaptive_avg_pool3d(c.tensor("self"), c.triple("output_size"))); }},
    {"aten.grid_sampler.default", grid_sampler_of}, {"aten.affine_grid_generator.default", affine_grid_of},
    {"aten.upsample_bilinear2d.vec", upsample_of<UpsampleMode::kBilinear>}, {"aten.upsample_linear1d.vec", upsample_of<UpsampleMode::kBilinear>}, {"aten.upsample_bicubic2d.vec", upsample_of<UpsampleMode::kBicubic>},
    {"aten.upsample_nearest1d.vec", upsample_of<UpsampleMode::kNearest>}, {"aten.upsample_nearest2d.vec", upsample_of<UpsampleMode::kNearest>}, {"aten._upsample_nearest_exact2d.vec", upsample_of<UpsampleMode::kNearestExact>},
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
