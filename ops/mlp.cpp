// Linear layers with their activations: checks and gradients. Contracts: mlp.h.
#include "lathe/ops/mlp.h"

#include <optional>
#include <utility>

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

/// Counts a product of `left` with a matrix of `columns` columns.
void note_product(const Tensor& left, int64_t columns) {
  profile::note_flops(
      [&] { return 2.0 * static_cast<double>(left.numel()) * static_cast<double>(columns); });
}

UnaryOp unary_of(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
    case Activation::kFastRelu: return UnaryOp::kRelu;
    case Activation::kGelu: return UnaryOp::kGelu;
    case Activation::kGeluTanh: break;
  }
  return UnaryOp::kGeluTanh;
}

void check_layers(const char* op, const Tensor& x, const std::vector<MlpLayer>& layers) {
  LATHE_CHECK(ValueError, !layers.empty(), op, ": there is no layer (x: ", x, ")");
  LATHE_CHECK(ShapeError, x.ndim() > 0, op, ": x must be [...,in] (x: ", x, ")");
  int64_t features = x.dim(-1);
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& [w, bias] = layers[i];
    check_operands(op, OperandDType::kFloating, "x", x, "w", w);
    LATHE_CHECK(ShapeError, w.ndim() == 2 && w.dim(1) == features, op, ": w of layer ", i,
                " must be [out,", features, "] (w: ", w, ", x: ", x, ")");
    features = w.dim(0);
    if (!bias.defined()) continue;
    check_operands(op, OperandDType::kFloating, "bias", bias, "w", w);
    LATHE_CHECK(ShapeError, bias.shape() == Shape{features}, op, ": bias of layer ", i,
                " must be [", features, "] (bias: ", bias, ", w: ", w, ")");
  }
}

/// What the node of one call keeps. Nothing else refers to the layers' results, except the last.
struct Kept {
  Saved x;
  std::vector<std::pair<Saved, Saved>> layers;  // w, bias
  std::vector<ActivatedLinear> results;         // of the activated layers, without the node's y
  std::optional<SavedOutput> y;                 // if a relu computed it
  MlpOptions options;

  size_t depth() const { return layers.size(); }
  Tensor w(size_t layer) const { return layers[layer].first.get(); }
  Tensor bias(size_t layer) const { return layers[layer].second.get(); }
};

// The inputs of the node: x, then w and bias of each layer.
size_t w_index(size_t layer) { return 1 + 2 * layer; }
size_t bias_index(size_t layer) { return 2 + 2 * layer; }

/// True if a gradient that passes through the sums of `layer` is wanted.
bool needs_below(const Needs& need, size_t layer) {
  for (size_t i = 0; i <= bias_index(layer); ++i) {
    if (need[i]) return true;
  }
  return false;
}

Tensors gradients(const Kept& kept, const Tensor& dy, const Needs& need) {
  const Activation activation = kept.options.activation;
  Tensors out(bias_index(kept.depth() - 1) + 1);
  ActivationGrads grads{dy, {}};
  if (kept.options.activate_last) {
    const Tensor y = kept.y ? kept.y->get() : Tensor();
    grads.dz = activation_grad(dy, activation, {y, kept.results.back().kept});
  }
  for (size_t i = kept.depth(); i-- > 0;) {
    const Tensor& dz = grads.dz;
    const Tensor x = i == 0 ? kept.x.get() : kept.results[i - 1].y;
    Tensor &dw = out[w_index(i)], &db = out[bias_index(i)];
    if (need[bias_index(i)]) db = grads.db;
    if (need[w_index(i)] && need[bias_index(i)] && !db.defined()) {
      note_product(dz, x.dim(1));
      const LinearParamGrads both = LATHE_DISPATCH(dz.device(), linear_param_grads(dz, x));
      dw = both.dw;
      db = both.db;
    }
    if (need[w_index(i)] && !dw.defined()) dw = matmul(transpose(dz, 0, 1), x);
    if (need[bias_index(i)] && !db.defined()) db = sum(dz, {0});
    if (i > 0) {
      if (!needs_below(need, i - 1)) break;
      const bool want_db = need[bias_index(i - 1)];
      note_product(dz, kept.w(i).dim(1));
      grads = LATHE_DISPATCH(dz.device(), activated_input_grad(dz, kept.w(i), activation,
                                                               kept.results[i - 1], want_db));
    } else if (need[0]) {
      out[0] = matmul(dz, kept.w(0));
    }
  }
  return out;
}

