// checkpoint: the node that holds a function instead of what its ops would save.
//
// Note [A graph made in the backward pass]
// The second call of f is recorded on the inputs themselves, so its graph hangs together with the
// one around it. Its nodes are newer than all others: the running pass takes them next, before it
// goes on with older ones, as it would have done without checkpoint. So hooks, retain_graph,
// create_graph and grad(…, inputs) need no code of their own here.
#include "lathe/autograd/checkpoint.h"

#include <algorithm>
#include <deque>
#include <new>
#include <optional>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/companion.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/lend.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/record.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/random/random_state.h"

namespace lathe::autograd {

namespace {

constexpr Device kGpu(DeviceType::kCUDA);

/// What decides the result of f besides its arguments.
struct Surroundings {
  StateDict random = random_state();
  bool cpu_cast = amp::autocast_enabled(kCPU), gpu_cast = amp::autocast_enabled(kGpu);
  DType cpu_dtype = amp::autocast_dtype(kCPU), gpu_dtype = amp::autocast_dtype(kGpu);
  std::vector<std::pair<Tensor, Saved>> loans = {};  // of nn::functional_call

  Surroundings() {
    for (const Loan& loan : current_loans()) loans.emplace_back(loan.target, Saved(loan.shown));
  }
};

/// The default generators as they were, until the scope ends.
class RandomScope {
 public:
  explicit RandomScope(const StateDict& state) : before_(random_state()) {
    set_random_state(state);
  }
  ~RandomScope() {
    try {
      set_random_state(before_);
    } catch (const std::bad_alloc&) {  // then the numbers of the checkpoint come once more
    }
  }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  StateDict before_;
};

/// The same tensor, as far as anyone but its holders can tell: a view stays one.
Tensor new_handle(const Tensor& t) {
  Tensor out = t.detach();
  out.impl().base = t.impl().base;
  if (const Tensor companion = companion_of(t); companion.defined()) set_companion(out, companion);
  return out;
}

class CheckpointNode final : public Node {
 public:
  CheckpointNode(TensorsFunction f, std::vector<Saved> inputs, Surroundings surroundings)
      : Node("checkpoint"),
        f_(std::move(f)),
        inputs_(std::move(inputs)),
        surroundings_(std::move(surroundings)) {
    computed_again = true;
  }

  void set_outputs(const Tensors& ys) {
    for (const Tensor& y : ys) texts_.push_back(concat(y));
  }

  Tensors run(const Tensors&, const Needs&) override { return {}; }  // expand() takes its place

  bool expand(const Tensors& dy, Deliver deliver) override {
    const Tensors ys = recompute();
    for (size_t k = 0; k < ys.size(); ++k) {
      if (!dy[k].defined()) continue;
      const Edge edge = gradient_edge(ys[k]);
      if (edge.wanted()) deliver(edge, dy[k]);
    }
    return true;
  }

  void release() noexcept override {
    f_.reset();
    inputs_.clear();
    surroundings_.random = {};
    surroundings_.loans.clear();
  }

 private:
  Tensors recompute() {
    const Surroundings& then = surroundings_;
    const ModeScope record({true, false});
    const profile::MemoryTagScope forward(profile::MemoryTag::kOther);  // not the gradients'
    const Autocast cpu(kCPU, then.cpu_dtype, then.cpu_cast);
    const Autocast gpu(kGpu, then.gpu_dtype, then.gpu_cast);
    Tensors inputs;
    for (const Saved& x : inputs_) inputs.push_back(x.get());
    std::deque<Lent> lent;
    for (const auto& [target, shown] : then.loans) {
      if (!target.impl().lent) lent.emplace_back(target, shown.get());
    }
    const RandomScope random(then.random);
    Tensors ys = (*f_)(inputs);
    for (Tensor& y : ys) y = lasting(y);
    LATHE_CHECK(StateError, ys.size() == texts_.size(), "checkpoint: the function returned ",
                texts_.size(), " tensors, and ", ys.size(), " when it was called again");
    for (size_t k = 0; k < ys.size(); ++k) {
      const std::string text = concat(ys[k]);
      LATHE_CHECK(StateError, text == texts_[k], "checkpoint: the function returned ", texts_[k],
                  " as output ", k, ", and ", text, " when it was called again");
    }
    return ys;
  }

  std::optional<TensorsFunction> f_;
  std::vector<Saved> inputs_;
  Surroundings surroundings_;
  std::vector<std::string> texts_;  // dtype, shape and device of the outputs
};

}  // namespace

Tensors checkpoint(const TensorsFunction& f, const Tensors& inputs) {
  if (!grad_enabled()) {
    const profile::OpRange range("checkpoint", {});  // a trace must know: gradients need f again
    return f(inputs);
  }
  const std::vector<TensorRef> refs(inputs.begin(), inputs.end());
  wants_record(refs.data(), refs.size());  // updates their history: the node must be newer
  Surroundings surroundings;
  std::vector<Saved> saved;
  for (const Tensor& x : inputs) saved.emplace_back(x);
  bool would_record = false;
  Tensors ys;
  {
    const ModeScope probe({.grad = false, .would_record = &would_record});
    ys = f(inputs);
  }
  if (!would_record) return ys;
  auto* node = new CheckpointNode(f, std::move(saved), std::move(surroundings));
  const NodePtr owner(node);
  node->set_outputs(ys);
  Tensors recorded(ys.size());
  for (size_t k = 0; k < ys.size(); ++k) {
    Tensor& y = ys[k];
    // A tensor with a history was not made by f. It keeps that history and needs no second call.
    if (!y.defined() || !is_floating(y.dtype()) || y.requires_grad()) continue;
    recorded[k] = y = new_handle(y);  // f may have handed out a constant that others use
  }
  if (std::ranges::any_of(recorded, &Tensor::defined)) attach_all(recorded, nullptr, 0, owner);
  return ys;
}

}  // namespace lathe::autograd
