// FirstPass: what an op can do at once for the op that gets its gradient.
//
// A backward pass that needs sums reads the gradient twice: for the sums, and to use them. The op
// that computes the gradient has each part of it in the cache, so it can make the sums on the way.
#pragma once

#include <memory>

#include "lathe/autograd/record.h"

namespace lathe::autograd {

/// How the backward pass of an op begins. What is in it is a matter of the two ops; on a CPU, batch
/// norm offers one to convolution (ops/batch_norm.h).
class LATHE_API FirstPass {
 public:
  FirstPass() = default;
  virtual ~FirstPass() = default;
  FirstPass(const FirstPass&) = delete;
  FirstPass& operator=(const FirstPass&) = delete;
};

/// A node that offers one, until it is released.
class LATHE_API FirstPassNode : public Node {
 public:
  FirstPassNode(const char* op, std::shared_ptr<FirstPass> pass)
      : Node(op), first_pass(std::move(pass)) {}

  std::shared_ptr<FirstPass> first_pass;
};

/// As ClosureNode, with a first pass.
template <class F>
class FirstPassClosure final : public FirstPassNode {
 public:
  FirstPassClosure(const char* op, std::shared_ptr<FirstPass> pass, F backward)
      : FirstPassNode(op, std::move(pass)), closure_(op, std::move(backward)) {
    takes_parts = closure_.takes_parts;
  }

  Tensors run(const Tensors& dy, const Needs& need) override { return closure_.run(dy, need); }
  void release() noexcept override {
    closure_.release();
    first_pass.reset();
  }

 private:
  ClosureNode<F> closure_;
};

/// record() of an op that offers `pass`.
template <class F>
void record_with_first_pass(const char* op, const Tensor& y,
                            std::initializer_list<TensorRef> inputs,
                            std::shared_ptr<FirstPass> pass, F&& backward) {
  profile::note_output(y);
  if (wants_record(inputs.begin(), inputs.size())) {
    attach(y, inputs.begin(), inputs.size(),
           NodePtr(new FirstPassClosure<std::decay_t<F>>(op, std::move(pass),
                                                         std::forward<F>(backward))));
  } else if (inference_enabled()) {
    y.impl().inference = true;
  }
}

/// What the op before offers, and the gradient that others have given it until now.
struct FirstPassOffer {
  std::shared_ptr<FirstPass> pass;  // null: nothing is offered
  Tensor arrived;                   // undefined: none
};

/// For the closure that runs on this thread: the offer of the op that made input i. There is none
/// where anybody besides that op sees its gradient (hooks, retain_grad(), grad(…, inputs), a
/// watcher), where gradients are recorded, and outside of a backward pass.
LATHE_API FirstPassOffer first_pass_of_input(size_t i);

/// Takes `arrived` of input i out of the backward pass. The closure has added it to the gradient
/// that it returns. The offering op must accept what it made of the sum in place of the sum, also
/// as a part of a larger sum, if more gradients arrive.
LATHE_API void take_arrived(size_t i);

}  // namespace lathe::autograd
