// What tests of ranks with a GPU each share.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "../cuda_case.h"
#include "lathe/core/device.h"
#include "ranks.h"

namespace lathe::test {

// Before any case asks whether there is a GPU.
[[maybe_unused]] inline const int g_four_emulated_gpus = setenv("LATHE_EMULATED_DEVICES", "4", 0);

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

inline Device gpu(int64_t number) { return Device(DeviceType::kCUDA, static_cast<int8_t>(number)); }

/// What one rank does, and what all are told.
inline void check_all(int n, double timeout, const Ranks::Body& body, const std::string& expected) {
  Ranks ranks(n, timeout, body, true);
  for (int rank = 0; rank < n; ++rank) {
    const std::string result = ranks.result(rank);
    INFO("rank ", rank, ": ", result);
    CHECK(result.find(expected) != std::string::npos);
  }
}

/// What `f` throws as E.
template <class E>
std::string told_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace lathe::test
