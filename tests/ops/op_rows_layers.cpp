// Products, linear algebra, layers and losses: their lines of op_rows.h.
#include <memory>

#include "lathe/ops/resample.h"
#include "lathe/ops/rms_norm.h"
#include "lathe/ops/rotary.h"
#include "op_rows.h"

namespace lathe::test {
namespace {

// clang-format off
const OpRow kRows[] = {
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
    {"svdvals", [](T x) { return linalg::svdvals(one(x)); }},
    {"eigvalsh", [](T x) { return linalg::eigvalsh(one(x)); }},
    {"matrix_rank", [](T x) { return linalg::matrix_rank(one(x)); }},
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

}  // namespace

std::span<const OpRow> layer_rows() { return kRows; }

}  // namespace lathe::test
