// Recompute: saves memory by not keeping results for the backward pass that an op can compute again
// from tensors that are kept anyway. Such ops: batch norm (ops/batch_norm.cpp).
//   { const Recompute again; loss = cross_entropy(net(x), y); }
//   loss.backward();
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"

namespace lathe {

/// While a Recompute is alive, ops of its thread do not keep results of batch norm (alone, or with
/// relu and a residual: ops/batch_norm.h) for the backward pass. The backward pass computes such a
/// result again when an op first asks for it, and frees it after the last op that needs it. In
/// `conv(relu(norm(x)))`, for instance, x is kept and the result of relu is not. First and second
/// derivatives have the same bits as without Recompute. Computing a result again takes one kernel,
/// which reads x and the residual.
///   - If x or the residual is itself such a result, it is computed first, each time: the result
///     then takes two or three kernels. A result that would take more is kept.
///   - If no other op keeps the residual, Recompute keeps it in place of the result, and saves no
///     memory.
///   - With SavedTensorHooks nothing is computed again: the hooks get the same tensors as without
///     Recompute.
///   - checkpoint()'s second run is unaffected.
///   - After an op used a result, writing the result in place is allowed; the gradient is that of
///     the old values. Without Recompute this is an error.
///   on  false: turns off an outer Recompute while this one is alive
/// throws: in the backward pass StateError if x, a residual, the weight or the bias was modified in
/// place after the batch norm.
class LATHE_API Recompute {
 public:
  [[nodiscard]] explicit Recompute(bool on = true) noexcept;
  ~Recompute();
  Recompute(const Recompute&) = delete;
  Recompute& operator=(const Recompute&) = delete;

 private:
  bool before_;
};

namespace autograd {

/// True if this thread has a Recompute that is on: an op that is recorded now should say how its
/// result is computed again (set_recomputation).
LATHE_API bool recomputes() noexcept;

/// How one result is computed again, and how many of the ops that saved the result still need it.
class Recomputation;
using RecomputationPtr = std::shared_ptr<Recomputation>;

/// The most kernels that are run to compute one result again.
inline constexpr int kMostSteps = 3;

/// How many kernels must run to compute t's values again; 0 if t is kept.
LATHE_API int recompute_steps(const Tensor& t);

/// Makes the Recomputation of an op's result. `steps` is how many kernels compute the result again.
/// `make_compute` returns a function that computes the result without recording, with the same
/// values each time. `make_compute` wraps the tensors that this function needs in Saved objects
/// (saved.h). The function must not hold the result itself.
LATHE_API RecomputationPtr make_recomputation(int steps,
                                              FunctionRef<std::function<Tensor()>()> make_compute);

/// True while this thread computes a result again.
LATHE_API bool computes_again() noexcept;

/// From now on, an op that saves y for its gradient (class Saved) keeps `recomputation` instead of
/// y's values. This ends when y is written in place, or when the node of the op that made y
/// releases `recomputation`: this node must own `recomputation`, because y holds only a weak
/// reference to it.
LATHE_API void set_recomputation(const Tensor& y, const RecomputationPtr& recomputation);

/// Called when an op saves t for its gradient (class Saved). Returns a function that computes t's
/// values in the backward pass, or an empty function if t itself must be kept.
LATHE_API std::function<Tensor()> use_recomputation(const Tensor& t);

/// The results that one backward pass has computed again (class Recompute) and still needs. While
/// the object lives, a result is computed once for all ops that saved it. A recomputation whose
/// input is such a result takes it from here; if it is not here, the recomputation computes it and
/// does not store it.
class LATHE_API RecomputedValues {
 public:
  struct Value {
    RecomputationPtr recomputation;  // as long as a value is here, no other one has its address
    Tensor tensor;
    std::vector<const void*> given_to;  // users; once all have it, only they keep it
  };
  using List = std::vector<Value>;

  RecomputedValues() noexcept;
  ~RecomputedValues();
  RecomputedValues(const RecomputedValues&) = delete;
  RecomputedValues& operator=(const RecomputedValues&) = delete;

 private:
  List list_;
  List* before_;
};

}  // namespace autograd
}  // namespace lathe
