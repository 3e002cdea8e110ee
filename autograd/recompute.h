// Recompute: results that an op can compute again from what it keeps anyway are not kept for the
// backward pass. recompute.cpp; which ops: batch norm (ops/batch_norm.cpp).
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
/// result again when the first op asks for it, and frees it after the last op that needs it, at the
/// latest at its own end. Gradients have the same bits, also second derivatives.
/// For `conv(relu(norm(x)))`, x stays and relu's result goes. The price is one kernel for each
/// result, which reads x and a residual and writes the result.
///   - A residual that is such a result itself is computed again too. A result that would take more
///     than three kernels stays.
///   - A residual that no other op keeps stays in place of the result: then nothing is gained.
///   - With SavedTensorHooks nothing is computed again: they get the tensors as without Recompute.
///   - checkpoint()'s second run is unaffected.
///   - Writing a result after an op took it is no error, unlike without Recompute: the op still
///     sees the old values.
///   on  false: as if there was none around it
/// throws: in the backward pass StateError if x, a residual, the weight or the bias was modified in
/// place since.
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

/// True if an op that is recorded now should say how its result is computed again.
LATHE_API bool recomputes() noexcept;

/// How one result is computed again, and how many of those who saved it are left.
class Recomputation;
using RecomputationPtr = std::shared_ptr<Recomputation>;

/// More kernels than this are not run for one result.
inline constexpr int kMostSteps = 3;

/// The kernels that it takes to have t's values again; 0 if t is kept.
LATHE_API int recompute_steps(const Tensor& t);

/// `make_compute` returns a function that computes the result without recording, with the same
/// values each time. It holds what it needs as Saved, made meanwhile, and not the result.
LATHE_API RecomputationPtr make_recomputation(int steps,
                                              FunctionRef<std::function<Tensor()>()> make_compute);

/// True while this thread computes a result again.
LATHE_API bool computes_again() noexcept;

/// From now on a Saved of y keeps the recomputation in place of y, until y is written. y itself
/// does not hold it: the op's node must. Once that is released y counts as any other tensor.
LATHE_API void set_recomputation(const Tensor& y, const RecomputationPtr& recomputation);

/// For Saved: how to get t's values in the backward pass. Empty if t must be kept.
LATHE_API std::function<Tensor()> use_recomputation(const Tensor& t);

/// The results that one backward pass has computed again and still needs. While it is there, each
/// is computed once; one that only another result needed is not kept.
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
