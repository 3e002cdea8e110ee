// Optimizer: parameter groups, their hyper-parameters and per-parameter state; the base of sgd.h,
// adam.h and rmsprop.h. The update rules are in update_math.h, the loops over them in update.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lathe/core/shape.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/optim/kernels/update.h"

namespace lathe::optim {

struct ZeroGradOptions {
  bool set_to_none =
      true;  // false: keep the memory and write zeros (a zero gradient is a normal step)
};

struct StepOptions {
  Tensor found_inf =
      {};  // 0-d f32 on the parameters' device: the step is skipped where it is not 0
  // The gradients on their way into the update, which stay as they are in memory. On a GPU this
  // costs two launches for all groups before the one update of each; bits are those of
  // GradScaler::unscale_ and clip_grad_norm_ for f32 and f64 gradients.
  Tensor grad_scale = {};    // 0-d f32: divided by it, and looked through for inf and NaN; then
                             // found_inf must be given and is written
  double max_grad_norm = 0;  // above 0: clipped to this total norm over all groups
};

/// Updates parameters from their gradients. Neither copied nor moved: schedulers and scalers refer
/// to it. A parameter without gradient is skipped completely: no decay, no momentum, its step count
/// stays.
class LATHE_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient. Writes parameters in place (their version
  /// goes up) and leaves the gradients alone. A skipped step (StepOptions) changes no parameter, no
  /// buffer and no step count; on a GPU the kernels read the flag and the host never waits. Nor
  /// does a step change values there after a label or index out of range, which the next wait
  /// throws; it is counted all the same where the host counts (no flag so far, no
  /// set_capturable()). Nothing has changed if it throws.
  /// throws: StateError if a parameter's shape or device no longer fits its state, DeviceError for
  /// a group on several devices (with grad_scale or max_grad_norm: for groups on several) or a flag
  /// or scale on another one, ValueError for a flag or scale that is not a 0-d f32 and for a
  /// negative or NaN max_grad_norm, OutOfMemoryError. → with max_grad_norm the total norm before
  /// clipping, as clip_grad_norm_ returns it.
  Tensor step(const StepOptions& options = {});

  /// Drops all gradients: undefined afterwards.
  void zero_grad(ZeroGradOptions options = {}) const;

  /// "SGD".
  const char* name() const { return name_; }
  size_t num_groups() const { return groups_.size(); }
  /// The parameters of one group, in order.
  Tensors params(size_t group) const;
  /// The parameters of all groups, in order.
  Tensors params() const;

  double lr(size_t group = 0) const;
  /// Learning rate of one group, of all groups.
  /// throws: ValueError for a negative or non-finite one; CudaError from a GPU that has the rates
  /// (set_capturable()).
  void set_lr(size_t group, double lr);
  void set_lr(double lr);
  /// One learning rate per group.
  /// throws: as above, ValueError also for another number of rates: then none has changed.
  void set_lrs(const std::vector<double>& rates);
  /// From now on the learning rates and step counts of parameters on GPUs live in device memory, so
  /// that a step captured into a graph goes on counting and follows set_lr() when it is launched
  /// again. Until then the rate, and before the first step that could be skipped the count, are
  /// arguments of the kernels, which a graph keeps. Costs nothing inside of a step; a set_lr() that
  /// changes a rate is one small launch on the current stream, and the host never waits. The first
  /// step makes state, as does the one after load_state_dict(), and must not be captured; a graph
  /// that was captured before load_state_dict() holds the state that it let go, and must not be
  /// launched again. For good; on the CPU nothing changes.
  void set_capturable() { capturable_ = true; }

  /// The learning rate that the group was made with: what schedulers start from.
  double initial_lr(size_t group = 0) const;
  /// A hyper-parameter by its option's name, "momentum"; flags are 0 or 1.
  /// throws: ValueError for an unknown name.
  double hyper_parameter(std::string_view name, size_t group = 0) const;

  /// Everything that decides the next step. Parameters are numbered through all groups:
  ///   group.0.params (how many), group.0.lr, group.0.initial_lr, group.0.momentum, …,
  ///   state.3.step, state.3.momentum_buffer, …     A parameter that was never updated has no state
  ///   entries. Waits for the device if it counts steps: with set_capturable(), or where one could
  ///   be skipped.
  StateDict state_dict() const;
  /// Takes over such a state, hyper-parameters included; buffers are copied. All or nothing.
  /// throws: ValueError listing what is missing, unexpected or of another shape.
  void load_state_dict(const StateDict& state);

 protected:
  struct HyperParameter {
    std::string_view name;  // a literal
    double value;
  };
  class HyperParameters : public std::vector<HyperParameter> {
   public:
    using vector::vector;
    /// throws: ValueError for an unknown name.
    double operator()(std::string_view name) const;
  };

  /// A buffer that a parameter can have: of its shape, or one number (0-d).
  struct BufferName {
    std::string_view name;  // a literal
    bool one_number = false;
    BufferName(const char* text, bool number = false) : name(text), one_number(number) {}
  };

  /// `buffers`: those that this optimiser can need, at most kMaxBuffers.
  Optimizer(const char* name, std::vector<BufferName> buffers);

  /// The first hyper-parameter is "lr".
  /// throws: ValueError for an empty list, an undefined tensor, a parameter that is there already,
  /// or a bad hyper-parameter; DTypeError unless floating; StateError unless a leaf.   With
  /// master_weights each half parameter has its values in an f32 buffer, master_param, and is the
  /// rounded copy, written in the same pass.
  void add_group(Tensors params, HyperParameters hyper, bool master_weights = false);
  /// throws: ValueError if there is no group at all.
  void check_groups() const;

  /// throws: ValueError naming a hyper-parameter that is out of range.
  virtual void check(const HyperParameters& hyper) const = 0;
  /// Does this update need buffer number `buffer`?
  virtual bool needs_buffer(size_t buffer, const HyperParameters& hyper) const = 0;
  /// Does an update measure norms of whole tensors, in UpdateItem::scratch?
  virtual bool measures_norms() const { return false; }
  /// Updates all items (of one device, those of one kind side by side). Can no longer fail: step()
  /// has checked everything, and an update allocates nothing.
  virtual void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const = 0;

  /// throws: ValueError "<optimiser>: <name> must be …, got …".
  void check_not_negative(const HyperParameters& hyper, std::string_view name) const;
  void check_below_one(const HyperParameters& hyper, std::string_view name) const;  // [0, 1)

  const char* const name_;

 private:
  struct Slot {
    Tensor param;
    int64_t step = 0;  // updates so far, unless the group has counts
    Tensors buffers;   // one per buffer name; undefined until needed
  };
  struct Group {
    std::vector<Slot> slots;
    HyperParameters hyper;
    double initial_lr;
    bool master_weights;
    Tensor counts = {};  // i64[slots] on the GPU from the first step on that may be skipped there
    Tensor rate = {};    // 0-d f64 on the GPU from the first capturable step on: hyper("lr")
  };
  struct Prepared;
  struct Pending;

  const Group& group_at(size_t group) const;
  std::vector<int64_t> steps_of(const Group& group) const;
  Tensor make_counts(const Group& group, Device device) const;
  void follow_device(Group& group) const;
  void set_hyper(Group& group, HyperParameters hyper);
  bool needs(size_t buffer, const Slot& slot, const Group& group) const;
  Prepared prepare(const Slot& slot, const Group& group) const;
  void check_options(const StepOptions& options) const;
  Pending gather(const Tensor& found_inf);
  Tensor check_gradients(const StepOptions& options, Pending& pending) const;
  Shape buffer_shape(const Slot& slot, size_t buffer) const;
  void check_buffer_fits(const Slot& slot, size_t buffer, size_t number) const;

  std::vector<BufferName> buffer_names_;  // the last one is master_param
  std::vector<Group> groups_;
  bool capturable_ = false;
};

}  // namespace lathe::optim
