// How the CPU loops read and write a parameter that may have a master; see master_value() in
// update_math.h.
#pragma once

#include <type_traits>

#include "lathe/core/dtype.h"
#include "lathe/optim/kernels/update_math.h"

namespace lathe::optim::cpu {

/// The value of element i: the parameter's or, with kMaster, that of its master w.
template <bool kMaster, class T, class C>
[[gnu::always_inline]] inline C load(const T* p, const C* w, int64_t i) {
  if constexpr (kMaster) return master_value(p[i], w[i]);
  return C(p[i]);
}
template <bool kMaster, class T, class C>
[[gnu::always_inline]] inline void store(T* p, C* w, int64_t i, C value) {
  if constexpr (kMaster) w[i] = value;
  p[i] = T(value);
}

/// Calls f(std::true_type) if the parameter has a master, else f(std::false_type). Only a half
/// parameter can have one.
template <class T, class C, class F>
void with_master(const C* master, F&& f) {
  if constexpr (is_half(dtype_of<T>)) {
    if (master != nullptr) return f(std::true_type());
  }
  f(std::false_type());
}

}  // namespace lathe::optim::cpu
