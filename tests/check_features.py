#!/usr/bin/env python3
"""Checks that every row of docs/features.md and docs/guarantees.md names test cases that exist, and that its links lead somewhere.

    check_features.py SOURCE_ROOT

The last cell of a row holds its tests: [file](../tests/file_test.cpp) "name of the case"; in a Python test the name is a function's.
"""
import pathlib
import posixpath
import re
import sys

from tree_files import tree_files


def cases_of(path):
    """The names of a test's cases."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return set(re.findall(r"^def (\w+)", text, re.M))
    literals = re.findall(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)', text)
    return {"".join(re.findall(r'"([^"]*)"', literal)) for literal in literals}


def problems_of(line, columns, docs):
    for target in re.findall(r"\]\(([^)]+)\)", line):
        if posixpath.normpath("docs/" + target) not in tree_files(docs.parent):
            yield f"there is no {target}"
    cells = line.strip("|").split("|")
    if len(cells) != columns:
        yield f"not a row of {columns} columns: {line}"
        return
    tests = re.findall(r'\]\(([^)]+)\) "([^"]+)"', cells[-1])
    if not tests or len(tests) != cells[-1].count("]("):
        yield f"without a test, or a test without a name: {line}"
    for target, name in tests:
        path = docs / target
        if path.exists() and name not in cases_of(path):
            yield f'{target} has no case "{name}"'


def rows_of(path, heading):
    """The rows of all tables, which begin with the same heading."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(f"| {heading} |")]
    assert rows, f"no rows in {path}"
    return rows


def main():
    docs = pathlib.Path(sys.argv[1]).resolve() / "docs"
    problems = [problem for page, heading, columns in (("features", "capability", 3), ("guarantees", "promise", 2))
                for row in rows_of(docs / f"{page}.md", heading) for problem in problems_of(row, columns, docs)]
    for problem in problems:
        print(problem)
    print(f"{0 if problems else 1} passed, {1 if problems else 0} failed, 0 skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
