// What each function of lathe_c.h does at its border: errors become a status and a text.
#pragma once

#include <string_view>

#include "lathe/core/error.h"
#include "lathe/core/function_ref.h"
#include "lathe/lathe_c.h"

namespace lathe::c {

/// A handle that is NULL, freed, or of another kind.
class HandleError : public Error {
  using Error::Error;
};

/// Runs `body`. An exception ends here: its message is kept for lathe_last_error().
///   function  the name of the C function, which begins the message
/// → the status of what was thrown; LATHE_OK
lathe_status call(std::string_view function, FunctionRef<void()> body) noexcept;

/// Sets the result to nothing, so that a failure leaves it so.
/// throws: ValueError if the caller gave no place for it.
template <class T>
void clear(T* out) {
  LATHE_CHECK(ValueError, out != nullptr, "the place of the result is NULL");
  *out = T();
}

/// throws: ValueError for NULL.
std::string_view text_of(const char* text, std::string_view parameter);

}  // namespace lathe::c
