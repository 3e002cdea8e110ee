// Where a case fails, the order in which the emulated GPU ran it, to run it so again.
#include <doctest/doctest.h>

#include <cinttypes>
#include <cstdio>

#include "../quiet_listener.h"
#include "schedule.h"

namespace {

struct SeedListener : lathe::test::QuietListener {
  using QuietListener::QuietListener;

  // From the seed on, so that the case runs in that order also without those before it.
  void test_case_start(const doctest::TestCaseData&) override {
    lathe::emulation::set_schedule(lathe::emulation::schedule());
  }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.testCaseSuccess) return;
    const lathe::emulation::Schedule& order = lathe::emulation::schedule();
    std::printf("the emulated GPU's order: LATHE_EMULATED_SEED=%" PRIu64
                " LATHE_EMULATED_RESIDENT=%u LATHE_EMULATED_EARLY=%u\n",
                order.seed, order.resident, order.early);
  }
};

REGISTER_LISTENER("seed", 1, SeedListener);

}  // namespace
