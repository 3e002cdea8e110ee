// The columns amp and cpu of the table in ops/README.md against what the ops do. The other columns
// are checked by tests/check_op_table.py, which also sees to it that every row has its line here.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/lathe.h"
#include "lathe/ops/resample.h"
#include "lathe/ops/rms_norm.h"
#include "lathe/ops/rotary.h"
#include "lathe/ops/strided_adjoint.h"

using namespace lathe;

namespace {

using T = const Tensor&;

/// An op applied to a tensor of ones [2,2,3,3], or to parts of it.
struct Row {
  std::string op;
  Tensor (*f)(T x);
};

Tensor matrix(T x) { return x[0][0]; }
Tensor one(T x) { return eye(3, x.options()); }
Tensor index(T x) { return zeros({3}, {.dtype = kI64, .device = x.device()}); }
Tensor mask(T x) { return zeros(x.shape(), {.dtype = kBool, .device = x.device()}); }
Tensor stats(T x) {
  return ones({2}, {.dtype = x.dtype() == kF64 ? kF64 : kF32, .device = x.device()});
}

// clang-format off
const Row kRows[] = {
    {"zeros_like", [](T x) { return zeros_like(x); }},
    {"ones_like", [](T x) { return ones_like(x); }},
    {"full_like", [](T x) { return full_like(x, 1); }},
    {"empty_like", [](T x) { return empty_like(x); }},
    {"zeros", [](T x) { return zeros({2}, {.dtype = x.dtype()}); }},
    {"ones", [](T x) { return ones({2}, {.dtype = x.dtype()}); }},
    {"full", [](T x) { return full({2}, 1, {.dtype = x.dtype()}); }},
    {"empty", [](T x) { return empty({2}, {.dtype = x.dtype()}); }},
    {"from_blob", [](T x) { return from_blob(x.raw_data(), {1}, x.dtype()); }},
    {"arange", [](T x) { return arange(0, 2, 1, {.dtype = x.dtype()}); }},
    {"linspace", [](T x) { return linspace(0, 1, 2, {.dtype = x.dtype()}); }},
    {"eye", [](T x) { return eye(2, {.dtype = x.dtype()}); }},
    {"rand", [](T x) { return rand({2}, {.dtype = x.dtype()}); }},
    {"randn", [](T x) { return randn({2}, {.dtype = x.dtype()}); }},
    {"rand_like", [](T x) { return rand_like(x); }},
    {"randn_like", [](T x) { return randn_like(x); }},
    {"randint", [](T x) { return randint(0, 2, {2}, {.dtype = x.dtype()}); }},
    {"bernoulli", [](T x) { return bernoulli(x); }},
    {"multinomial", [](T x) { return multinomial(matrix(x), 2); }},
    {"uniform_", [](T x) { return uniform_(x.clone(), 0, 1); }},
    {"normal_", [](T x) { return normal_(x.clone(), 0, 1); }},
    {"neg", [](T x) { return neg(x); }},
    {"abs", [](T x) { return abs(x); }},
    {"sign", [](T x) { return sign(x); }},
    {"square", [](T x) { return square(x); }},
    {"floor", [](T x) { return floor(x); }},
    {"ceil", [](T x) { return ceil(x); }},
    {"round", [](T x) { return round(x); }},
    {"trunc", [](T x) { return trunc(x); }},
    {"exp", [](T x) { return exp(x); }},
    {"expm1", [](T x) { return expm1(x); }},
    {"log", [](T x) { return log(x); }},
    {"log1p", [](T x) { return log1p(x); }},
    {"log2", [](T x) { return log2(x); }},
    {"rsqrt", [](T x) { return rsqrt(x); }},
    {"reciprocal", [](T x) { return reciprocal(x); }},
    {"sin", [](T x) { return sin(x); }},
    {"cos", [](T x) { return cos(x); }},
    {"lgamma", [](T x) { return lgamma(x); }},
    {"digamma", [](T x) { return digamma(x); }},
    {"polygamma", [](T x) { return polygamma(1, x); }},
    {"erfinv", [](T x) { return erfinv(x); }},
    {"sqrt", [](T x) { return sqrt(x); }},
    {"tanh", [](T x) { return tanh(x); }},
    {"sigmoid", [](T x) { return sigmoid(x); }},
    {"erf", [](T x) { return erf(x); }},
    {"relu", [](T x) { return relu(x); }},
    {"leaky_relu", [](T x) { return leaky_relu(x); }},
    {"elu", [](T x) { return elu(x); }},
    {"silu", [](T x) { return silu(x); }},
    {"gelu", [](T x) { return gelu(x); }},
    {"softplus", [](T x) { return softplus(x); }},
    {"clamp", [](T x) { return clamp(x, 0, 1); }},
    {"isnan", [](T x) { return isnan(x); }},
    {"isinf", [](T x) { return isinf(x); }},
    {"isfinite", [](T x) { return isfinite(x); }},
    {"log10", [](T x) { return log10(x); }},
    {"exp2", [](T x) { return exp2(x); }},
    {"tan", [](T x) { return tan(x); }},
    {"asin", [](T x) { return asin(x); }},
    {"acos", [](T x) { return acos(x); }},
    {"sinh", [](T x) { return sinh(x); }},
    {"cosh", [](T x) { return cosh(x); }},
    {"atan", [](T x) { return atan(x); }},
    {"asinh", [](T x) { return asinh(x); }},
    {"acosh", [](T x) { return acosh(x); }},
    {"atanh", [](T x) { return atanh(x); }},
    {"frac", [](T x) { return frac(x); }},
    {"hardtanh", [](T x) { return hardtanh(x); }},
    {"relu6", [](T x) { return relu6(x); }},
    {"hardsigmoid", [](T x) { return hardsigmoid(x); }},
    {"hardswish", [](T x) { return hardswish(x); }},
    {"mish", [](T x) { return mish(x); }},
    {"selu", [](T x) { return selu(x); }},
    {"softsign", [](T x) { return softsign(x); }},
    {"logsigmoid", [](T x) { return logsigmoid(x); }},
    {"glu", [](T x) { return glu(x, 0); }},
    {"celu", [](T x) { return celu(x); }},
    {"hardshrink", [](T x) { return hardshrink(x); }},
    {"softshrink", [](T x) { return softshrink(x); }},
    {"tanhshrink", [](T x) { return tanhshrink(x); }},
    {"softmin", [](T x) { return softmin(x, 0); }},
    {"nan_to_num", [](T x) { return nan_to_num(x); }},
    {"prelu", [](T x) { return prelu(x, x[0][0][0].narrow(0, 0, 1)); }},
    {"add", [](T x) { return add(x, x); }},
    {"sub", [](T x) { return sub(x, x); }},
    {"mul", [](T x) { return mul(x, x); }},
    {"div", [](T x) { return div(x, x); }},
    {"maximum", [](T x) { return maximum(x, x); }},
    {"minimum", [](T x) { return minimum(x, x); }},
    {"pow", [](T x) { return pow(x, x); }},
    {"hypot", [](T x) { return hypot(x, x); }},
    {"fmod", [](T x) { return fmod(x, x); }},
    {"remainder", [](T x) { return remainder(x, x); }},
    {"atan2", [](T x) { return atan2(x, x); }},
    {"lerp", [](T x) { return lerp(x, x, 0.5); }},
    {"addcmul", [](T x) { return addcmul(x, x, x); }},
    {"addcdiv", [](T x) { return addcdiv(x, x, x); }},
    {"logaddexp", [](T x) { return logaddexp(x, x); }},
    {"isclose", [](T x) { return isclose(x, x); }},
    {"allclose", [](T x) { return full({}, allclose(x, x)); }},
    {"equal", [](T x) { return full({}, equal(x, x)); }},
    {"eq", [](T x) { return eq(x, x); }},
    {"ne", [](T x) { return ne(x, x); }},
    {"lt", [](T x) { return lt(x, x); }},
    {"le", [](T x) { return le(x, x); }},
    {"gt", [](T x) { return gt(x, x); }},
    {"ge", [](T x) { return ge(x, x); }},
    {"logical_and", [](T x) { return logical_and(x, x); }},
    {"logical_or", [](T x) { return logical_or(x, x); }},
    {"logical_xor", [](T x) { return logical_xor(x, x); }},
    {"logical_not", [](T x) { return logical_not(x); }},
    {"relu_grad", [](T x) { return relu_grad(x, x); }},
    {"tanh_grad", [](T x) { return tanh_grad(x, x); }},
    {"sigmoid_grad", [](T x) { return sigmoid_grad(x, x); }},
    {"gelu_grad", [](T x) { return gelu_grad(x, x); }},
    {"gelu_tanh_grad", [](T x) { return gelu_tanh_grad(x, x); }},
    {"where", [](T x) { return where(mask(x), x, x); }},
    {"masked_fill", [](T x) { return masked_fill(x, mask(x), true); }},
    {"masked_fill_", [](T x) { return masked_fill_(x.clone(), mask(x), true); }},
    {"add_", [](T x) { return add_(x.clone(), x); }},
    {"sub_", [](T x) { return sub_(x.clone(), x); }},
    {"mul_", [](T x) { return mul_(x.clone(), x); }},
    {"div_", [](T x) { return div_(x.clone(), x); }},
    {"copy_", [](T x) { return copy_(x.clone(), x); }},
    {"fill_", [](T x) { return fill_(x.clone(), true); }},
    {"zero_", [](T x) { return zero_(x.clone()); }},
    {"assign_", [](T x) { return assign_("test", x.clone(), x); }},
    {"clamp_", [](T x) { return clamp_(x.clone(), {.low = 0, .high = 1}); }},
    {"neg_", [](T x) { return neg_(x.clone()); }},
    {"exp_", [](T x) { return exp_(x.clone()); }},
    {"sqrt_", [](T x) { return sqrt_(x.clone()); }},
    {"tanh_", [](T x) { return tanh_(x.clone()); }},
    {"sigmoid_", [](T x) { return sigmoid_(x.clone()); }},
    {"relu_", [](T x) { return relu_(x.clone()); }},
    {"cast", [](T x) { return cast(x, x.dtype()); }},
    {"to_device", [](T x) { return to_device(x, kCPU); }},
    {"contiguous", [](T x) { return contiguous(x); }},
    {"clone", [](T x) { return clone(x); }},
    {"view", [](T x) { return view(x, {-1}); }},
    {"reshape", [](T x) { return reshape(x, {-1}); }},
    {"flatten", [](T x) { return flatten(x); }},
    {"squeeze", [](T x) { return squeeze(x); }},
    {"unsqueeze", [](T x) { return unsqueeze(x, 0); }},
    {"transpose", [](T x) { return transpose(x, 0, 1); }},
    {"permute", [](T x) { return permute(x, {3, 0, 1, 2}); }},
    {"expand", [](T x) { return expand(x, {5, 2, 2, 3, 3}); }},
    {"select", [](T x) { return select(x, 0, 1); }},
    {"narrow", [](T x) { return narrow(x, 0, 1, 1); }},
    {"slice", [](T x) { return slice(x, 2, 0, 3, 2); }},
    {"split", [](T x) { return split(x, 2, 3)[1]; }},
    {"chunk", [](T x) { return chunk(x, 2, 3)[1]; }},
    {"as_strided", [](T x) { return as_strided(x, {2, 2}, {1, 1}, 0); }},
    {"gather_strided", [](T x) { return gather_strided(matrix(x), dense_geometry({3, 3}), {{2, 2}, {1, 1}, 0}); }},
    {"scatter_strided", [](T x) { return scatter_strided(matrix(x), {{3, 3}, {3, 1}, 0}, dense_geometry({9})); }},
    {"cat", [](T x) { return cat({x, x}); }},
    {"hstack", [](T x) { return hstack({x, x}); }},
    {"vstack", [](T x) { return vstack({x, x}); }},
    {"dstack", [](T x) { return dstack({x, x}); }},
    {"stack", [](T x) { return stack({x, x}); }},
    {"pad", [](T x) { return pad(x, {1, 1}, false); }},
    {"tril", [](T x) { return tril(x); }},
    {"triu", [](T x) { return triu(x); }},
    {"diagonal", [](T x) { return diagonal(x); }},
    {"diag", [](T x) { return diag(matrix(x)); }},
    {"diag_embed", [](T x) { return diag_embed(x); }},
    {"trace", [](T x) { return trace(matrix(x)); }},
    {"flip", [](T x) { return flip(x, {0, 2}); }},
    {"roll", [](T x) { return roll(x, 1); }},
    {"repeat", [](T x) { return repeat(x, {2, 1, 1, 1}); }},
    {"tile", [](T x) { return tile(x, {2}); }},
    {"repeat_interleave", [](T x) { return repeat_interleave(x, 2); }},
    {"unbind", [](T x) { return unbind(x)[1]; }},
    {"pixel_shuffle", [](T x) { return pixel_shuffle(x, 1); }},
    {"pixel_unshuffle", [](T x) { return pixel_unshuffle(x, 3); }},
    {"movedim", [](T x) { return movedim(x, 0, 1); }},
    {"swapaxes", [](T x) { return swapaxes(x, 0, 1); }},
    {"expand_as", [](T x) { return expand_as(x, x); }},
    {"view_as", [](T x) { return view_as(x, x); }},
    {"reshape_as", [](T x) { return reshape_as(x, x); }},
    {"meshgrid", [](T x) { return meshgrid({matrix(x)[0], matrix(x)[1]})[0]; }},
    {"windows", [](T x) { return windows(x, 3, 2, 1); }},
    {"unfold", [](T x) { return unfold(x, {.kernel = 2}); }},
    {"fold", [](T x) { return fold(x[0], 3, {.kernel = {3, 1}}); }},
    {"take_along_dim", [](T x) { return take_along_dim(matrix(x)[0], index(x), 0); }},
    {"scatter", [](T x) { return scatter(matrix(x)[0], 0, index(x), matrix(x)[0]); }},
    {"take", [](T x) { return take(x, index(x)); }},
    {"put", [](T x) { return put(x, index(x), matrix(x)[0]); }},
    {"index_put", [](T x) { return index_put(x, {index(x)}, matrix(x)[0][0]); }},
    {"nonzero", [](T x) { return nonzero(x); }},
    {"masked_select", [](T x) { return masked_select(x, mask(x)); }},
    {"masked_scatter", [](T x) { return masked_scatter(x, mask(x), x); }},
    {"searchsorted", [](T x) { return searchsorted(x, x); }},
    {"bucketize", [](T x) { return bucketize(x, matrix(x)[0]); }},
    {"index", [](T x) { return index(matrix(x), {tensor({0})}); }},
    {"index_put_", [](T x) { return index_put_(clone(matrix(x)), {tensor({0})}, matrix(x)[0]); }},
    {"index_select", [](T x) { return index_select(matrix(x), 0, index(x)); }},
    {"index_fill", [](T x) { return index_fill(matrix(x), 0, index(x), false); }},
    {"index_copy", [](T x) { return index_copy(matrix(x), 0, index(x), matrix(x)); }},
    {"index_add", [](T x) { return index_add(matrix(x), 0, index(x), matrix(x)); }},
    {"gather", [](T x) { return gather(matrix(x)[0], 0, index(x)); }},
    {"scatter_add", [](T x) { return scatter_add(matrix(x)[0], 0, index(x), matrix(x)[0]); }},
    {"embedding", [](T x) { return embedding(matrix(x), index(x)); }},
    {"one_hot", [](T x) { return one_hot(x, 2); }},
    {"sum", [](T x) { return sum(x); }},
    {"mean", [](T x) { return mean(x); }},
    {"prod", [](T x) { return prod(x); }},
    {"amax", [](T x) { return amax(x); }},
    {"amin", [](T x) { return amin(x); }},
    {"all", [](T x) { return all(x); }},
    {"any", [](T x) { return any(x); }},
    {"var", [](T x) { return var(x); }},
    {"std", [](T x) { return lathe::std(x); }},
    {"norm", [](T x) { return norm(x); }},
    {"logsumexp", [](T x) { return logsumexp(x); }},
    {"sum_to_shape", [](T x) { return sum_to_shape(x, {3, 1}); }},
    {"vector_norm", [](T x) { return vector_norm(x, 3); }},
    {"normalize", [](T x) { return normalize(x); }},
    {"cosine_similarity", [](T x) { return cosine_similarity(x, x); }},
    {"pairwise_distance", [](T x) { return pairwise_distance(x, x); }},
    {"cdist", [](T x) { return cdist(x, x); }},
    {"cumsum", [](T x) { return cumsum(x, 0); }},
    {"cumprod", [](T x) { return cumprod(x, 0); }},
    {"var_mean", [](T x) { return var_mean(x).var; }},
    {"std_mean", [](T x) { return std_mean(x).std; }},
    {"count_nonzero", [](T x) { return count_nonzero(x); }},
    {"median", [](T x) { return median(x); }},
    {"kthvalue", [](T x) { return kthvalue(x, 1).values; }},
    {"quantile", [](T x) { return quantile(x, 0.5); }},
    {"cummax", [](T x) { return cummax(x, 0).values; }},
    {"cummin", [](T x) { return cummin(x, 0).values; }},
    {"box_area", [](T x) { return box_area(reshape(x, {9, 4})); }},
    {"box_iou", [](T x) { return box_iou(reshape(x, {9, 4}), reshape(x, {9, 4})); }},
    {"nms", [](T x) { return nms(reshape(x, {9, 4}), reshape(matrix(x), {9}), 0.5); }},
    {"bincount", [](T x) { return bincount(matrix(x)[0]); }},
    {"histc", [](T x) { return histc(x); }},
    {"unique", [](T x) { return unique(x).values; }},
    {"max", [](T x) { return max(x, 0).values; }},
    {"min", [](T x) { return min(x, 0).values; }},
    {"argmax", [](T x) { return argmax(x); }},
    {"argmin", [](T x) { return argmin(x); }},
    {"sort", [](T x) { return sort(x).values; }},
    {"argsort", [](T x) { return argsort(x); }},
    {"topk", [](T x) { return topk(x, 1).values; }},
    {"matmul", [](T x) { return matmul(x, x); }},
    {"bmm", [](T x) { return bmm(x[0], x[0]); }},
    {"mm", [](T x) { return mm(matrix(x), matrix(x)); }},
    {"mv", [](T x) { return mv(matrix(x), matrix(x)[0]); }},
    {"addmm", [](T x) { return addmm(matrix(x), matrix(x), matrix(x)); }},
    {"dot", [](T x) { return dot(matrix(x)[0], matrix(x)[1]); }},
    {"baddbmm", [](T x) { return baddbmm(x[0], x[0], x[0]); }},
    {"tensordot", [](T x) { return tensordot(matrix(x), matrix(x), 1); }},
    {"outer", [](T x) { return outer(matrix(x)[0], matrix(x)[1]); }},
    {"kron", [](T x) { return kron(matrix(x), matrix(x)); }},
    {"scaled_dot_product_attention", [](T x) { return scaled_dot_product_attention(x, x, x); }},
    {"cholesky", [](T x) { return linalg::cholesky(one(x)); }},
    {"solve", [](T x) { return linalg::solve(one(x), one(x)); }},
    {"solve_triangular", [](T x) { return linalg::solve_triangular(one(x), one(x)); }},
    {"inv", [](T x) { return linalg::inv(one(x)); }},
    {"det", [](T x) { return linalg::det(one(x)); }},
    {"slogdet", [](T x) { return linalg::slogdet(one(x)).logabsdet; }},
    {"qr", [](T x) { return linalg::qr(one(x)).q; }},
    {"svd", [](T x) { return linalg::svd(one(x)).s; }},
    {"eigh", [](T x) { return linalg::eigh(one(x)).eigenvalues; }},
    {"pinv", [](T x) { return linalg::pinv(one(x)); }},
    {"lstsq", [](T x) { return linalg::lstsq(one(x), one(x)).solution; }},
    {"matrix_exp", [](T x) { return linalg::matrix_exp(one(x)); }},
    {"matrix_norm", [](T x) { return linalg::matrix_norm(one(x)); }},
    {"lstm", [](T x) { return lstm(x[0], x[0], x[0], {{matrix(x).repeat({4, 1}), matrix(x).repeat({4, 1})}, {matrix(x).repeat({4, 1}), matrix(x).repeat({4, 1})}}).y; }},
    {"gru", [](T x) { return gru(x[0], x[0], {{matrix(x).repeat({3, 1}), matrix(x).repeat({3, 1})}, {matrix(x).repeat({3, 1}), matrix(x).repeat({3, 1})}}).y; }},
    {"rnn_tanh", [](T x) { return rnn_tanh(x[0], x[0], {{matrix(x), matrix(x)}, {matrix(x), matrix(x)}}).y; }},
    {"rnn_relu", [](T x) { return rnn_relu(x[0], x[0], {{matrix(x), matrix(x)}, {matrix(x), matrix(x)}}).y; }},
    {"rotary_embedding", [](T x) { return rotary_embedding(matrix(x).repeat({1, 2})); }},
    {"einsum", [](T x) { return einsum("ij,jk->ik", {matrix(x), matrix(x)}); }},
    {"linear", [](T x) { return linear(matrix(x), matrix(x)); }},
    {"mlp", [](T x) { return mlp(matrix(x), {{matrix(x)}, {matrix(x)}}); }},
    {"conv2d", [](T x) { return conv2d(x, x); }},
    {"fused_conv2d", [](T x) { return fused_conv2d(x, x, {}, {.relu = true}); }},
    {"quantize", [](T x) { return quantize(x, 1, kI8); }},
    {"dequantize", [](T x) { return dequantize(x, 1); }},
    {"quantized_conv2d", [](T x) { return quantized_conv2d(x, x.to(kI8), ones({2}), {}, {}); }},
    {"quantized_linear", [](T x) { return quantized_linear(matrix(x), matrix(x).to(kI8), ones({3}), {}, {}); }},
    {"quantized_max_pool2d", [](T x) { return quantized_max_pool2d(x, {}); }},
    {"conv2d_input_grad", [](T x) { return conv2d_input_grad(x, x, {2, 2, 5, 5}); }},
    {"conv2d_weight_grad", [](T x) { return conv2d_weight_grad(x, x, {2, 2, 1, 1}); }},
    {"conv1d", [](T x) { return conv1d(x[0], x[0]); }},
    {"conv_transpose2d", [](T x) { return conv_transpose2d(x, x); }},
    {"conv3d", [](T x) { return conv3d(x, x.unsqueeze(0)); }},
    {"max_pool3d", [](T x) { return max_pool3d(x, {}); }},
    {"avg_pool3d", [](T x) { return avg_pool3d(x, {}); }},
    {"adaptive_avg_pool3d", [](T x) { return adaptive_avg_pool3d(x, 1); }},
    {"max_pool1d", [](T x) { return max_pool1d(x[0], {}); }},
    {"max_pool1d_with_indices", [](T x) { return max_pool1d_with_indices(x[0], {}).values; }},
    {"avg_pool1d", [](T x) { return avg_pool1d(x[0], {}); }},
    {"adaptive_avg_pool1d", [](T x) { return adaptive_avg_pool1d(x[0], 2); }},
    {"max_pool2d", [](T x) { return max_pool2d(x, {}); }},
    {"max_pool2d_with_indices", [](T x) { return max_pool2d_with_indices(x, {}).values; }},
    {"avg_pool2d", [](T x) { return avg_pool2d(x, {}); }},
    {"adaptive_avg_pool2d", [](T x) { return adaptive_avg_pool2d(x, 2); }},
    {"upsample", [](T x) { return upsample(x, {.scale = 2}); }},
    {"grid_sample", [](T x) { return grid_sample(x, x.narrow(1, 0, 1).narrow(3, 0, 2).reshape({2, 1, 3, 2})); }},
    {"affine_grid", [](T x) { return affine_grid(x[0].narrow(1, 0, 2), 2, 3); }},
    {"resample", [](T x) {
       const AxisMap map = adaptive_average_map(3, 2);
       return resample("test", x, std::make_shared<const PlaneMap>(PlaneMap{map, map})); }},
    {"batch_norm", [](T x) { return batch_norm(x, stats(x), stats(x), stats(x), stats(x)); }},
    {"batch_norm_relu", [](T x) { return batch_norm_relu(x, stats(x), stats(x), stats(x), stats(x)); }},
    {"batch_norm_relu_conv2d", [](T x) { return batch_norm_relu_conv2d(x, {stats(x), stats(x), {}, {}}, x); }},
    {"batch_norm_add_relu", [](T x) { return batch_norm_add_relu(x, x, stats(x), stats(x), stats(x), stats(x)); }},
    {"layer_norm", [](T x) { return layer_norm(x, {3}); }},
    {"rms_norm", [](T x) { return rms_norm(x, {3}); }},
    {"group_norm", [](T x) { return group_norm(x, 2); }},
    {"local_response_norm", [](T x) { return local_response_norm(x); }},
    {"softmax", [](T x) { return softmax(x, 1); }},
    {"log_softmax", [](T x) { return log_softmax(x, 1); }},
    {"cross_entropy", [](T x) { return cross_entropy(matrix(x), index(x)); }},
    {"tally_scores_", [](T x) {
       const ScoreTally tally = make_score_tally(x.device());
       tally_scores_(tally, matrix(x), index(x), stats(x).sum());
       return tally.loss_sum; }},
    {"nll_loss", [](T x) { return nll_loss(matrix(x), index(x)); }},
    {"mse_loss", [](T x) { return mse_loss(x, x); }},
    {"l1_loss", [](T x) { return l1_loss(x, x); }},
    {"smooth_l1_loss", [](T x) { return smooth_l1_loss(x, x); }},
    {"bce_with_logits", [](T x) { return bce_with_logits(x, x); }},
    {"huber_loss", [](T x) { return huber_loss(x, x); }},
    {"binary_cross_entropy", [](T x) { return binary_cross_entropy(x, x); }},
    {"binary_cross_entropy_with_logits", [](T x) { return binary_cross_entropy_with_logits(x, x); }},
    {"kl_div", [](T x) { return kl_div(x, x); }},
    {"poisson_nll_loss", [](T x) { return poisson_nll_loss(x, x); }},
    {"gaussian_nll_loss", [](T x) { return gaussian_nll_loss(x, x, x); }},
    {"cosine_embedding_loss", [](T x) { return cosine_embedding_loss(matrix(x), matrix(x), matrix(x)[0]); }},
    {"margin_ranking_loss", [](T x) { return margin_ranking_loss(x, x, x); }},
    {"hinge_embedding_loss", [](T x) { return hinge_embedding_loss(x, x); }},
    {"ctc_loss", [](T x) { return ctc_loss(matrix(x), index(x).narrow(0, 0, 1) + 1, {3}, {1}); }},
    {"soft_margin_loss", [](T x) { return soft_margin_loss(x, x); }},
    {"multi_margin_loss", [](T x) { return multi_margin_loss(matrix(x), index(x)); }},
    {"multilabel_margin_loss", [](T x) { return multilabel_margin_loss(matrix(x), zeros({3, 3}, {.dtype = kI64, .device = x.device()})); }},
    {"multilabel_soft_margin_loss", [](T x) { return multilabel_soft_margin_loss(x, x); }},
    {"triplet_margin_loss", [](T x) { return triplet_margin_loss(x, x, x); }},
    {"dropout", [](T x) { return dropout(x); }},
};
// clang-format on

bool accepts(const Row& row, DType dtype) {
  try {
    row.f(ones({2, 2, 3, 3}, {.dtype = dtype}));
    return true;
  } catch (const DTypeError&) {
    return false;
  }
}

/// The word for the set of dtypes that an op accepts: "floats", "numbers" (and integers), "any"
/// (and bool); else the list.
std::string dtypes_of(const Row& row) {
  std::string list;
  for (const DType dtype : {kF16, kBF16, kF32, kF64, kU8, kI8, kI16, kI32, kI64, kBool}) {
    if (accepts(row, dtype)) list += concat(list.empty() ? "" : " ", dtype);
  }
  const std::string floats = "f16 bf16 f32 f64", numbers = floats + " u8 i8 i16 i32 i64";
  if (list == floats) return "floats";
  if (list == numbers) return "numbers";
  if (list == numbers + " bool") return "any";
  return list;
}

/// "half": f32 is computed in the scope's half type; "float": half types are computed in f32.
std::string amp_of(const Row& row, Device device, DType half) {
  const Autocast scope(device, half);
  if (!accepts(row, kF32)) return "";
  const auto result = [&](DType dtype) {
    return row.f(ones({2, 2, 3, 3}, {.dtype = dtype, .device = device})).dtype();
  };
  if (result(kF32) == half) return "half";
  return result(half) == kF32 ? "float" : "";
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) parts.push_back(trimmed(part));
  return parts;
}

