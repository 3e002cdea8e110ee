// Optimizer: parameter groups, their hyper-parameters and per-parameter state; the base of sgd.h,
// adam.h, rmsprop.h, lars.h, lamb.h, novograd.h and adafactor.h.
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
  // false: keeps the memory and writes zeros; a step with a zero gradient is a normal step.
  bool set_to_none = true;
};

struct StepOptions {
  Tensor found_inf = {};  // 0-d f32 on the parameters' device; if it is not 0 the step is skipped
  // The next two options change the gradients that the update uses; the gradients in memory stay.
  // On a GPU this costs two launches for all groups, before one update launch for each group. For
  // f32 and f64 gradients the bits are those of GradScaler::unscale_ and clip_grad_norm_.
  Tensor grad_scale = {};    // 0-d f32: divides the gradients and looks for inf and NaN in them;
                             // needs found_inf, which the step then writes
  double max_grad_norm = 0;  // above 0: clips to this total norm over all groups
};

/// Updates parameters from their gradients. An optimiser cannot be copied or moved, because
/// schedulers and scalers refer to it. It skips a parameter without a gradient completely: no
/// decay, no momentum, and the parameter's step count stays.
class LATHE_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, in place (which raises the tensor's version).
  /// Does not change the gradients. Two kinds of steps change no values:
  ///   - A step skipped by StepOptions::found_inf changes no parameter, no buffer and no step
  ///     count. On a GPU the kernels read the flag and the host never waits.
  ///   - After a kernel has found a label or index out of range, steps on that GPU change no values
  ///     until the next wait throws that error. Before set_capturable() and the first found_inf the
  ///     host counts the steps, including these.
  /// → with max_grad_norm: the total norm before clipping, as clip_grad_norm_ returns it
  /// throws: one of these; nothing has changed then:
  ///   - StateError if a parameter's shape or device no longer fits its state, or in a capture that
  ///     would begin state (set_capturable())
  ///   - DeviceError for a group on several devices, for several groups on different devices with
  ///     grad_scale or max_grad_norm, or for found_inf or grad_scale on another device
  ///   - ValueError for a found_inf or grad_scale that is not a 0-d f32, or a negative or NaN
  ///     max_grad_norm
  ///   - OutOfMemoryError
  Tensor step(const StepOptions& options = {});

  /// Drops all gradients, which are undefined afterwards, or writes zeros into them.
  void zero_grad(ZeroGradOptions options = {}) const;

  /// The name of the class: "SGD".
  const char* name() const { return name_; }
  size_t num_groups() const { return groups_.size(); }
  /// The parameters of one group, in order.
  Tensors params(size_t group) const;
  /// The parameters of all groups, in order.
  Tensors params() const;
  /// True if the optimiser keeps the value of this half parameter in f32 (master_weights).
  bool has_master_weights(const Tensor& param) const;

  double lr(size_t group = 0) const;
  /// Sets the learning rate of one group or of all groups.
  /// throws: ValueError for a rate that is negative or not finite; after set_capturable() also
  /// CudaError.
  void set_lr(size_t group, double lr);
  void set_lr(double lr);
  /// Sets one learning rate per group.
  /// throws: what set_lr() throws; ValueError for another number of rates than groups. Nothing has
  /// changed then.
  void set_lrs(const std::vector<double>& rates);
  /// Makes step() ready to be captured into a CUDA graph: learning rates and step counts of
  /// parameters on GPUs are kept in device memory from now on. So each launch of the CUDA graph
  /// counts its step and follows set_lr(). Without this call a CUDA graph repeats the rate and,
  /// before the first step with a found_inf, the count of the captured step.
  ///   - Make a step before the capture, with a gradient for each parameter that has one in the
  ///     capture. After load_state_dict() make another one. Without them the capture would begin
  ///     state, which each launch would begin again, and step() throws StateError.
  ///   - After load_state_dict(), do not launch CUDA graphs captured before: they refer to released
  ///     memory.
  ///   - A set_lr() that changes a rate costs one small launch on the current stream. Nothing else
  ///     costs more, and the host never waits.
  /// The call cannot be undone. It has no effect on the CPU.
  void set_capturable() { capturable_ = true; }
  /// Removes casts from training under Autocast, for the f32 parameters that are on a GPU now:
  /// step() also writes the half copies of parameters that Autocast reads, and reads gradients in
  /// the half type of the backward pass (autograd/half_copy.h). No value changes. A weight that
  /// Autocast casts takes 2 more bytes per element. grad() casts to f32 when it is called. Has no
  /// effect on the CPU, and in LARS, LAMB and NovoGrad.
  ///   - In a captured step only optimisers may write these parameters.
  ///   - If a step is captured without its backward pass, call grad() of all parameters first.
  ///     Otherwise step() throws StateError.
  void set_half_copies() const;

  /// The learning rate that the group was made with, from which schedulers start.
  double initial_lr(size_t group = 0) const;
  /// The hyper-parameter with the name of its option, "momentum" for instance. Flags are 0 or 1.
  /// throws: ValueError for an unknown name.
  double hyper_parameter(std::string_view name, size_t group = 0) const;

  /// All state that decides the next step. Parameters are numbered through all groups:
  ///   group.0.params (how many), group.0.lr, group.0.initial_lr, group.0.momentum, …,
  ///   state.3.step, state.3.momentum_buffer, …
  /// A parameter that was never updated has no state entries. Waits for the device if the device
  /// counts the steps: after set_capturable(), or after the first step with a found_inf.
  StateDict state_dict() const;
  /// Loads the state_dict() of an optimiser of the same class, with its hyper-parameters. Copies
  /// the buffers.
  /// throws: ValueError listing every entry that is missing, unexpected or of another shape.
  /// Nothing has changed then.
  void load_state_dict(const StateDict& state);

  /// Makes this process keep only its own share of the state; called by ZeroRedundancyOptimizer.
  /// State that other processes keep is released. From now on all processes must call these three
  /// together:
  ///   - step() updates the parameters of this process's share and then exchanges values
  ///   - state_dict() gathers the state of all processes
  ///   - load_state_dict() takes this process's share
  /// throws: StateError if the state is shared already.
  void share_state(std::shared_ptr<StateShares> shares);
  /// The bytes of the state that this process keeps.
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

  /// What a buffer has one number for.
  enum class Per {
    kElement,          // of the parameter's shape
    kElementOfVector,  // likewise; parameters of two and more dimensions have none
    kRow,              // the last dimension is 1; others than those have none
    kColumn,           // the next to last dimension is 1, likewise
    kTensor,           // 0-d
  };
  /// A buffer that a parameter can have in its state.
  struct BufferName {
    std::string_view name;          // a literal
    std::string_view only_if = {};  // needed if this hyper-parameter is not 0; empty: always
    Per per = Per::kElement;
    bool has_elements() const { return per == Per::kElement || per == Per::kElementOfVector; }
    bool fits(const Tensor& param) const {
      if (per == Per::kElementOfVector) return param.ndim() < 2;
      return (per != Per::kRow && per != Per::kColumn) || param.ndim() >= 2;
    }
  };

  /// `buffers`: all buffers that this optimiser can need, at most kMaxBuffers (update.h).
  Optimizer(const char* name, std::vector<BufferName> buffers);

  /// Adds groups. An option that a group lacks is taken from `options` (Note [One list of
  /// options]). With master_weights the optimiser keeps the value of each half parameter in an f32
  /// buffer, master_param, and rounds it into the parameter in the same kernel.
  /// throws: ValueError for an empty list of groups, an empty group, an undefined tensor, a
  /// parameter that is in a group already, or an option out of range; DTypeError unless the
  /// parameters are floating; StateError unless they are leaves.
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
  /// The options from which add_groups() made these hyper-parameters. Allocates nothing.
  template <class Options>
  static Options options_of(const HyperParameters& hyper) {
    Options options;
    size_t i = 0;
    visit_options(options, [&]<class T>(std::string_view, T& option, const auto&, Range) {
      option = static_cast<T>(hyper[i++].value);
    });
    return options;
  }

  /// Checks hyper-parameters against each other. Their ranges have been checked.
  /// throws: ValueError naming the hyper-parameters that do not fit together.
  virtual void check_together(const HyperParameters&) const {}
  /// True if an update measures norms of whole tensors, in UpdateItem::scratch.
  virtual bool measures_norms() const { return false; }
  /// Computes what an update needs of whole tensors and what may fail, for the items of one group.
  /// May write where items point to, but changes no parameter and no state.
  /// → memory that must live until update() has returned
  virtual Tensors prepare_update(const HyperParameters&, std::span<UpdateItem>) const { return {}; }
  /// Updates all items. They are on one device, and items of one kind are adjacent. It must not
  /// fail or allocate: step() has checked everything.
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
