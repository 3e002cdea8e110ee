// LBFGS: a quasi-Newton method for small, smooth problems without noise.
//   LBFGS opt(model.parameters(), {.strong_wolfe = true});
//   opt.step([&] { opt.zero_grad(); Tensor loss = f(); loss.backward(); return loss; });
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;  // iterations per step()
  std::optional<int64_t> max_eval =
      {};                          // calls of the closure per step(); absent: max_iter * 5 / 4
  double tolerance_grad = 1e-7;    // ends the step if no component of the gradient is larger
  double tolerance_change = 1e-9;  // ends the step if parameters or loss change by no more
  int64_t history_size = 100;      // pairs of changes that approximate the curvature
  bool strong_wolfe = false;       // true: line searches; false: steps of length lr
};

/// Minimises a loss that a closure computes. One step() makes several iterations:
///   d = -H g, by the two-loop recursion over the last changes of parameters (s) and gradient (y)
///   x ← x + t d
/// H approximates the inverse Hessian from pairs (y, s); pairs with y·s <= 1e-10 are left out. t is
/// lr, and lr * min(1, 1 / |g|_1) in the very first iteration. With strong_wolfe a line search
/// begins at that t. Every iteration waits for the device several times. An LBFGS cannot be copied
/// or moved.
/// dtypes: f32, f64.   ref: Liu and Nocedal 1989; Nocedal and Wright 2006, Algorithm 7.4.
class LATHE_API LBFGS {
 public:
  /// Clears the gradients, computes the loss, calls backward() and returns the loss.
  using Closure = std::function<Tensor()>;

  /// throws: ValueError if there are no parameters, a parameter comes twice, or an option is out of
  /// range; DTypeError, DeviceError unless all parameters are f32 or all f64, on one device;
  /// StateError unless all are leaves.
  explicit LBFGS(const Tensors& params, const LBFGSOptions& options = {});
  LBFGS(const LBFGS&) = delete;
  LBFGS& operator=(const LBFGS&) = delete;

  /// Makes one step of up to max_iter iterations. A parameter without a gradient counts as having a
  /// gradient of zeros.   → the loss before the step
  /// throws: what the closure throws; ShapeError unless it returns a tensor of one element.
  /// Parameters and state are unchanged then.
  Tensor step(const Closure& closure);

  void zero_grad(ZeroGradOptions options = {}) const;
  double lr() const { return options_.lr; }
  /// throws: ValueError for a negative or non-finite rate.
  void set_lr(double lr);
  /// The number of calls of the closure so far.
  int64_t evaluations() const { return state_.evaluations; }
  /// The number of iterations so far.
  int64_t iterations() const { return state_.iterations; }

  /// The options and all state that decides the next step.
  StateDict state_dict() const;
  /// Loads the state_dict() of an LBFGS; copies the tensors.
  /// throws: ValueError for an entry that is missing, unexpected or of another shape. Nothing has
  /// changed then.
  void load_state_dict(const StateDict& state);

 private:
  struct Pair {
    Tensor y, s;        // changes of the gradient and of the parameters
    double reciprocal;  // 1 / (y·s)
  };
  struct State {
    int64_t evaluations = 0, iterations = 0;
    double t = 0;                          // the last step length
    double curvature = 1;                  // H0 = curvature * I
    double loss = 0;                       // before the last iteration
    Tensor direction = {}, gradient = {};  // of the last iteration
    std::deque<Pair> pairs = {};           // oldest first
  };
  struct Evaluation {
    double loss;
    Tensor gradient;
  };

  void iterate(State& state, const Closure& closure, Evaluation now) const;
  void remember(State& state, const Tensor& gradient) const;
  static void check(const LBFGSOptions& options);
  static Tensor direction(const State& state, const Tensor& gradient);
  Evaluation evaluate(const Closure& closure, Tensor* loss = nullptr) const;
  Evaluation search(State& state, const Closure& closure, const Evaluation& now,
                    double slope) const;
  void move_to(const Tensor& x) const;
  Tensor flat_params() const;
  Tensor flat_gradient() const;

  Tensors params_;
  LBFGSOptions options_;
  State state_;
};

}  // namespace lathe::optim