struct Claim {
  std::string amp, cpu, cuda;
};

/// What the table says of each op. A row: | [conv2d](conv2d.h), … | grad | grad² | amp | cpu | ….
std::map<std::string, Claim> claims() {
  std::map<std::string, Claim> table;
  std::ifstream file(LATHE_OP_TABLE);
  REQUIRE_MESSAGE(file.good(), LATHE_OP_TABLE);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| [")) continue;
    const auto cells = split_at(line, '|');
    REQUIRE_MESSAGE(cells.size() == 8, line);
    for (const std::string& name : split_at(cells[1], ',')) {
      const size_t end = name.find(']');
      table[end == std::string::npos ? name : name.substr(1, end - 1)] = {cells[4], cells[5],
                                                                          cells[6]};
    }
  }
  return table;
}
}  // namespace

TEST_CASE("op table: what it says of dtypes and autocast is what the ops do") {
  const auto table = claims();
  std::vector<Device> devices = {kCPU};
  if (cuda_is_available()) devices.emplace_back(DeviceType::kCUDA);
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    const auto claim = table.find(row.op);
    REQUIRE_MESSAGE(claim != table.end(), "no row in ops/README.md");
    CHECK(dtypes_of(row) == claim->second.cpu);
    for (const Device device : devices) {
      if (device.is_cuda() && claim->second.cuda == "none") {
        const DType dtype = accepts(row, kF32) ? kF32 : kI8;
        CHECK_THROWS_AS(row.f(ones({2, 2, 3, 3}, {.dtype = dtype, .device = device})), DeviceError);
        continue;
      }
      for (const DType half : {kF16, kBF16}) {
        CAPTURE(half);
        CHECK(amp_of(row, device, half) == claim->second.amp);
      }
    }
  }
}

