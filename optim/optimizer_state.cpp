// Optimizer::state_dict() and load_state_dict(): everything is checked before anything changes.
#include <algorithm>
#include <cmath>
#include <exception>
#include <unordered_set>

#include "lathe/core/copy.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/optim/optimizer.h"

namespace lathe::optim {

namespace {

/// Reads entries of a state dict and collects everything that is wrong with them.
class StateReader {
 public:
  explicit StateReader(const StateDict& state) : state_(state) {}

  bool contains(const std::string& name) const { return state_.contains(name); }
  std::string full_name(const std::string& name) const { return state_.full_name(name); }

  /// Null if the entry is missing, which is then recorded.
  const Tensor* find(const std::string& name) {
    const Tensor* t = state_.find(name);
    if (t == nullptr) {
      complain("missing ", full_name(name));
    } else {
      known_.insert(name);
    }
    return t;
  }

  /// The entry as a number; 0 if it is not one.
  double number(const std::string& name) {
    const Tensor* t = find(name);
    if (t == nullptr) return 0;
    if (t->numel() == 1) return t->item<double>();
    complain(full_name(name), " is ", *t, " instead of a number");
    return 0;
  }

  /// The entry as a count of at least 1; 0 if it is not one.
  int64_t count(const std::string& name) {
    const double value = number(name);
    const Tensor* t = state_.find(name);
    if (t == nullptr || t->numel() != 1) return 0;  // number() has recorded that
    const int64_t count = as_count(*t).value_or(0);
    if (count < 1) complain(full_name(name), " is ", value);
    return count;
  }

  template <class... Args>
  void complain(const Args&... text) {
    problems_ += concat(problems_.empty() ? "" : "; ", text...);
  }

  /// throws: ValueError listing all complaints, and the entries that were never asked for.
  void finish(const char* optimizer) {
    for (const auto& [name, tensor] : state_) {
      if (!known_.contains(name)) complain("unexpected ", full_name(name));
    }
    LATHE_CHECK(ValueError, problems_.empty(), optimizer, ": the state does not fit: ", problems_);
  }

 private:
  const StateDict& state_;
  std::unordered_set<std::string> known_;
  std::string problems_;
};

}  // namespace

StateDict Optimizer::state_dict() const {
  if (!shares_) return all_state();
  try {
    return all_state();
  } catch (const std::exception& error) {  // the others may wait for this process in gather()
    shares_->failed("state_dict()", error.what());
    throw;
  }
}

StateDict Optimizer::all_state() const {
  StateDict out;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::string prefix = concat("group.", g, ".");
    out.add_number(prefix + "params", groups_[g].entries.size());
    out.add_number(prefix + "initial_lr", groups_[g].initial_lr);
    for (const HyperParameter& h : groups_[g].hyper)
      out.add_number(concat(prefix, h.name), h.value);
  }
  const StateDict own = own_state();
  out.add_all("", shares_ ? shares_->gather(own) : own);
  return out;
}

/// The state.… entries of what this process updates.
StateDict Optimizer::own_state() const {
  StateDict out;
  size_t number = 0;
  for (const Group& group : groups_) {
    const std::vector<int64_t> steps = steps_of(group);
    for (size_t s = 0; s < group.entries.size(); ++s, ++number) {
      const Slot& slot = group.entries[s];
      if (steps[s] == 0 || !is_own(number)) continue;
      const std::string prefix = concat("state.", number, ".");
      out.add_number(prefix + "step", steps[s]);
      for (size_t b = 0; b < slot.buffers.size(); ++b) {
        if (slot.buffers[b].defined())
          out.add(concat(prefix, buffer_names_[b].name), slot.buffers[b]);
      }
    }
  }
  return out;
}

void Optimizer::share_state(std::shared_ptr<StateShares> shares) {
  LATHE_CHECK(StateError, !shares_, name_, ": its state is shared among processes already");
  shares_ = std::move(shares);
  size_t number = 0;
  for (Group& group : groups_) {
    for (Slot& slot : group.entries) {
      if (is_own(number++)) continue;
      slot.step = 0;
      slot.buffers.assign(buffer_names_.size(), Tensor());
    }
  }
}

int64_t Optimizer::state_bytes() const {
  int64_t sum = 0;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.entries) {
      for (const Tensor& buffer : slot.buffers) sum += buffer.defined() ? buffer.bytes() : 0;
    }
  }
  return sum;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const profile::MemoryTagScope tag(profile::MemoryTag::kOptimizer);
  StateReader reader(state);
  std::vector<Group> loaded = groups_;
  size_t number = 0;
  for (size_t g = 0; g < loaded.size(); ++g) {
    Group& group = loaded[g];
    const std::string prefix = concat("group.", g, ".");
    const double params = reader.number(prefix + "params");
    if (params != static_cast<double>(group.entries.size())) {
      reader.complain("group ", g, " has ", group.entries.size(), " parameters here and ", params,
                      " in the state");
    }
    group.initial_lr = reader.number(prefix + "initial_lr");
    if (!(std::isfinite(group.initial_lr) && group.initial_lr >= 0))
      reader.complain(reader.full_name(prefix), "initial_lr is ", group.initial_lr);
    group.counts = {};
    group.rate = {};
    for (HyperParameter& h : group.hyper) h.value = reader.number(concat(prefix, h.name));

    for (Slot& slot : group.entries) {
      const bool own = is_own(number);
      const std::string slot_prefix = concat("state.", number++, ".");
      slot.step = 0;
      slot.buffers.assign(buffer_names_.size(), Tensor());
      const auto has = [&](const BufferName& b) {
        return reader.contains(concat(slot_prefix, b.name));
      };
      if (!reader.contains(slot_prefix + "step") && std::ranges::none_of(buffer_names_, has))
        continue;  // never updated
      slot.step = reader.count(slot_prefix + "step");
      for (size_t b = 0; b < buffer_names_.size(); ++b) {
        const std::string name = concat(slot_prefix, buffer_names_[b].name);
        const bool is_master = b + 1 == buffer_names_.size();  // the step makes a missing one
        if (!reader.contains(name) && (is_master || !needs(b, slot, group))) continue;
        if (!buffer_names_[b].fits(slot.param)) continue;  // unexpected
        const Tensor* buffer = reader.find(name);
        if (buffer == nullptr) continue;
        if (!(buffer->shape() == buffer_shape(slot, b)) || !is_floating(buffer->dtype())) {
          reader.complain(reader.full_name(name), " is ", *buffer, " but the parameter is ",
                          slot.param);
          continue;
        }
        if (!own) continue;
        const DType dtype = slot.param.dtype() == kF64 ? kF64 : kF32;
        slot.buffers[b] =
            buffer_names_[b].has_elements()
                ? empty_like(slot.param, dtype)
                : empty(buffer_shape(slot, b), {.dtype = dtype, .device = slot.param.device()});
        copy_values(slot.buffers[b], *buffer);
      }
      if (!own) slot.step = 0;
    }
  }
  reader.finish(name_);
  for (const Group& group : loaded) check(group.hyper);
  groups_ = std::move(loaded);
}

}  // namespace lathe::optim
