// A listener of doctest that hears nothing: one that is made of it overrides what it listens to.
#pragma once

#include <doctest/doctest.h>

namespace lathe::test {

struct QuietListener : doctest::IReporter {
  explicit QuietListener(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
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

}  // namespace lathe::test
