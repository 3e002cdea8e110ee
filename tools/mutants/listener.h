// Appended to a copy of the main source of each doctest program: writes to the trace which test
// case runs, and how it ended.
#pragma once

namespace mutants {

struct CaseListener : doctest::IReporter {
  explicit CaseListener(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& data) override { begin_case(data.m_name); }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    trace_now(stats.testCaseSuccess ? "pass" : "fail", "");
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
};

REGISTER_LISTENER("mutants", 0, CaseListener);

}  // namespace mutants
