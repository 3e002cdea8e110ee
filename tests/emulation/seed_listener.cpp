// Where a case fails, the order in which the emulated GPU ran it, to run it so again.
#include <doctest/doctest.h>

#include <cinttypes>
#include <cstdio>

#include "schedule.h"

namespace {

struct SeedListener : doctest::IReporter {
  explicit SeedListener(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
  void test_run_end(const doctest::TestRunStats&) override {}

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
