// The part of a custom function's call that is the same for all: what is saved, and the op's node.
#include "lathe/autograd/custom_function.h"

#include <algorithm>

#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/watch.h"

namespace lathe {

Tensors FunctionContext::saved_tensors() const {
  Tensors out = unsaved_;
  for (const Entry& kept : saved_) {
    out.push_back(std::visit([](const auto& saved) { return saved.get(); }, kept));
  }
  return out;
}

namespace autograd {

namespace {

/// The index of `t` in `list`, or its size.
size_t place_in(const Tensors& list, const Tensor& t) {
  const auto at = std::ranges::find_if(list, [&](const Tensor& u) { return u.is_same(t); });
  return static_cast<size_t>(at - list.begin());
}

std::vector<TensorRef> refs_of(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

}  // namespace

class CustomNode final : public Node {
 public:
  CustomNode(const char* op, std::unique_ptr<FunctionContext> context,
             CustomCall::Backward backward, const Tensors& ys)
      : Node(op), context_(std::move(context)), backward_(backward) {
    for (const Tensor& y : ys) outputs_.push_back({y.shape(), y.dtype(), y.device()});
  }

  Tensors run(const Tensors& dy, const Needs& need) override {
    Tensors all = dy;
    for (size_t k = 0; k < all.size(); ++k) {
      if (!all[k].defined() && context_->materialize_zeros_) all[k] = outputs_[k].zeros();
    }
    Tensors gradients = backward_(*context_, all);
    LATHE_CHECK(ValueError, gradients.size() == need.size(), "backward: ", name, " returned ",
                gradients.size(), " gradients for ", need.size(), " input tensors");
    return gradients;
  }

  void release() noexcept override { context_.reset(); }

 private:
  struct Output {
    Shape shape;
    DType dtype;
    Device device;

    Tensor zeros() const {
      const Tensor t = empty(shape, {.dtype = dtype, .device = device});
      fill_values(t, 0);
      return t;
    }
  };

  std::unique_ptr<FunctionContext> context_;
  CustomCall::Backward backward_;
  std::vector<Output> outputs_;
};

CustomCall::CustomCall(const char* name, FunctionContext& context, Tensors inputs)
    : name_(name), inputs_(std::move(inputs)) {
  const std::vector<TensorRef> refs = refs_of(inputs_);
  recorded_ = wants_record(refs.data(), refs.size());
  for (const Tensor& x : inputs_) {
    context.needs_.push_back(recorded_ && x.defined() && x.requires_grad());
    versions_.push_back(x.defined() ? x.version() : 0);
  }
}

Tensors CustomCall::record(Tensors outputs, std::unique_ptr<FunctionContext> context,
                           Backward backward) {
  check(*context, outputs);
  if (profile::watched()) [[unlikely]]
    show_watchers(outputs);
  if (!recorded_) return outputs;
  const Tensors made = outputs;
  separate(outputs);
  Tensors ys = outputs;
  for (size_t k = 0; k < ys.size(); ++k) {
    if (is_constant(*context, made[k])) ys[k] = Tensor();
  }
  if (std::ranges::none_of(ys, &Tensor::defined)) return outputs;
  save(*context, made, outputs, ys);
  const std::vector<TensorRef> refs = refs_of(inputs_);
  attach_all(ys, refs.data(), refs.size(),
             NodePtr(new CustomNode(name_, std::move(context), backward, outputs)));
  return outputs;
}

bool CustomCall::is_constant(const FunctionContext& context, const Tensor& y) {
  return !is_floating(y.dtype()) || place_in(context.constant_, y) < context.constant_.size();
}

void CustomCall::check(const FunctionContext& context, const Tensors& outputs) const {
  for (size_t k = 0; k < outputs.size(); ++k) {
    LATHE_CHECK(ValueError, outputs[k].defined(), name_, ": forward returned an undefined output ",
                k);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    LATHE_CHECK(StateError, !context.needs_[i] || inputs_[i].version() == versions_[i], name_,
                ": forward wrote input ", i, " in place, which needs a gradient (", inputs_[i],
                ")");
  }
}

/// As the results of an op of this name: forward may have computed them without ops.
void CustomCall::show_watchers(const Tensors& outputs) const {
  {
    const profile::OpRange range(name_, inputs_);
    for (const Tensor& y : outputs) profile::note_output(y);
  }
  profile::raise_found();
}

/// Keeps what forward saved. An output is kept without its history: else the node would own itself.
void CustomCall::save(FunctionContext& context, const Tensors& made, const Tensors& outputs,
                      const Tensors& ys) {
  for (const Tensor& t : std::exchange(context.unsaved_, {})) {
    const size_t k = place_in(made, t);
    if (!t.defined() || k == made.size()) {
      context.saved_.emplace_back(Saved(t));
    } else if (ys[k].defined()) {
      context.saved_.emplace_back(SavedOutput(outputs[k], static_cast<uint32_t>(k)));
    } else {
      context.saved_.emplace_back(Saved(outputs[k]));
    }
  }
  context.constant_.clear();
}

/// An output becomes the result of this op. So it must be no tensor that had another meaning
/// before: an input, a tensor from elsewhere, or another output.
void CustomCall::separate(Tensors& outputs) const {
  for (size_t k = 0; k < outputs.size(); ++k) {
    Tensor& y = outputs[k];
    const bool shared = std::ranges::any_of(
        inputs_, [&](const Tensor& x) { return x.defined() && x.shares_storage(y); });
    if (shared) {
      const Tensor copy = empty_like(y);
      copy_values(copy, y);
      y = copy;
    } else {
      y = y.detach();
    }
  }
}

}  // namespace autograd
}  // namespace lathe
