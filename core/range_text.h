// "0 to 9", for messages.
#pragma once

#include <string>

#include "lathe/core/format.h"

namespace lathe {

/// The range of two values, both included: "0 to 9", or "6" if they are equal.
template <class T>
std::string range_text(const T& first, const T& last) {
  return first == last ? concat(first) : concat(first, " to ", last);
}

}  // namespace lathe