/// The same in ops, with the layers computed again, so that the gradients have gradients
/// themselves.
Tensors gradients_in_ops(const Kept& kept, const Tensor& dy, const Needs& need) {
  const auto& [activation, activate_last] = kept.options;
  std::vector<ActivatedLinear> results;
  Tensor h = kept.x.get();
  for (size_t i = 0; i < kept.depth(); ++i) {
    const Tensor z = linear(h, kept.w(i), kept.bias(i));
    switch (activation) {
      case Activation::kRelu:
      case Activation::kFastRelu: h = relu(z); break;
      case Activation::kGelu: h = gelu(z); break;
      case Activation::kGeluTanh: h = gelu(z, {.tanh_approximation = true}); break;
    }
    results.push_back({h, z});
  }
  Tensors out(bias_index(kept.depth() - 1) + 1);
  Tensor dz = activate_last ? activation_grad(dy, activation, results.back()) : dy;
  for (size_t i = kept.depth(); i-- > 0;) {
    const Tensor x = i == 0 ? kept.x.get() : results[i - 1].y;
    if (need[w_index(i)]) out[w_index(i)] = matmul(transpose(dz, 0, 1), x);
    if (need[bias_index(i)]) out[bias_index(i)] = sum(dz, {0});
    if (i > 0) {
      dz = activation_grad(matmul(dz, kept.w(i)), activation, results[i - 1]);
    } else if (need[0]) {
      out[0] = matmul(dz, kept.w(0));
    }
  }
  return out;
}

Tensor run(const char* op, const Tensor& x_in, const std::vector<MlpLayer>& layers_in,
           const MlpOptions& options) {
  const profile::OpRange range(op, {x_in});
  profile::note_arguments(layers_in, options);
  const Tensor x = amp::cast(amp::kHalf, x_in);
  std::vector<MlpLayer> layers;
  for (const MlpLayer& layer : layers_in) {
    const auto [w, bias] = amp::cast(amp::kHalf, layer.w, layer.bias);
    layers.push_back({w, bias});
  }
  check_layers(op, x, layers);
  if (x.ndim() != 2) {
    Shape y_shape = x.shape();
    y_shape[x.ndim() - 1] = layers.back().w.dim(0);
    int64_t rows = 1;
    for (int i = 0; i + 1 < x.ndim(); ++i) rows *= x.shape()[i];
    return view(run(op, reshape(x, {rows, x.dim(-1)}), layers, options), y_shape);
  }

  Tensors inputs{x};
  for (const auto& [w, bias] : layers) inputs.insert(inputs.end(), {w, bias});
  const std::vector<autograd::TensorRef> refs(inputs.begin(), inputs.end());
  const bool recorded = autograd::wants_record(refs.data(), refs.size());
  std::vector<ActivatedLinear> results;
  Tensor y = x;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& [w, bias] = layers[i];
    const bool last = i + 1 == layers.size();
    note_product(y, w.dim(0));
    if (last && !options.activate_last) {
      y = LATHE_DISPATCH(x.device(), linear(y, w, bias));
      break;
    }
    // The gradient of the last layer's relu is not part of a product and reads y alone.
    const bool keep = recorded && !(last && is_relu(options.activation));
    ActivatedLinear result =
        LATHE_DISPATCH(x.device(), linear_activated(y, w, bias, options.activation, keep));
    y = result.y;
    if (last) result.y = {};  // otherwise the node would hold itself
    if (recorded) results.push_back(std::move(result));
  }

  Kept kept{Saved(x), {}, std::move(results), {}, options};
  for (const auto& [w, bias] : layers) kept.layers.emplace_back(Saved(w), Saved(bias));
  const bool reads_y = options.activate_last && is_relu(options.activation);
  if (recorded && reads_y) kept.y.emplace(y);
  autograd::record(op, y, inputs, [kept = std::move(kept)](const Tensor& dy, const Needs& need) {
    return grad_enabled() ? gradients_in_ops(kept, dy, need) : gradients(kept, dy, need);
  });
  return y;
}

}  // namespace

ActivatedLinear activated(const Tensor& z, Activation activation, bool keep) {
  const bool keep_z = keep && !is_relu(activation);  // a relu's gradient reads y
  const Tensor y = keep_z ? empty_like(z) : z;
  LATHE_DISPATCH(z.device(), unary(unary_of(activation), y, z, {}));
  return {y, keep_z ? z : Tensor()};
}

Tensor activation_grad(const Tensor& dy, Activation activation, const ActivatedLinear& layer) {
  switch (activation) {
    case Activation::kRelu:
    case Activation::kFastRelu: return relu_grad(dy, layer.y);
    case Activation::kGelu: return gelu_grad(dy, layer.kept);
    case Activation::kGeluTanh: break;
  }
  return gelu_tanh_grad(dy, layer.kept);
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias, Activation activation) {
  return run("linear", x, {{w, bias}}, {.activation = activation, .activate_last = true});
}

Tensor mlp(const Tensor& x, const std::vector<MlpLayer>& layers, const MlpOptions& options) {
  return run("mlp", x, layers, options);
}

}  // namespace lathe
