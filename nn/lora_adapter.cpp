// The formula of LoRA for each kind of layer, and how an adapter joins its layer.
#include "lathe/nn/lora_adapter.h"

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
        return add(y, cast(self->addition(x, of.is_training()), y.dtype()));
      });
}

void Adapter::detach() {
  a_in_model_.reset();
  b_in_model_.reset();
  module->remove_hook(hook_);
}

Tensor Adapter::weight_now() const { return module->lora_layer()->weight; }

void Adapter::merge() {
  const NoGrad off;
  const Tensor weight = weight_now();
  const Autocast exact(weight.device(), kBF16, false);
  before_ = weight.detach();
  const Tensor merged = empty_like(weight);
  copy_(merged, add(cast(weight, a.dtype()), change()));
  weight.set_data(merged);
  detach();
}

void Adapter::unmerge() {
  const NoGrad off;
  const Tensor weight = weight_now();
  const auto moved = [&](const Tensor& t, DType dtype) {
    return cast(to_device(t, weight.device()), dtype);
  };
  weight.set_data(moved(before_, weight.dtype()));
  before_ = {};
  const DType dtype = is_half(weight.dtype()) ? kF32 : weight.dtype();
  for (const Tensor* factor : {&a, &b}) factor->set_data(moved(*factor, dtype));
  attach();
}

std::shared_ptr<Adapter> make_adapter(const std::string& name, Module& module,
                                      const LoraOptions& options) {
  using enum LoraLayer::Kind;
  auto out = std::make_shared<Adapter>();
  out->name = name;
  out->module = &module;
  out->layer = *module.lora_layer();
  const Tensor& w = out->layer.weight;
  const bool first_is_in = out->layer.is_transposed || out->layer.kind == kEmbedding;
  Shape shape_a{options.rank, w.dim(first_is_in ? 0 : 1)};
  Shape shape_b{w.dim(first_is_in ? 1 : 0), options.rank};
  if (out->layer.kind == kConv2d) {
    shape_a = {options.rank, w.dim(1), w.dim(2), w.dim(3)};
    shape_b = {w.dim(0), options.rank, 1, 1};
  }
  const TensorOptions like{.dtype = is_half(w.dtype()) ? kF32 : w.dtype(), .device = w.device()};
  out->a = zeros(shape_a, like);
  out->b = zeros(shape_b, like);
  if (out->layer.kind == kEmbedding) {
    init::normal_(out->b, 0, 1, options.generator);
  } else {
    init::kaiming_uniform_(out->a, {.slope = std::sqrt(5.0), .generator = options.generator});
  }
  out->dropout = options.dropout;
  const auto rank = static_cast<double>(options.rank);
  out->scale = options.alpha / (options.rank_stabilized ? std::sqrt(rank) : rank);
  return out;
}

void check_has_no_adapter(const std::string& name, const Module& module) {
  for (const auto& [child, unused] : module.named_children()) {
    LATHE_CHECK(StateError, child != "lora_A" && child != "lora_embedding_A", "add_lora: \"", name,
                "\" has an adapter already; merge() it first");
  }
}

}  // namespace lathe::nn
