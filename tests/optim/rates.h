// What the tests of schedules share: the learning rates of some epochs, and their comparison.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "lathe/optim/scheduler.h"

namespace lathe::test {

/// Those of the next epochs, of the first group.
inline std::vector<double> rates(optim::LRScheduler& schedule, int epochs) {
  std::vector<double> out;
  for (int e = 0; e < epochs; ++e) {
    out.push_back(schedule.optimizer().lr());
    schedule.step();
  }
  return out;
}

/// The same with a metric at the end of each epoch.
inline std::vector<double> rates(optim::LRScheduler& schedule, const std::vector<double>& metrics) {
  std::vector<double> out;
  for (const double metric : metrics) {
    out.push_back(schedule.optimizer().lr());
    schedule.observe(metric);
    schedule.step();
  }
  return out;
}

/// Equal but for the order in which a chain of some 20 products in f64 was multiplied.
inline void check_rates(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t e = 0; e < want.size(); ++e) {
    CAPTURE(e);
    CHECK(got[e] == doctest::Approx(want[e]).epsilon(1e-12).scale(1e-3));
  }
}

}  // namespace lathe::test
