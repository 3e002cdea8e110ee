// Adding, finding and copying entries, and the checks of numbers.
#include "lathe/core/state_dict.h"

#include <cmath>

#include "lathe/core/copy.h"
#include "lathe/core/state_entries.h"

namespace lathe {

std::optional<int64_t> as_count(const Tensor& number) {
  if (number.numel() != 1) return std::nullopt;
  const Scalar value = number.item_scalar();
  if (value.is_floating()) {
    const auto v = value.to<double>();
    if (!(v >= 0 && v <= static_cast<double>(kMostCounted) && std::floor(v) == v))
      return std::nullopt;
  } else if (value.to<int64_t>() < 0 || value.to<int64_t>() > kMostCounted) {
    return std::nullopt;
  }
  return value.to<int64_t>();
}

void StateDict::add(std::string name, Tensor tensor) {
  LATHE_CHECK(ValueError, tensor.defined(), "state dict: entry \"", full_name(name),
              "\" is undefined");
  const bool is_new = index_.emplace(name, entries_.size()).second;
  LATHE_CHECK(ValueError, is_new, "state dict: there is already an entry \"", full_name(name),
              "\" (new: ", tensor, ")");
  entries_.emplace_back(std::move(name), std::move(tensor));
}

void StateDict::add_number(std::string name, Scalar value) {
  const Tensor number = lathe::empty({}, {.dtype = value.dtype()});
  fill_values(number, value);
  add(std::move(name), number);
}

void StateDict::add_all(std::string_view prefix, const StateDict& other) {
  for (const auto& [name, tensor] : other) add(concat(prefix, name), tensor);
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Tensor& StateDict::at(std::string_view name) const {
  const Tensor* tensor = find(name);
  LATHE_CHECK(ValueError, tensor != nullptr, "state dict: no entry \"", full_name(name),
              "\" among ", size());
  return *tensor;
}

/// The value of an entry with one element.
static Scalar only_value(std::string_view name, const Tensor& entry) {
  LATHE_CHECK(ShapeError, entry.numel() == 1, "state dict: \"", name, "\" must have one element (",
              entry, ")");
  return entry.item_scalar();
}

Scalar StateDict::exact(std::string_view name, DType wanted) const {
  const Scalar value = only_value(full_name(name), at(name));
  const double v = value.to<double>();
  const bool holds = is_floating(wanted)   ? true
                     : wanted == kBool     ? v == 0 || v == 1
                     : value.is_floating() ? std::floor(v) == v && v >= -0x1p63 && v < 0x1p63
                                           : true;
  LATHE_CHECK(ValueError, holds, "state dict: \"", full_name(name), "\" is ", value,
              ", which is no ", wanted);
  return value;
}

int64_t StateDict::count(std::string_view name) const {
  const Scalar value = only_value(full_name(name), at(name));
  const std::optional<int64_t> count = as_count(at(name));
  LATHE_CHECK(ValueError, count, "state dict: \"", full_name(name),
              "\" must be an integer from 0 to ", kMostCounted, ", got ", value);
  return *count;
}

StateDict StateDict::section(std::string_view prefix) const {
  StateDict out;
  out.prefix_ = full_name(prefix);
  for (const auto& [name, tensor] : entries_) {
    if (name.starts_with(prefix)) out.add(name.substr(prefix.size()), tensor);
  }
  return out;
}

std::string StateDict::full_name(std::string_view name) const { return concat(prefix_, name); }

StateDict StateDict::clone() const {
  StateDict out;
  out.prefix_ = prefix_;
  for (const auto& [name, tensor] : entries_) {
    const Tensor copy = empty_like(tensor);
    copy_values(copy, tensor);
    out.add(name, copy);
  }
  return out;
}

void check_entries(std::string_view object, const StateDict& state, const StateDict& own) {
  std::string faults;
  const auto list = [&](const char* fault, const StateDict& from, const StateDict& in) {
    for (const auto& [name, tensor] : from) {
      if (!in.contains(name))
        faults += concat(faults.empty() ? "" : "; ", fault, state.full_name(name));
    }
  };
  list("missing ", own, state);
  list("unexpected ", state, own);
  LATHE_CHECK(ValueError, faults.empty(), object, ": the state does not fit: ", faults);
}

}  // namespace lathe
