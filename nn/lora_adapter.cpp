// The formula of LoRA for each kind of layer, and how an adapter joins its layer.
#include "lathe/nn/lora_adapter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/nn/init.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

const char* Adapter::name_of_a(LoraLayer::Kind kind) {
  return kind == kEmbedding ? "lora_embedding_A" : "lora_A";
}
const char* Adapter::name_of_b(LoraLayer::Kind kind) {
  return kind == kEmbedding ? "lora_embedding_B" : "lora_B";
}

// The scale is applied to the product with A, which is smaller than the result.
Tensor Adapter::addition(const Tensor& x_in, bool training) const {
  if (layer.kind == kEmbedding) {
    const Tensor rows = embedding(a.t(), x_in, {.padding_index = layer.padding_index});
    return linear(mul(rows, scale), b);
  }
  const Tensor x =
      lathe::dropout(amp::autocast_enabled(x_in.device()) ? x_in : cast(x_in, a.dtype()),
                     {.p = dropout, .train = training && dropout > 0});
  if (layer.kind == kLinear) return linear(mul(linear(x, a), scale), b);
  return conv2d(mul(conv2d(x, a, layer.conv), scale), b);
}

Tensor Adapter::change() const {
  const Tensor product = mul(matmul(flatten(b, 1), flatten(a, 1)), scale);  // [out,in·R·S]
  const bool is_transposed = layer.is_transposed || layer.kind == kEmbedding;
  return reshape(is_transposed ? product.t() : product, weight_now().shape());
}

void Adapter::attach() {
  a_in_model_ = std::make_unique<LoraFactor>(*module, name_of_a(layer.kind), a);
  b_in_model_ = std::make_unique<LoraFactor>(*module, name_of_b(layer.kind), b);
  hook_ = module->register_forward_hook(
      [self = shared_from_this()](Module& of, const Tensor& x, const Tensor& y) {
        const Tensor more = self->addition(x, of.is_training());
        LATHE_CHECK(ShapeError, more.shape() == y.shape(), "Lora: the adapter of \"", self->name,
                    "\" gives ", more, " for a result of another shape (x: ", x, ", y: ", y, ")");
        return add(y, cast(more, y.dtype()));
      });
}

void Adapter::detach() {
  a_in_model_.reset();
  b_in_model_.reset();
  module->remove_hook(hook_);
}

Tensor Adapter::weight_now() const { return module->lora_layer()->weight; }

Tensor Adapter::merged() const {
  const NoGrad off;
  const Tensor weight = weight_now();
  LATHE_CHECK(StateError, weight.is_leaf() && !weight.impl().base, "Lora: the weight of \"", name,
              "\" is a view or the result of an op and cannot take other data (", weight, ")");
  const Autocast exact(weight.device(), kBF16, false);
  const Tensor out = empty_like(weight);
  copy_(out, add(cast(weight, a.dtype()), change()));
  return out;
}

void Adapter::merge(const Tensor& merged) {
  const Tensor weight = weight_now();
  before_ = weight.detach();
  weight.set_data(merged);
  detach();
}

Adapter::Restored Adapter::restored() const {
  const NoGrad off;
  const Tensor weight = weight_now();
  const auto moved = [&](const Tensor& t, DType dtype) {
    return cast(to_device(t, weight.device()), dtype);
  };
  const DType dtype = is_half(weight.dtype()) ? kF32 : weight.dtype();
  return {moved(before_, weight.dtype()), moved(a, dtype), moved(b, dtype)};
}

void Adapter::unmerge(const Restored& restored) {
  weight_now().set_data(restored.weight);
  before_ = {};
  a.set_data(restored.a);
  b.set_data(restored.b);
  attach();
}

std::pair<Shape, Shape> factor_shapes(const LoraLayer& layer, int64_t rank) {
  using enum LoraLayer::Kind;
  const Tensor& w = layer.weight;
  if (layer.kind == kConv2d) {
    return {{rank, w.dim(1), w.dim(2), w.dim(3)}, {w.dim(0), rank, 1, 1}};
  }
  const bool first_is_in = layer.is_transposed || layer.kind == kEmbedding;
  return {{rank, w.dim(first_is_in ? 0 : 1)}, {w.dim(first_is_in ? 1 : 0), rank}};
}

std::shared_ptr<Adapter> make_adapter(const std::string& name, Module& module,
                                      const LoraOptions& options, const Tensor& a,
                                      const Tensor& b) {
  using enum LoraLayer::Kind;
  auto out = std::make_shared<Adapter>();
  out->name = name;
  out->module = &module;
  out->layer = *module.lora_layer();
  const Tensor& w = out->layer.weight;
  const auto [shape_a, shape_b] = factor_shapes(out->layer, options.rank);
  const TensorOptions like{.dtype = is_half(w.dtype()) ? kF32 : w.dtype(), .device = w.device()};
  out->a = zeros(shape_a, like);
  out->b = zeros(shape_b, like);
  if (a.defined()) {
    copy_(out->a, a);
    copy_(out->b, b);
  } else if (out->layer.kind == kEmbedding) {
    init::normal_(out->b, 0, 1, options.generator);
  } else {
    init::kaiming_uniform_(out->a, {.slope = std::sqrt(5.0), .generator = options.generator});
  }
  out->dropout = options.dropout;
  const auto rank = static_cast<double>(options.rank);
  out->scale = options.alpha / (options.rank_stabilized ? std::sqrt(rank) : rank);
  return out;
}

namespace {

bool is_name_of_factor(std::string_view name) {
  using enum LoraLayer::Kind;
  const auto is_of = [&](LoraLayer::Kind kind) {
    return name == Adapter::name_of_a(kind) || name == Adapter::name_of_b(kind);
  };
  return is_of(kLinear) || is_of(kEmbedding);
}

}  // namespace

void check_has_no_adapter(const std::string& name, const Module& module) {
  const auto check = [&](const auto& entry) {
    LATHE_CHECK(StateError, !is_name_of_factor(entry.first), "add_lora: \"", name,
                "\" has an adapter already; merge() it first");
  };
  std::ranges::for_each(module.named_children(), check);
  std::ranges::for_each(module.named_parameters(), check);
}

Tensors trained_beside_adapters(const Module& model) {
  Tensors out;
  bool has_adapters = false;
  for (const auto& [name, p] : model.named_parameters()) {
    // "fc.lora_A.weight"
    const std::string_view module = std::string_view(name).substr(0, name.rfind('.'));
    has_adapters = has_adapters || is_name_of_factor(module.substr(module.rfind('.') + 1));
    if (p.requires_grad()) out.push_back(p);
  }
  return has_adapters ? out : Tensors();
}

}  // namespace lathe::nn