TEST_CASE("op table: what an op refuses it says under its own name") {
  for (const Row& row : kRows) {
    for (const DType dtype : {kF16, kF32, kU8, kI64, kBool}) {
      try {
        row.f(ones({2, 2, 3, 3}, dtype));
      } catch (const Error& e) {
        const bool passed_on = row.op == "resample";  // it has its caller's name
        CHECK_MESSAGE((passed_on || e.message().starts_with(row.op + ": ")), row.op, e.message());
      }
    }
  }
}

TEST_CASE("op table: each op opens a range of its name for the profiler") {
  // These ops work only where something changes; with a tensor that already is as wanted, as in
  // kRows, they return it without a range.
  const Row kWithWork[] = {
      {"cast", [](T x) { return cast(x, kF64); }},
      {"contiguous", [](T x) { return contiguous(transpose(x, 0, 2)); }},
  };
  // Memory alone; each op that needs some takes it. And a copy from a device to itself.
  const std::set<std::string> silent{"empty", "empty_like", "from_blob", "to_device"};
  const auto ones_of = [](DType dtype) { return ones({2, 2, 3, 3}, {.dtype = dtype}); };
  const auto check = [&](const Row& row) {
    profile::Profiler profiler;
    row.f(ones_of(accepts(row, kF32) ? kF32 : accepts(row, kI64) ? kI64 : kI8));
    profiler.stop();
    CHECK_MESSAGE(profiler.key_averages().find(row.op) != nullptr, row.op);
  };
  for (const Row& row : kWithWork) check(row);
  for (const Row& row : kRows) {
    const bool no_work =
        std::ranges::any_of(kWithWork, [&](const Row& r) { return r.op == row.op; });
    if (!no_work && silent.count(row.op) == 0) check(row);
  }
}
