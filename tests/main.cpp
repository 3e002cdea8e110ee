// Entry point of every C++ test program: doctest, plus the one line of counts that tools/test.sh
// sums up. LATHE_TEST_THREADS=7 runs the tests with so many threads, whatever the processors.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "quiet_listener.h"

namespace {

// Counts cases as the summary wants them: skipped are those that decline to run (no device), with
// their reason; a case that a filter left out is not counted at all.
struct CaseListener : lathe::test::QuietListener {
  using QuietListener::QuietListener;

  // Each case draws the same numbers alone, after others, and in every build.
  void test_case_start(const doctest::TestCaseData&) override { lathe::manual_seed(0); }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    ++(stats.testCaseSuccess ? passed : failed);
  }
  void test_case_skipped(const doctest::TestCaseData& data) override {
    if (!data.m_skip) return;
    ++skipped;
    std::printf("skipped: %s (%s)\n", data.m_name,
                data.m_description ? data.m_description : "no reason given");
  }
  void test_run_end(const doctest::TestRunStats&) override {
    std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  }

  int passed = 0, failed = 0, skipped = 0;
};

REGISTER_LISTENER("counts", 0, CaseListener);

}  // namespace

int main(int argc, char** argv) {
  if (const char* threads = std::getenv("LATHE_TEST_THREADS"))
    lathe::set_num_threads(std::atoi(threads));
  return doctest::Context(argc, argv).run();
}
