// One case per op, or several: inputs, and a function that is not linear in them.
#include "lathe/tools/cli/commands/gradcheck_cases.h"

#include "lathe/ops/argmax.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv1d.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv_transpose2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/cross_entropy.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/layer_norm.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/nll_loss.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/upsample.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::cli {
namespace {

// Uniform in [low, high).
Tensor between(const Shape& shape, double low, double high) {
  return add(mul(rand(shape, {.dtype = kF64}), high - low), low);
}

// Of either sign, at least 0.2 from 0: where relu, abs and similar functions are smooth.
Tensor off_zero(const Shape& shape) {
  const Tensor x = between(shape, -1, 1);
  return add(x, mul(sign(x), 0.2));
}

// All different by 0.1 or more, so that a small step does not change which element is the largest.
Tensor distinct(const Shape& shape) {
  return mul(randperm(numel_of(shape)).to(kF64), 0.1).reshape(shape);
}

Tensor labels() { return tensor({2, 0, 1, 2}); }

using In = const Tensors&;
using Unary = Tensor (*)(const Tensor&);

void add_unary(std::vector<GradcheckCase>& cases, std::string_view op, Unary f, const Tensor& x) {
  cases.push_back({op, {x}, [f](In in) { return square(f(in[0])); }});
}

void add_elementwise(std::vector<GradcheckCase>& cases) {
  const Shape s{3, 4};
  for (const auto& [op, f] : {std::pair<const char*, Unary>{"neg", neg},
                              {"abs", abs},
                              {"square", square},
                              {"exp", exp},
                              {"expm1", expm1},
                              {"sin", sin},
                              {"cos", cos},
                              {"tanh", tanh},
                              {"sigmoid", sigmoid},
                              {"erf", erf},
                              {"relu", relu},
                              {"silu", silu}}) {
    add_unary(cases, op, f, off_zero(s));
  }
  for (const auto& [op, f] : {std::pair<const char*, Unary>{"log", log},
                              {"log1p", log1p},
                              {"log2", log2},
                              {"rsqrt", rsqrt},
                              {"reciprocal", reciprocal},
                              {"sqrt", sqrt}}) {
    add_unary(cases, op, f, between(s, 0.5, 2));
  }
  cases.push_back(
      {"leaky_relu", {off_zero(s)}, [](In in) { return square(leaky_relu(in[0], 0.1)); }});
  cases.push_back({"elu", {off_zero(s)}, [](In in) { return square(elu(in[0])); }});
  cases.push_back({"gelu", {off_zero(s)}, [](In in) { return square(gelu(in[0])); }});
  cases.push_back({"softplus", {off_zero(s)}, [](In in) { return square(softplus(in[0])); }});
  cases.push_back({"clamp", {off_zero(s)}, [](In in) { return square(clamp(in[0], -0.1, 0.1)); }});

  const Tensor row = off_zero({4});  // for broadcasts
  cases.push_back({"add", {off_zero(s), row}, [](In in) { return square(add(in[0], in[1])); }});
  cases.push_back({"sub", {off_zero(s), row}, [](In in) { return square(sub(in[0], in[1])); }});
  cases.push_back({"mul", {off_zero(s), row}, [](In in) { return square(mul(in[0], in[1])); }});
  cases.push_back({"div", {off_zero(s), between({4}, 0.5, 2)}, [](In in) {
                     return square(div(in[0], in[1]));
                   }});
  cases.push_back({"pow", {between(s, 0.5, 2), row}, [](In in) { return pow(in[0], in[1]); }});
  cases.push_back(
      {"hypot", {off_zero(s), row}, [](In in) { return mul(in[0], hypot(in[0], in[1])); }});
  cases.push_back({"maximum", {distinct(s), between(s, 0.42, 0.48)}, [](In in) {
                     return square(maximum(in[0], in[1]));
                   }});
  cases.push_back({"minimum", {distinct(s), between(s, 0.42, 0.48)}, [](In in) {
                     return square(minimum(in[0], in[1]));
                   }});
  cases.push_back({"where", {off_zero(s), row}, [](In in) {
                     return square(where(gt(in[0], 0), in[0], in[1]));
                   }});
}

void add_shapes_and_sums(std::vector<GradcheckCase>& cases) {
  const Shape s{2, 3, 4};
  cases.push_back(
      {"transpose", {off_zero(s)}, [](In in) { return square(transpose(in[0], 0, 2)); }});
  cases.push_back({"permute", {off_zero(s)}, [](In in) {
                     return square(permute(in[0], {2, 0, 1}));
                   }});
  cases.push_back({"reshape", {off_zero(s)}, [](In in) {
                     return square(reshape(transpose(in[0], 0, 1), {6, 4}));
                   }});
  cases.push_back({"slice", {off_zero(s)}, [](In in) { return square(slice(in[0], 2, 0, 4, 2)); }});
  cases.push_back({"expand", {off_zero({3, 1})}, [](In in) {
                     return square(mul(expand(in[0], {3, 4}), 2));
                   }});
  cases.push_back({"cat", {off_zero({2, 3}), off_zero({1, 3})}, [](In in) {
                     return square(cat({in[0], in[1]}, 0));
                   }});
  cases.push_back({"stack", {off_zero({2, 3}), off_zero({2, 3})}, [](In in) {
                     return square(stack({in[0], in[1]}, 1));
                   }});
  cases.push_back({"sum", {off_zero(s)}, [](In in) { return square(sum(in[0], {0, 2})); }});
  cases.push_back({"mean", {off_zero(s)}, [](In in) { return square(mean(in[0], {1})); }});
  cases.push_back({"prod", {off_zero(s)}, [](In in) { return square(prod(in[0], {1})); }});
  cases.push_back({"var", {off_zero(s)}, [](In in) { return square(var(in[0], {0, 1})); }});
  cases.push_back({"std", {off_zero(s)}, [](In in) { return square(std(in[0], {2})); }});
  cases.push_back({"norm", {off_zero(s)}, [](In in) { return square(norm(in[0], {1})); }});
  cases.push_back(
      {"logsumexp", {off_zero(s)}, [](In in) { return square(logsumexp(in[0], {1})); }});
  cases.push_back({"amax", {distinct(s)}, [](In in) { return square(amax(in[0], {1})); }});
  cases.push_back({"max", {distinct(s)}, [](In in) { return square(max(in[0], 2).values); }});
  cases.push_back({"cumsum", {off_zero(s)}, [](In in) { return square(cumsum(in[0], 1)); }});
  cases.push_back({"matmul", {off_zero({2, 3, 4}), off_zero({4, 2})}, [](In in) {
                     return square(matmul(in[0], in[1]));
                   }});
  cases.push_back({"linear", {off_zero({3, 4}), off_zero({2, 4}), off_zero({2})}, [](In in) {
                     return square(linear(in[0], in[1], in[2]));
                   }});
}

void add_selections(std::vector<GradcheckCase>& cases) {
  const Shape s{3, 4};
  const Tensor rows = tensor({2, 0, 2}), places = tensor({{0, 1, 2, 0}, {2, 2, 1, 1}});
  cases.push_back({"index_select", {off_zero(s)}, [rows](In in) {
                     return square(index_select(in[0], 0, rows));
                   }});
  cases.push_back({"index_add", {off_zero(s), off_zero(s)}, [rows](In in) {
                     return square(index_add(in[0], 0, rows, in[1]));
                   }});
  cases.push_back(
      {"gather", {off_zero(s)}, [places](In in) { return square(gather(in[0], 0, places)); }});
  cases.push_back({"scatter_add", {off_zero(s), off_zero({2, 4})}, [places](In in) {
                     return square(scatter_add(in[0], 0, places, in[1]));
                   }});
  cases.push_back(
      {"embedding", {off_zero(s)}, [rows](In in) { return square(embedding(in[0], rows)); }});
  cases.push_back({"sort", {distinct(s)}, [](In in) { return square(sort(in[0]).values); }});
  cases.push_back({"topk", {distinct(s)}, [](In in) { return square(topk(in[0], 2).values); }});
  cases.push_back({"pad", {off_zero(s)}, [](In in) { return square(pad(in[0], {1, 2})); }});
  cases.push_back({"tril", {off_zero(s)}, [](In in) { return square(tril(in[0])); }});
  cases.push_back({"triu", {off_zero(s)}, [](In in) { return square(triu(in[0], 1)); }});
}

void add_layers(std::vector<GradcheckCase>& cases) {
  cases.push_back(
      {"conv2d", {off_zero({2, 2, 5, 5}), off_zero({4, 1, 3, 3}), off_zero({4})}, [](In in) {
         return square(conv2d(in[0], in[1], {.bias = in[2], .stride = 2, .pad = 1, .groups = 2}));
       }});
  cases.push_back({"conv1d", {off_zero({2, 2, 6}), off_zero({3, 2, 3})}, [](In in) {
                     return square(conv1d(in[0], in[1], {.pad = 1, .dilation = 2}));
                   }});
  cases.push_back({"conv_transpose2d", {off_zero({1, 2, 3, 3}), off_zero({2, 2, 3, 3})}, [](In in) {
                     return square(
                         conv_transpose2d(in[0], in[1], {.stride = 2, .pad = 1, .output_pad = 1}));
                   }});
  cases.push_back({"max_pool2d", {distinct({1, 2, 5, 5})}, [](In in) {
                     return square(max_pool2d(in[0], {.kernel = 3, .stride = 2, .pad = 1}));
                   }});
  cases.push_back({"avg_pool2d", {off_zero({1, 2, 5, 5})}, [](In in) {
                     return square(avg_pool2d(in[0], {.kernel = 3, .stride = 2, .pad = 1}));
                   }});
  cases.push_back({"adaptive_avg_pool2d", {off_zero({1, 2, 5, 4})}, [](In in) {
                     return square(adaptive_avg_pool2d(in[0], 2));
                   }});
  cases.push_back({"upsample", {off_zero({1, 2, 3, 3})}, [](In in) {
                     return square(upsample(in[0], {.scale = 2, .mode = UpsampleMode::kBilinear}));
                   }});
  cases.push_back({"batch_norm", {off_zero({3, 2, 2, 2}), off_zero({2}), off_zero({2})}, [](In in) {
                     return square(batch_norm(in[0], in[1], in[2], {}, {}, {.training = true}));
                   }});
  cases.push_back({"layer_norm", {off_zero({3, 4}), off_zero({4}), off_zero({4})}, [](In in) {
                     return square(layer_norm(in[0], {4}, {.weight = in[1], .bias = in[2]}));
                   }});
  cases.push_back({"group_norm", {off_zero({2, 4, 3}), off_zero({4}), off_zero({4})}, [](In in) {
                     return square(group_norm(in[0], 2, {.weight = in[1], .bias = in[2]}));
                   }});
  cases.push_back({"softmax", {off_zero({3, 4})}, [](In in) { return square(softmax(in[0], 1)); }});
  cases.push_back(
      {"log_softmax", {off_zero({3, 4})}, [](In in) { return square(log_softmax(in[0], 0)); }});
}

void add_losses(std::vector<GradcheckCase>& cases) {
  cases.push_back({"cross_entropy", {off_zero({4, 3})}, [](In in) {
                     return square(cross_entropy(in[0], labels(), {.label_smoothing = 0.1}));
                   }});
  cases.push_back(
      {"nll_loss", {off_zero({4, 3})}, [](In in) { return square(nll_loss(in[0], labels())); }});
  cases.push_back({"mse_loss", {off_zero({3, 4}), off_zero({3, 4})}, [](In in) {
                     return square(mse_loss(in[0], in[1]));
                   }});
  cases.push_back({"l1_loss", {distinct({3, 4}), between({3, 4}, 2, 3)}, [](In in) {
                     return square(l1_loss(in[0], in[1]));
                   }});
  cases.push_back({"smooth_l1_loss", {off_zero({3, 4}), between({3, 4}, 3, 4)}, [](In in) {
                     return square(smooth_l1_loss(in[0], in[1]));
                   }});
  cases.push_back({"bce_with_logits", {off_zero({3, 4}), between({3, 4}, 0.1, 0.9)}, [](In in) {
                     return square(bce_with_logits(in[0], in[1]));
                   }});
}

}  // namespace

std::vector<GradcheckCase> gradcheck_cases() {
  std::vector<GradcheckCase> cases;
  add_elementwise(cases);
  add_shapes_and_sums(cases);
  add_selections(cases);
  add_layers(cases);
  add_losses(cases);
  return cases;
}

}  // namespace lathe::cli
