// Filters in the form that a kernel wants, kept from call to call: reordered for oneDNN
// (conv2d_dnnl.cpp), transformed for Winograd (conv2d_winograd_cpu.cpp).
//
// A copy is that of one tensor, one version of its values and one form. It is made anew after the
// tensor was written, because that changes the version. Copies hold the memory of their tensor, so
// that no other tensor can get its address. When nobody else holds it any more, or it was written,
// the next look-up frees them, or the end of an Autocast scope, which drops the casts of its
// parameters. No copy is kept of tensors in the memory of others (from_blob): versions do not count
// their writes. No copy is kept in the first call of checkpoint() either.
#pragma once

#include <any>
#include <cstdint>
#include <utility>

#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"

namespace lathe::cpu {

namespace detail {
/// The copy of w's present values for which is_form(form) is true; undefined if there is none.
Tensor find_packed(const Tensor& w, FunctionRef<bool(const std::any& form)> is_form);
/// Keeps the copy of w's values of this version.
void keep_packed(const Tensor& w, uint32_t version, std::any form, const Tensor& copy);
}  // namespace detail

/// The copy of w in this form; make() makes it if there is none. `form` has ==. Thread-safe: two
/// threads that miss at the same time both make one.
template <class Form, class Make>
Tensor packed_weights(const Tensor& w, const Form& form, Make&& make) {
  const auto is_form = [&](const std::any& other) {
    const Form* const same_kind = std::any_cast<Form>(&other);
    return same_kind != nullptr && *same_kind == form;
  };
  if (Tensor found = detail::find_packed(w, is_form); found.defined()) return found;
  const uint32_t version = w.version();
  Tensor copy = std::forward<Make>(make)();
  detail::keep_packed(w, version, form, copy);
  return copy;
}

}  // namespace lathe::cpu
