// with_patience(): tests of what happens when a time limit has passed, on machines of any speed.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>

namespace lathe::test {

/// Tests with short limits are short. But a machine that is busy may not keep them, and then what
/// ranks say of each other is another truth: that a rank has not joined, say, which was to be
/// stopped later. So an attempt whose result is not the expected one is made again, with limits
/// that are 6 and then 36 times as long. It fails if the last one does.
/// `attempt(factor)` multiplies all its times by `factor` and says what was wrong; "" if nothing.
inline void with_patience(const std::function<std::string(double factor)>& attempt) {
  std::string wrong;
  for (const double factor : {1.0, 6.0, 36.0}) {
    wrong = attempt(factor);
    if (wrong.empty()) return;
    MESSAGE("with limits ", factor, " times as long: ", wrong);
  }
  FAIL_CHECK(wrong);
}

/// "" if `found` contains `expected`, or else what to say of it.
inline std::string unless_contained(const std::string& found, const std::string& expected) {
  if (found.find(expected) != std::string::npos) return "";
  return "\"" + expected + "\" is not in \"" + found + "\"; ";
}

}  // namespace lathe::test
