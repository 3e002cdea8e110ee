#!/usr/bin/env python3
"""Checks that every test case that docs/features.md names exists, and that its links lead somewhere.

    check_features.py SOURCE_ROOT

A test cell holds [file](../tests/file_test.cpp) "name of the case"; in a Python test the name is a function's.
"""
import pathlib
import re
import sys


def cases_of(path):
    """The names of a test's cases."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return set(re.findall(r"^def (\w+)", text, re.M))
    literals = re.findall(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)', text)
    return {"".join(re.findall(r'"([^"]*)"', literal)) for literal in literals}


def problems_of(line, docs):
    for target in re.findall(r"\]\(([^)]+)\)", line):
        if not (docs / target).exists():
            yield f"there is no {target}"
    cells = line.strip("|").split("|")
    if len(cells) != 3:
        yield f"not a row of three columns: {line}"
        return
    tests = re.findall(r'\]\(([^)]+)\) "([^"]+)"', cells[2])
    if not tests or len(tests) != cells[2].count("]("):
        yield f"without a test, or a test without a name: {line}"
    for target, name in tests:
        path = docs / target
        if path.exists() and name not in cases_of(path):
            yield f'{target} has no case "{name}"'


def main():
    docs = pathlib.Path(sys.argv[1]).resolve() / "docs"
    lines = (docs / "features.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| capability")]
    assert rows, "no rows in docs/features.md"
    problems = [problem for row in rows for problem in problems_of(row, docs)]
    for problem in problems:
        print(problem)
    print(f"{0 if problems else 1} passed, {1 if problems else 0} failed, 0 skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
