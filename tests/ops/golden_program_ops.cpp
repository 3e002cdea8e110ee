// See golden_programs.h. One line per op, in the order of its PyTorch twin.
#include <limits>
#include <map>

#include "../nn/golden_numbers.h"
#include "golden_programs.h"
#include "lathe/core/error.h"
#include "lathe/lathe.h"

namespace lathe::test {

namespace {

using In = const Tensors&;
using A = const Ints&;
using Op = Tensor (*)(In t, A a);

Ints from(A a, size_t first) { return {a.begin() + static_cast<int64_t>(first), a.end()}; }
double eighths(int64_t n) { return static_cast<double>(n) / 8; }
uint32_t stream_of(int64_t a) { return static_cast<uint32_t>(a); }

/// Constants made by hash, on x's device.
Tensor mask(const Tensor& x, int64_t stream, const Shape& shape) {
  return (uniforms(stream_of(stream), shape) > 0).to(x.device());
}
Tensor index(const Tensor& x, int64_t stream, const Shape& shape, int64_t size) {
  return floor((uniforms(stream_of(stream), shape) + 1) / 2 * size).to(kI64).to(x.device());
}
Tensor signs(const Tensor& x, int64_t stream, const Shape& shape) {
  return mask(x, stream, shape).to(kF64) * 2 - 1;
}
Shape broadcast(const Tensor& a, const Tensor& b) { return add(a.detach(), b.detach()).shape(); }
Shape with_size(Shape shape, int64_t dim, int64_t size) {
  shape[static_cast<int>(dim)] = size;
  return shape;
}
/// Positions n-1, n-2, … along the dimension, the same in every line.
Tensor distinct(const Tensor& x, const Tensor& source, int64_t dim) {
  const Tensor line = x.dim(dim) - 1 - arange(0, source.dim(dim), 1, {.dtype = kI64});
  const Shape ones = Shape::filled(source.ndim(), 1);
  return line.reshape(with_size(ones, dim, -1)).expand(source.shape()).to(x.device());
}
Reduction reduction(int64_t a) {
  return a == 0 ? Reduction::kNone : a == 1 ? Reduction::kMean : Reduction::kSum;
}
Pair size(A a) { return {a[0], a[1]}; }
Tensor optional(In t, size_t i) { return i < t.size() ? t[i] : Tensor(); }

// clang-format off
const std::map<std::string, Op>& ops() {
  static const std::map<std::string, Op> all = {
    // One operand.
    {"neg", [](In t, A) { return neg(t[0]); }},
    {"square", [](In t, A) { return square(t[0]); }},
    {"exp", [](In t, A) { return exp(t[0]); }},
    {"expm1", [](In t, A) { return expm1(t[0]); }},
    {"sin", [](In t, A) { return sin(t[0]); }},
    {"cos", [](In t, A) { return cos(t[0]); }},
    {"sinh", [](In t, A) { return sinh(t[0]); }},
    {"cosh", [](In t, A) { return cosh(t[0]); }},
    {"atan", [](In t, A) { return atan(t[0]); }},
    {"asinh", [](In t, A) { return asinh(t[0]); }},
    {"tanh", [](In t, A) { return tanh(t[0]); }},
    {"sigmoid", [](In t, A) { return sigmoid(t[0]); }},
    {"erf", [](In t, A) { return erf(t[0]); }},
    {"gelu", [](In t, A) { return gelu(t[0]); }},
    {"silu", [](In t, A) { return silu(t[0]); }},
    {"softplus", [](In t, A) { return softplus(t[0]); }},
    {"mish", [](In t, A) { return mish(t[0]); }},
    {"softsign", [](In t, A) { return softsign(t[0]); }},
    {"logsigmoid", [](In t, A) { return logsigmoid(t[0]); }},
    {"softmax_all", [](In t, A) { return softmax(flatten(t[0]), 0); }},
    {"abs", [](In t, A) { return abs(t[0]); }},
    {"sign", [](In t, A) { return sign(t[0]); }},
    {"relu", [](In t, A) { return relu(t[0]); }},
    {"elu", [](In t, A) { return elu(t[0]); }},
    {"selu", [](In t, A) { return selu(t[0]); }},
    {"leaky_relu", [](In t, A) { return leaky_relu(t[0]); }},
    {"log", [](In t, A) { return log(t[0]); }},
    {"log2", [](In t, A) { return log2(t[0]); }},
    {"log10", [](In t, A) { return log10(t[0]); }},
    {"sqrt", [](In t, A) { return sqrt(t[0]); }},
    {"rsqrt", [](In t, A) { return rsqrt(t[0]); }},
    {"floor", [](In t, A) { return floor(t[0]); }},
    {"ceil", [](In t, A) { return ceil(t[0]); }},
    {"trunc", [](In t, A) { return trunc(t[0]); }},
    {"frac", [](In t, A) { return frac(t[0]); }},
    {"round", [](In t, A) { return round(t[0]); }},
    {"log1p", [](In t, A) { return log1p(t[0]); }},
    {"exp2", [](In t, A) { return exp2(t[0]); }},
    {"reciprocal", [](In t, A) { return reciprocal(t[0]); }},
    {"tan", [](In t, A) { return tan(t[0]); }},
    {"asin", [](In t, A) { return asin(t[0]); }},
    {"acos", [](In t, A) { return acos(t[0]); }},
    {"atanh", [](In t, A) { return atanh(t[0]); }},
    {"acosh", [](In t, A) { return acosh(t[0]); }},
    {"hardtanh", [](In t, A) { return hardtanh(t[0]); }},
    {"relu6", [](In t, A) { return relu6(t[0]); }},
    {"hardsigmoid", [](In t, A) { return hardsigmoid(t[0]); }},
    {"hardswish", [](In t, A) { return hardswish(t[0]); }},
    {"gelu_tanh", [](In t, A) { return gelu(t[0], {.tanh_approximation = true}); }},
    {"leaky_relu_by", [](In t, A a) { return leaky_relu(t[0], eighths(a[0])); }},
    {"elu_by", [](In t, A a) { return elu(t[0], eighths(a[0])); }},
    {"softplus_by", [](In t, A a) { return softplus(t[0], {.beta = eighths(a[0]), .threshold = 4}); }},
    {"clamp", [](In t, A a) { return clamp(t[0], eighths(a[0]), eighths(a[1])); }},
    {"add_number", [](In t, A a) { return t[0] + eighths(a[0]); }},
    {"rsub_number", [](In t, A a) { return eighths(a[0]) - t[0]; }},
    {"times_number", [](In t, A a) { return t[0] * eighths(a[0]); }},
    {"div_number", [](In t, A a) { return t[0] / eighths(a[0]); }},
    {"rdiv_number", [](In t, A a) { return eighths(a[0]) / t[0]; }},
    {"pow_whole", [](In t, A a) { return pow(t[0], a[0]); }},
    {"pow_number", [](In t, A a) { return pow(t[0], eighths(a[0])); }},
    {"rpow_number", [](In t, A a) { return pow(eighths(a[0]), t[0]); }},
    {"fmod_number", [](In t, A a) { return fmod(t[0], eighths(a[0])); }},
    {"remainder_number", [](In t, A a) { return remainder(t[0], eighths(a[0])); }},
    {"clone", [](In t, A) { return t[0].clone(); }},
    {"to_dense", [](In t, A) { return t[0].contiguous() * 1; }},
    // Operands that broadcast.
    {"add", [](In t, A) { return t[0] + t[1]; }},
    {"sub", [](In t, A) { return t[0] - t[1]; }},
    {"mul", [](In t, A) { return t[0] * t[1]; }},
    {"div", [](In t, A) { return t[0] / t[1]; }},
    {"div_floor", [](In t, A) { return div(t[0], t[1], {RoundingMode::kFloor}) * t[0]; }},
    {"div_trunc", [](In t, A) { return div(t[0], t[1], {RoundingMode::kTrunc}) * t[0]; }},
    {"fmod", [](In t, A) { return fmod(t[0], t[1]); }},
    {"remainder", [](In t, A) { return remainder(t[0], t[1]); }},
    {"maximum", [](In t, A) { return maximum(t[0], t[1]); }},
    {"minimum", [](In t, A) { return minimum(t[0], t[1]); }},
    {"pow", [](In t, A) { return pow(t[0], t[1]); }},
    {"hypot", [](In t, A) { return hypot(t[0], t[1]); }},
    {"atan2", [](In t, A) { return atan2(t[0], t[1]); }},
    {"add_alpha", [](In t, A a) { return add(t[0], t[1], eighths(a[0])); }},
    {"sub_alpha", [](In t, A a) { return sub(t[0], t[1], eighths(a[0])); }},
    {"lerp_number", [](In t, A a) { return lerp(t[0], t[1], eighths(a[0])); }},
    {"where", [](In t, A a) { return where(mask(t[0], a[0], broadcast(t[0], t[1])), t[0], t[1]); }},
    {"lerp", [](In t, A) { return lerp(t[0], t[1], t[2]); }},
    {"clamp_by", [](In t, A) { return clamp(t[0], t[1], t[2]); }},
    {"masked_fill", [](In t, A a) { return masked_fill(t[0], mask(t[0], a[0], t[0].shape()), eighths(a[1])); }},
    {"masked_fill_by", [](In t, A a) { return masked_fill(t[0], mask(t[0], a[0], t[0].shape()), t[1]); }},
    {"masked_select", [](In t, A a) { return masked_select(t[0], mask(t[0], a[0], t[0].shape())); }},
    {"masked_scatter", [](In t, A a) { return masked_scatter(t[0], mask(t[0], a[0], t[0].shape()), t[1]); }},
    {"prelu", [](In t, A) { return prelu(t[0], t[1]); }},
    // Reductions: keepdim, then the dimensions.
    {"sum", [](In t, A a) { return sum(t[0], from(a, 1), {a[0] != 0}); }},
    {"mean", [](In t, A a) { return mean(t[0], from(a, 1), {a[0] != 0}); }},
    {"amax", [](In t, A a) { return amax(t[0], from(a, 1), {a[0] != 0}); }},
    {"amin", [](In t, A a) { return amin(t[0], from(a, 1), {a[0] != 0}); }},
    {"var", [](In t, A a) { return var(t[0], from(a, 1), {.keepdim = a[0] != 0}); }},
    {"var_biased", [](In t, A a) { return var(t[0], from(a, 1), {.unbiased = false, .keepdim = a[0] != 0}); }},
    {"std", [](In t, A a) { return lathe::std(t[0], from(a, 1), {.keepdim = a[0] != 0}); }},
    {"norm", [](In t, A a) { return norm(t[0], from(a, 1), {a[0] != 0}); }},
    {"norm1", [](In t, A a) { return vector_norm(t[0], 1, from(a, 1), {a[0] != 0}); }},
    {"norm3", [](In t, A a) { return vector_norm(t[0], 3, from(a, 1), {a[0] != 0}); }},
    {"norm_inf", [](In t, A a) { return vector_norm(t[0], std::numeric_limits<double>::infinity(), from(a, 1), {a[0] != 0}); }},
    {"logsumexp", [](In t, A a) { return logsumexp(t[0], from(a, 1), {a[0] != 0}); }},
    {"sum_all", [](In t, A) { return sum(t[0]); }},
    {"mean_all", [](In t, A) { return mean(t[0]); }},
    {"prod_all", [](In t, A) { return prod(t[0]); }},
    {"max_all", [](In t, A) { return max(t[0]); }},
    {"min_all", [](In t, A) { return min(t[0]); }},
    // Along the dimension a[0].
    {"prod", [](In t, A a) { return prod(t[0], {a[0]}, {a[1] != 0}); }},
    {"max_along", [](In t, A a) { return max(t[0], a[0], {a[1] != 0}).values; }},
    {"min_along", [](In t, A a) { return min(t[0], a[0], {a[1] != 0}).values; }},
    {"cumsum", [](In t, A a) { return cumsum(t[0], a[0]); }},
    {"cumprod", [](In t, A a) { return cumprod(t[0], a[0]); }},
    {"softmax", [](In t, A a) { return softmax(t[0], a[0]); }},
    {"log_softmax", [](In t, A a) { return log_softmax(t[0], a[0]); }},
    {"normalize", [](In t, A a) { return normalize(t[0], {.dim = a[0]}); }},
    {"sort", [](In t, A a) { return sort(t[0], a[0], {.descending = a[1] != 0}).values; }},
    {"topk", [](In t, A a) { return topk(t[0], a[1], a[0], {.largest = a[2] != 0}).values; }},
    {"glu", [](In t, A a) { return glu(t[0], a[0]); }},
    // Views and rearrangements.
    {"select", [](In t, A a) { return t[0].select(a[0], a[1]); }},
    {"narrow", [](In t, A a) { return t[0].narrow(a[0], a[1], a[2]); }},
    {"slice", [](In t, A a) { return t[0].slice(a[0], a[1], a[2], a[3]); }},
    {"split", [](In t, A a) { return split(t[0], a[1], a[0])[static_cast<size_t>(a[2])]; }},
    {"chunk", [](In t, A a) { return chunk(t[0], a[1], a[0])[static_cast<size_t>(a[2])]; }},
    {"unbind", [](In t, A a) { return unbind(t[0], a[0])[static_cast<size_t>(a[1])]; }},
    {"unsqueeze", [](In t, A a) { return t[0].unsqueeze(a[0]); }},
    {"transpose", [](In t, A a) { return t[0].transpose(a[0], -1); }},
    {"movedim", [](In t, A a) { return movedim(t[0], a[0], 0); }},
    {"windows", [](In t, A a) { return windows(t[0], a[0], a[1], a[2]); }},
    {"squeeze", [](In t, A) { return squeeze(t[0]); }},
    {"permute", [](In t, A a) { return t[0].permute(a); }},
    {"expand", [](In t, A a) { return t[0].expand(a); }},
    {"diagonal", [](In t, A a) { return diagonal(t[0], {.offset = a[0]}); }},
    {"reshape", [](In t, A a) { return t[0].reshape(a); }},
    {"flatten", [](In t, A) { return flatten(t[0]); }},
    {"flip", [](In t, A a) { return flip(t[0], {a[0]}); }},
    {"roll", [](In t, A a) { return roll(t[0], a[1], a[0]); }},
    {"roll_all", [](In t, A a) { return roll(t[0], a[0]); }},
    {"tile", [](In t, A a) { return tile(t[0], a); }},
    {"repeat", [](In t, A a) { return repeat(t[0], a); }},
    {"repeat_interleave", [](In t, A a) { return repeat_interleave(t[0], a[1], a[0]); }},
    {"tril", [](In t, A a) { return tril(t[0], a[0]); }},
    {"triu", [](In t, A a) { return triu(t[0], a[0]); }},
    {"diag_embed", [](In t, A a) { return diag_embed(t[0], {.offset = a[0]}); }},
    {"diag", [](In t, A a) { return diag(t[0], a[0]); }},
    {"trace", [](In t, A) { return trace(t[0]); }},
    {"cat_self", [](In t, A a) { return cat({t[0], t[0] * 2, t[0]}, a[0]); }},
    {"cat", [](In t, A a) { return cat(t, a[0]); }},
    {"stack", [](In t, A a) { return stack(t, a[0]); }},
    {"meshgrid", [](In t, A a) { return meshgrid(t)[static_cast<size_t>(a[0])]; }},
    {"pad", [](In t, A a) { return pad(t[0], {a[0], a[1]}, eighths(a[2])); }},
    {"pad_reflect", [](In t, A a) { return pad(t[0], a, PadMode::kReflect); }},
    {"pad_replicate", [](In t, A a) { return pad(t[0], a, PadMode::kReplicate); }},
    {"pad_circular", [](In t, A a) { return pad(t[0], a, PadMode::kCircular); }},
    {"as_strided", [](In t, A a) { return as_strided(t[0].contiguous() * 1, {2, 2}, {1, 2}, a[0]); }},
    // Indexing.
    {"index_select", [](In t, A a) { return index_select(t[0], a[0], index(t[0], a[1], {a[2]}, t[0].dim(a[0]))); }},
    {"gather", [](In t, A a) { return gather(t[0], a[0], index(t[0], a[1], with_size(t[0].shape(), a[0], a[2]), t[0].dim(a[0]))); }},
    {"take_along_dim", [](In t, A a) { return take_along_dim(t[0], index(t[0], a[1], t[0].shape(), t[0].dim(a[0])), a[0]); }},
    {"take", [](In t, A a) { return take(t[0], index(t[0], a[0], from(a, 1), t[0].numel())); }},
    {"index_rows", [](In t, A a) { return lathe::index(t[0], {index(t[0], a[0], {a[1]}, t[0].dim(0))}); }},
    {"embedding", [](In t, A a) { return embedding(t[0], index(t[0], a[0], {2, 2}, t[0].dim(0))); }},
    {"index_add", [](In t, A a) { return index_add(t[0], a[0], index(t[0], a[1], {t[1].dim(a[0])}, t[0].dim(a[0])), t[1], eighths(a[2])); }},
    {"scatter_add", [](In t, A a) { return scatter_add(t[0], a[0], index(t[0], a[1], t[1].shape(), t[0].dim(a[0])), t[1]); }},
    {"scatter", [](In t, A a) { return scatter(t[0], a[0], distinct(t[0], t[1], a[0]), t[1]); }},
    {"put_add", [](In t, A a) { return put(t[0], index(t[0], a[0], t[1].shape(), t[0].numel()), t[1], {.accumulate = true}); }},
    {"put", [](In t, A) { return put(t[0], arange(t[1].numel() - 1, -1, -1, {.dtype = kI64}).reshape(t[1].shape()).to(t[0].device()), t[1]); }},
    {"index_put", [](In t, A a) { return index_put(t[0], {tensor({a[0]}).to(t[0].device())}, t[1]); }},
    // Products and distances; einsum has its equation in its name.
    {"matmul", [](In t, A) { return matmul(t[0], t[1]); }},
    {"matmul_t", [](In t, A) { return matmul(t[0], t[1].transpose(-1, -2)); }},
    {"bmm", [](In t, A) { return bmm(t[0], t[1].transpose(1, 2)); }},
    {"mm", [](In t, A) { return mm(t[0], t[1]); }},
    {"mv", [](In t, A) { return mv(t[0], t[1]); }},
    {"addmm", [](In t, A a) { return addmm(t[0], t[1], t[1].transpose(0, 1), {.beta = eighths(a[0]), .alpha = eighths(a[1])}); }},
    {"dot", [](In t, A) { return dot(t[0], t[1]); }},
    {"outer", [](In t, A) { return outer(t[0], t[1]); }},
    {"kron", [](In t, A) { return kron(t[0], t[1]); }},
    {"linear", [](In t, A) { return linear(t[0], t[1], t[2]); }},
    {"linear_gelu_none", [](In t, A) { return linear(t[0], t[1], t[2], Activation::kGelu); }},
    {"linear_gelu_tanh", [](In t, A) { return linear(t[0], t[1], t[2], Activation::kGeluTanh); }},
    {"cosine_similarity", [](In t, A a) { return cosine_similarity(t[0], t[1], {.dim = a[0]}); }},
    {"pairwise_distance", [](In t, A) { return pairwise_distance(t[0], t[1]); }},
    {"cdist1", [](In t, A) { return cdist(t[0], t[1], 1); }},
    {"cdist2", [](In t, A) { return cdist(t[0], t[1]); }},
    {"cdist3", [](In t, A) { return cdist(t[0], t[1], 3); }},
    // Convolution: groups, stride, pad, dilation. Windows, normalisation.
    {"conv1d", [](In t, A a) { return conv1d(t[0], t[1], {.bias = optional(t, 2), .stride = a[1], .pad = a[2], .dilation = a[3], .groups = a[0]}); }},
    {"conv2d", [](In t, A a) { return conv2d(t[0], t[1], {.bias = optional(t, 2), .stride = a[1], .pad = a[2], .dilation = a[3], .groups = a[0]}); }},
    {"conv_transpose2d", [](In t, A a) { return conv_transpose2d(t[0], t[1], {.bias = optional(t, 2), .stride = a[1], .pad = a[2], .output_pad = a[4], .dilation = a[3], .groups = a[0]}); }},
    {"max_pool2d", [](In t, A a) { return max_pool2d(t[0], {.kernel = a[0], .stride = a[1], .pad = a[2], .ceil_mode = a[3] != 0}); }},
    {"avg_pool2d", [](In t, A a) { return avg_pool2d(t[0], {.kernel = a[0], .stride = a[1], .pad = a[2], .ceil_mode = a[3] != 0, .count_include_pad = a[4] != 0}); }},
    {"adaptive_avg_pool2d", [](In t, A a) { return adaptive_avg_pool2d(t[0], size(a)); }},
    {"upsample_nearest", [](In t, A a) { return upsample(t[0], {.size = size(a)}); }},
    {"upsample_bilinear", [](In t, A a) { return upsample(t[0], {.size = size(a), .mode = UpsampleMode::kBilinear, .align_corners = a[2] != 0}); }},
    {"upsample_bicubic", [](In t, A a) { return upsample(t[0], {.size = size(a), .mode = UpsampleMode::kBicubic, .align_corners = a[2] != 0}); }},
    {"unfold", [](In t, A a) { return unfold(t[0], {.kernel = a[0], .stride = a[1], .pad = a[2]}); }},
    {"fold", [](In t, A) { return fold(t[0], 3, {.kernel = 2}); }},
    {"layer_norm", [](In t, A) { return layer_norm(t[0], {t[0].dim(-1)}, {.weight = optional(t, 1), .bias = optional(t, 2)}); }},
    {"batch_norm", [](In t, A) { return batch_norm(t[0], optional(t, 1), optional(t, 2), {}, {}, {.training = true}); }},
    {"batch_norm_relu", [](In t, A) { return batch_norm_relu(t[0], optional(t, 1), optional(t, 2), {}, {}, {.training = true}); }},
    {"batch_norm_add_relu", [](In t, A) { return batch_norm_add_relu(t[0], t[1], {}, {}, {}, {}, {.training = true}); }},
    {"group_norm", [](In t, A a) { return group_norm(t[0], a[0], {.weight = optional(t, 1), .bias = optional(t, 2)}); }},
    // Losses: the reduction is the last integer.
    {"mse_loss", [](In t, A a) { return mse_loss(t[0], t[1], {reduction(a[0])}); }},
    {"l1_loss", [](In t, A a) { return l1_loss(t[0], t[1], {reduction(a[0])}); }},
    {"smooth_l1_loss", [](In t, A a) { return smooth_l1_loss(t[0], t[1], {.reduction = reduction(a[0])}); }},
    {"huber_loss", [](In t, A a) { return huber_loss(t[0], t[1], {.delta = 0.5, .reduction = reduction(a[0])}); }},
    {"bce_with_logits", [](In t, A a) { return bce_with_logits(t[0], t[1], {.reduction = reduction(a[0])}); }},
    {"binary_cross_entropy", [](In t, A a) { return binary_cross_entropy(t[0], t[1], {.reduction = reduction(a[0])}); }},
    {"kl_div", [](In t, A a) { return kl_div(t[0], t[1], {.log_target = a[0] != 0, .reduction = reduction(a[1])}); }},
    {"poisson_nll_loss", [](In t, A a) { return poisson_nll_loss(t[0], t[1], {.reduction = reduction(a[0])}); }},
    {"gaussian_nll_loss", [](In t, A a) { return gaussian_nll_loss(t[0], t[1], t[2], {.reduction = reduction(a[0])}); }},
    {"margin_ranking_loss", [](In t, A a) { return margin_ranking_loss(t[0], t[1], signs(t[0], a[0], t[0].shape()), {.margin = 0.25, .reduction = reduction(a[1])}); }},
    {"hinge_embedding_loss", [](In t, A a) { return hinge_embedding_loss(t[0], signs(t[0], a[0], t[0].shape()), {.reduction = reduction(a[1])}); }},
    {"cosine_embedding_loss", [](In t, A a) { return cosine_embedding_loss(t[0], t[1], signs(t[0], a[0], {t[0].dim(0)}), {.margin = -2, .reduction = reduction(a[1])}); }},
    {"triplet_margin_loss", [](In t, A a) { return triplet_margin_loss(t[0], t[1], t[2], {.margin = 20, .reduction = reduction(a[0])}); }},
    {"cross_entropy", [](In t, A a) { return cross_entropy(t[0], index(t[0], a[0], {t[0].dim(0)}, t[0].dim(1)), {.label_smoothing = eighths(a[1]), .reduction = reduction(a[2])}); }},
    {"cross_entropy_with", [](In t, A a) { return cross_entropy(t[0], softmax(t[1], 1), {.reduction = reduction(a[0])}); }},
    {"nll_loss", [](In t, A a) { return nll_loss(t[0], index(t[0], a[0], {t[0].dim(0)}, t[0].dim(1)), {.reduction = reduction(a[1])}); }},
    // In place.
    {"add_", [](In t, A) { return add_(t[0], t[1]); }},
    {"sub_", [](In t, A) { return sub_(t[0], t[1]); }},
    {"mul_", [](In t, A) { return mul_(t[0], t[1]); }},
    {"div_", [](In t, A) { return div_(t[0], t[1]); }},
    {"copy_", [](In t, A) { return copy_(t[0], t[1]); }},
    {"fill_", [](In t, A a) { return fill_(t[0], eighths(a[0])); }},
    {"zero_", [](In t, A) { return zero_(t[0]); }},
    {"times_number_", [](In t, A a) { return mul_(t[0], eighths(a[0])); }},
    {"clamp_", [](In t, A a) { return clamp_(t[0], {.low = eighths(a[0]), .high = eighths(a[1])}); }},
    {"neg_", [](In t, A) { return neg_(t[0]); }},
    {"exp_", [](In t, A) { return exp_(t[0]); }},
    {"sqrt_", [](In t, A) { return sqrt_(t[0]); }},
    {"tanh_", [](In t, A) { return tanh_(t[0]); }},
    {"sigmoid_", [](In t, A) { return sigmoid_(t[0]); }},
    {"relu_", [](In t, A) { return relu_(t[0]); }},
    {"masked_fill_", [](In t, A a) { return masked_fill_(t[0], mask(t[0], a[0], t[0].shape()), eighths(a[1])); }},
    {"index_put_", [](In t, A a) { return index_put_(t[0], {tensor({a[0]}).to(t[0].device())}, t[1]); }},
  };
  return all;
}
// clang-format on

}  // namespace

Tensor run_golden_op(const std::string& name, const Tensors& t, const Ints& a) {
  const std::string einsum_of = "einsum=";
  if (name.rfind(einsum_of, 0) == 0) return einsum(name.substr(einsum_of.size()), t);
  const auto found = ops().find(name);
  LATHE_CHECK(ValueError, found != ops().end(), "no op has the name ", name);
  return found->second(t, a);
}

}  // namespace lathe::test
