// note_arguments: what an op says of its arguments that are no tensors, to those who trace programs
// (graph/). While nobody watches, a call is one relaxed load and a branch, as in range.h.
//   const profile::OpRange range("softmax", {x});
//   profile::note_arguments(dim);
#pragma once

#include <span>
#include <typeinfo>

#include "lathe/core/hooks/range.h"

namespace lathe::profile {

/// A borrowed argument: its address and its type.
struct Argument {
  const void* value;
  const std::type_info* type;

  /// The value if it is of this type, else null.
  template <class T>
  const T* as() const {
    return *type == typeid(T) ? static_cast<const T*>(value) : nullptr;
  }
};

namespace detail {
LATHE_API void watch_arguments(std::span<const Argument> arguments) noexcept;
}  // namespace detail

/// Says what the op of the innermost open range was called with beside its tensors, in the order of
/// its declaration. Options are passed whole, also the tensors in them.
template <class... T>
void note_arguments(const T&... values) noexcept {
  if (!recording()) [[likely]]
    return;
  const Argument arguments[] = {{&values, &typeid(T)}...};
  detail::watch_arguments(arguments);
}

}  // namespace lathe::profile
