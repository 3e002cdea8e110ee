// StateDict: named tensors in order. It holds what a module, an optimiser or a scheduler must
// remember between runs, or the content of a weights file. A number is a 0-d tensor (f64, i64 or
// bool), so that saving it loses nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

/// The largest count, 2^53: a double holds it exactly, and sums of such counts fit an int64.
inline constexpr int64_t kMostCounted = int64_t{1} << 53;

/// The value of a one-element tensor of any dtype, if it is an integer from 0 to kMostCounted
/// (2^53). Otherwise, and for any other tensor, nullopt.
LATHE_API std::optional<int64_t> as_count(const Tensor& number);

/// Names → tensors, in the order in which they were added. The tensors are handles: they share
/// their values with their owners. clone() makes copies.
class LATHE_API StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  /// Adds an entry.
  /// throws: ValueError for an undefined tensor or a name that is there already.
  void add(std::string name, Tensor tensor);
  /// Adds a number, as a 0-d CPU tensor of f64, i64 or bool.
  void add_number(std::string name, Scalar value);
  /// Adds all entries of `other`, with `prefix` before their names.
  void add_all(std::string_view prefix, const StateDict& other);

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Null if there is no such entry.
  const Tensor* find(std::string_view name) const;
  /// throws: ValueError if there is no such entry.
  const Tensor& at(std::string_view name) const;
  const Tensor& operator[](std::string_view name) const { return at(name); }
  /// The value of a one-element entry, for T = double, int64_t or bool.
  /// throws: ShapeError if the entry has another number of elements; ValueError if there is no such
  /// entry, or if T is int64_t or bool and cannot hold the value: 1.5, 1e30 and NaN are no
  /// integers.
  template <class T>
  T number(std::string_view name) const {
    static_assert(dtype_of<T> == kF64 || dtype_of<T> == kI64 || dtype_of<T> == kBool);
    return exact(name, dtype_of<T>).template to<T>();
  }
  /// The value of a one-element entry that counts steps, samples or epochs.
  /// throws: ShapeError if the entry has another number of elements; ValueError if there is no such
  /// entry, or if the value is no integer from 0 to kMostCounted (2^53).
  int64_t count(std::string_view name) const;

  /// The entries whose names begin with `prefix`; the prefix is removed from their names. Messages
  /// about the section's entries still show the prefix.
  StateDict section(std::string_view prefix) const;
  /// The name for messages: with the prefixes that section() removed.
  std::string full_name(std::string_view name) const;
  /// A state dict with the same names and copies of the values, on the same devices.
  StateDict clone() const;

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  Scalar exact(std::string_view name, DType wanted) const;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::string prefix_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> index_;
};

}  // namespace lathe
