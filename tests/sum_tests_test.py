#!/usr/bin/env python3
"""Tests of tools/sum_tests.py: sum_tests_test.py PATH_OF_SUM_TESTS."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUM_TESTS = sys.argv.pop()


def test_case(status="run", output="", inner=""):
    return f'<testcase name="t" status="{status}">{inner}<system-out>{output}</system-out></testcase>'


class SumTests(unittest.TestCase):
    def total(self, *cases, arguments=()):
        """Returns (last line, exit code) for one results file with these test cases."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.xml"
            path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            done = subprocess.run([sys.executable, SUM_TESTS, *arguments, str(path)], text=True, capture_output=True)
            return done.stdout.strip(), done.returncode

    def test_the_last_counts_of_each_program_are_added(self):
        self.assertEqual(self.total(test_case(output="1 passed, 1 failed, 0 skipped\n5 passed, 0 failed, 2 skipped\n"),
                                    test_case(output="2 passed, 0 failed, 1 skipped")),
                         ("7 passed, 0 failed, 3 skipped", 0))

    def test_a_program_without_counts_counts_once(self):
        self.assertEqual(self.total(test_case(), test_case("fail")), ("1 passed, 1 failed, 0 skipped", 1))

    def test_failed_cases_are_not_counted_twice(self):
        self.assertEqual(self.total(test_case("fail", "3 passed, 2 failed, 0 skipped")),
                         ("3 passed, 2 failed, 0 skipped", 1))

    def test_a_crash_after_good_counts_is_a_failure(self):
        self.assertEqual(self.total(test_case("fail", "3 passed, 0 failed, 0 skipped")),
                         ("3 passed, 1 failed, 0 skipped", 1))

    def test_a_program_that_cannot_start_is_a_failure_and_one_that_declines_is_skipped(self):
        self.assertEqual(self.total(test_case("notrun", inner='<skipped message="Unable to find executable"/>')),
                         ("0 passed, 1 failed, 0 skipped", 1))
        self.assertEqual(self.total(test_case("notrun", inner='<skipped message="SKIP_RETURN_CODE=77"/>')),
                         ("0 passed, 0 failed, 1 skipped", 0))

    def test_broken_builds_and_missing_results_are_failures(self):
        self.assertEqual(self.total(test_case(), arguments=["--failed", "2"]), ("1 passed, 2 failed, 0 skipped", 1))
        self.assertEqual(self.total(test_case(), arguments=["/nonexistent.xml"]), ("1 passed, 1 failed, 0 skipped", 1))


if __name__ == "__main__":
    program = unittest.main(exit=False)
    bad = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.testsRun - bad} passed, {bad} failed, {len(program.result.skipped)} skipped")
    sys.exit(bool(bad))
