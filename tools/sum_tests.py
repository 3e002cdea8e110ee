#!/usr/bin/env python3
"""Adds up test results: sum_tests.py [--failed N] RESULTS.xml...

Reads the files that `ctest --output-junit` wrote and prints one line, "N passed, N failed, N skipped". A test program
counts with the numbers of its own last line of that form; one without such a line counts once. A program that ends
badly (a crash, a timeout, an exit code) although it reports no failed case counts as one failed case more.
--failed N adds N failures from elsewhere, such as a build that broke. Exit code 1 if anything failed.
"""
import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.MULTILINE)


def counts_of(test):
    """(passed, failed, skipped) of one <testcase>."""
    status = test.get("status")
    if status == "disabled":
        return 0, 0, 1
    if status == "notrun":  # declined through its SKIP_... property, or could not be started
        skipped = (test.find("skipped") is not None) and test.find("skipped").get("message", "").startswith("SKIP_")
        return (0, 0, 1) if skipped else (0, 1, 0)
    ok = status == "run"
    lines = COUNTS.findall(test.findtext("system-out") or "")
    if not lines:
        return (1, 0, 0) if ok else (0, 1, 0)
    passed, failed, skipped = map(int, lines[-1])
    if not ok and failed == 0:
        failed = 1
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--failed", type=int, default=0)
    parser.add_argument("results", nargs="*")
    options = parser.parse_args()
    total = [0, options.failed, 0]
    for path in options.results:
        try:
            tests = list(ElementTree.parse(path).getroot().iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            print(f"sum_tests: no results in {path}: {error}", file=sys.stderr)
            total[1] += 1
            continue
        for test in tests:
            for i, count in enumerate(counts_of(test)):
                total[i] += count
    print("{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
