// Optimizer: parameter groups, their hyper-parameters and per-parameter state; the base of sgd.h,
// adam.h, rmsprop.h, lars.h, lamb.h and novograd.h.
// optimizer.cpp: groups and rates; optimizer_step.cpp: step(); optimizer_state.cpp: state_dict().
// The update rules are in kernels/update_math.h and kernels/layerwise_math.h, the loops in
// update.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/shape.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/optim/state_shares.h"
#include "lathe/optim/update.h"

namespace lathe::optim {

// Note [One list of options]: beside its options each optimiser has a function visit_options(). It
// calls visit(name, option, own, range) for every hyper-parameter, first of all for "lr". `option`
// is the member of the options, `own` the group's value if it has one, `range` what is allowed.
// Groups, checks, state, what the kernels get and the flags of the command follow from this list.
// So a new option is named in its options, in this list and in its formula.

/// The values that an option may have.
enum class Range {
  kNotNegative,  // and finite
  kBelowOne,     // in [0, 1)
  kFinite,
  kSwitch,  // 0 means off
};

struct ZeroGradOptions {
  // false: keep the memory and write zeros; a step with a zero gradient is a normal step.
  bool set_to_none = true;
};

struct StepOptions {
  Tensor found_inf = {};  // 0-d f32 on the parameters' device; if it is not 0 the step is skipped
  // The next two change the gradients on their way into the update; in memory they stay as they
  // are. On a GPU this costs two launches for all groups before the one update of each. For f32 and
  // f64 gradients the bits are those of GradScaler::unscale_ and clip_grad_norm_.
  Tensor grad_scale = {};    // 0-d f32: divides the gradients and looks for inf and NaN in them;
                             // needs found_inf, which the step then writes
  double max_grad_norm = 0;  // above 0: clips to this total norm over all groups
};

/// Updates parameters from their gradients. Neither copied nor moved: schedulers and scalers refer
/// to it. A parameter without a gradient is skipped completely: no decay, no momentum, and its step
/// count stays.
class LATHE_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient. Writes parameters in place (their version
  /// goes up) and does not change the gradients. If it throws, nothing has changed.
  /// A skipped step (StepOptions) changes no parameter, no buffer and no step count; on a GPU the
  /// kernels read the flag and the host never waits.
  /// After a kernel has found a label or index out of range, steps on that GPU change no values
  /// until the next wait throws that error. Such a step is still counted if the host counts the
  /// steps (no flag was given so far, and no set_capturable()).
  /// → with max_grad_norm: the total norm before clipping, as clip_grad_norm_ returns it
  /// throws: StateError if a parameter's shape or device no longer fits its state; DeviceError for
  /// a group on several devices (with grad_scale or max_grad_norm: for groups on several), or a
  /// flag or scale on another device; ValueError for a flag or scale that is not a 0-d f32 and for
  /// a negative or NaN max_grad_norm; OutOfMemoryError.
  Tensor step(const StepOptions& options = {});

  /// Drops all gradients (they are undefined afterwards), or writes zeros into them.
  void zero_grad(ZeroGradOptions options = {}) const;

  /// The class: "SGD".
  const char* name() const { return name_; }
  size_t num_groups() const { return groups_.size(); }
  /// The parameters of one group, in order.
  Tensors params(size_t group) const;
  /// The parameters of all groups, in order.
  Tensors params() const;

  double lr(size_t group = 0) const;
  /// Sets the learning rate of one group or of all groups.
  /// throws: ValueError for a negative or non-finite rate; CudaError from a GPU that holds the
  /// rates (set_capturable()).
  void set_lr(size_t group, double lr);
  void set_lr(double lr);
  /// Sets one learning rate per group.
  /// throws: as above; ValueError also for another number of rates. Then none has changed.
  void set_lrs(const std::vector<double>& rates);
  /// From now on, the learning rates and step counts of parameters on GPUs live in device memory. A
  /// step captured into a graph then goes on counting and follows set_lr() when it is launched
  /// again. Without this call they are arguments of the kernels, which a graph keeps (the count
  /// only until the first step that could be skipped).
  /// The step itself costs no more. A set_lr() that changes a rate is one small launch on the
  /// current stream; the host never waits. The first step, and the first one after
  /// load_state_dict(), make state and must not be captured. A graph captured before
  /// load_state_dict() refers to state that was released, and must not be launched again. The call
  /// cannot be undone; on the CPU it changes nothing.
  void set_capturable() { capturable_ = true; }
  /// From now on, a step under Autocast casts neither the f32 parameters that are on a GPU now nor
  /// their gradients: step() writes the half copies that Autocast reads, and reads gradients in the
  /// half type in which the backward pass left them (autograd/half_copy.h). No value changes; a
  /// weight that is cast takes 2 more bytes per element. grad() gives f32 as ever, by a cast when
  /// it is called. Does nothing on the CPU, and in LARS, LAMB and NovoGrad.
  /// In a captured step nothing but optimisers may write these parameters. A step that is captured
  /// without its backward pass needs f32 gradients: call grad() first, or it is a StateError.
  void set_half_copies() const;

  /// The learning rate that the group was made with: what schedulers start from.
  double initial_lr(size_t group = 0) const;
  /// A hyper-parameter by its option's name, "momentum"; flags are 0 or 1.
  /// throws: ValueError for an unknown name.
  double hyper_parameter(std::string_view name, size_t group = 0) const;

  /// Everything that decides the next step. Parameters are numbered through all groups:
  ///   group.0.params (how many), group.0.lr, group.0.initial_lr, group.0.momentum, …,
  ///   state.3.step, state.3.momentum_buffer, …
  /// A parameter that was never updated has no state entries. Waits for the device if it counts the
  /// steps: with set_capturable(), or once a step could be skipped.
  StateDict state_dict() const;
  /// Takes over such a state, with its hyper-parameters; copies the buffers. All or nothing.
  /// throws: ValueError listing what is missing, unexpected or of another shape.
  void load_state_dict(const StateDict& state);

  /// From now on this process keeps only its own share of the state: step() updates the parameters
  /// that are its own and then exchanges values, state_dict() gathers the state of all processes,
  /// load_state_dict() takes the own part. So all processes must call these three together. State
  /// that other processes keep is released. What a ZeroRedundancyOptimizer calls.
  /// throws: StateError if the state is shared already.
  void share_state(std::shared_ptr<StateShares> shares);
  /// Bytes of the state that this process keeps.
  int64_t state_bytes() const;

 protected:
  struct HyperParameter {
    std::string_view name;  // a literal
    double value;
    Range range;
  };
  class HyperParameters : public std::vector<HyperParameter> {
   public:
    using vector::vector;
    /// throws: ValueError for an unknown name.
    double operator()(std::string_view name) const;
  };

  /// A buffer that a parameter can have.
  struct BufferName {
    std::string_view name;          // a literal
    std::string_view only_if = {};  // needed if this hyper-parameter is not 0; empty: always
    bool one_number = false;        // 0-d; else of the parameter's shape
  };

  /// `buffers`: those that this optimiser can need, at most kMaxBuffers (update.h).
  Optimizer(const char* name, std::vector<BufferName> buffers);

  /// Adds groups, whose absent options are those in `options` (Note [One list of options]). With
  /// master_weights each half parameter has its values in an f32 buffer, master_param. The
  /// parameter is the rounded copy, written in the same pass.
  /// throws: ValueError for no groups or an empty one, an undefined tensor, a parameter that is in
  /// a group already, or a bad option; DTypeError unless floating; StateError unless a leaf.
  template <class Options, class OptionsGroup>
  void add_groups(std::vector<OptionsGroup> groups, Options options) {
    LATHE_CHECK(ValueError, !groups.empty(), name_, ": an empty list of parameter groups");
    for (OptionsGroup& group : groups) {
      HyperParameters hyper;
      const auto add = [&](std::string_view name, auto option, const auto& own, Range range) {
        hyper.push_back({name, static_cast<double>(own.value_or(option)), range});
      };
      visit_options(options, add, group);
      hyper.shrink_to_fit();  // as its copies, so that a failed load leaves the memory as it was
      add_group(std::move(group.params), std::move(hyper), options.master_weights);
    }
  }
  /// The options that add_groups() made these hyper-parameters of. Allocates nothing.
  template <class Options>
  static Options options_of(const HyperParameters& hyper) {
    Options options;
    size_t i = 0;
    visit_options(options, [&]<class T>(std::string_view, T& option, const auto&, Range) {
      option = static_cast<T>(hyper[i++].value);
    });
    return options;
  }

  /// Checks beyond the range of each hyper-parameter.
  /// throws: ValueError naming those that do not fit together.
  virtual void check_together(const HyperParameters&) const {}
  /// Whether an update measures norms of whole tensors, in UpdateItem::scratch.
  virtual bool measures_norms() const { return false; }
  /// Updates all items. They are on one device, and items of one kind are adjacent. It must not
  /// fail: step() has checked everything, and an update allocates nothing.
  virtual void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const = 0;

  const char* const name_;

 private:
  struct Slot {
    Tensor param;
    int64_t step = 0;  // updates so far; not used if the group has counts
    Tensors buffers;   // one per buffer name; undefined until needed
  };
  struct Group {
    std::vector<Slot> entries;
    HyperParameters hyper;
    double initial_lr;
    bool master_weights;
    Tensor counts = {};  // i64[slots] on the GPU, from the first step on that the GPU may skip
    Tensor rate = {};    // 0-d f64 on the GPU, from the first capturable step on: hyper("lr")
  };
  struct Prepared;
  struct Pending;

  void add_group(Tensors params, HyperParameters hyper, bool master_weights);
  void check(const HyperParameters& hyper) const;
  const Group& group_at(size_t group) const;
  std::vector<int64_t> steps_of(const Group& group) const;
  Tensor make_counts(const Group& group, Device device) const;
  void follow_device(Group& group) const;
  void set_hyper(Group& group, HyperParameters hyper);
  bool needs(size_t buffer, const Slot& slot, const Group& group) const;
  // The layer-wise rules have no kernels for halves beside f32.
  bool reads_halves(const Tensor& param) const {
    return param.device().is_cuda() && !measures_norms();
  }
  Tensor gradient_of(const Tensor& param, const Tensor& dense) const;
  Prepared prepare(const Slot& slot, const Group& group) const;
  void check_options(const StepOptions& options) const;
  UpdateItem make_item(const Prepared& p, const Slot& slot, const Group& group) const;
  void use_device_state(UpdateItem& item, size_t g, size_t s, const Tensor& found_inf,
                        Pending& out) const;
  bool is_own(size_t number) const { return !shares_ || shares_->is_own(number); }
  Tensor step_own(const StepOptions& options);
  StateDict all_state() const;
  StateDict own_state() const;
  void gather_group(size_t g, size_t number, const Tensor& found_inf, Pending& out);
  Pending gather(const Tensor& found_inf);
  Tensor check_gradients(const StepOptions& options, Pending& pending) const;
  Shape buffer_shape(const Slot& slot, size_t buffer) const;
  void check_buffer_fits(const Slot& slot, size_t buffer, size_t number) const;

  std::vector<BufferName> buffer_names_;  // the last one is master_param
  std::vector<Group> groups_;
  bool capturable_ = false;
  std::shared_ptr<StateShares> shares_;  // null: this process keeps all state
};

}  // namespace lathe::optim
