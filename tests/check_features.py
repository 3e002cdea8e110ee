#!/usr/bin/env python3
"""Checks tests/features.json and tests/guarantees.json, and that docs/features.md and docs/guarantees.md say the same.

    check_features.py SOURCE_ROOT [--write]

Each row names what holds (`capability` or `promise`), for a capability the files `where` it is, and `tests`, at least one: "FILE: name of the case",
in a Python test the name of a function. The files and the cases are there. `--write` writes the tables of the pages anew.
"""
import json
import pathlib
import re
import sys

from tree_files import tree_files

PAGES = {"features": ("capability", "where", "tests"), "guarantees": ("promise", "tests")}


def cases_of(path):
    """The names of a test's cases."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return set(re.findall(r"^def (\w+)", text, re.M))
    literals = re.findall(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)', text)
    return {"".join(re.findall(r'"([^"]*)"', literal)) for literal in literals}


def problems_of(row, keys, root, files):
    if not isinstance(row, dict) or tuple(row) != keys:
        return [f"not a row of {', '.join(keys)}: {row}"]
    problems = [f"there is no {path}" for path in row.get("where", []) if path not in files]
    if "|" in row[keys[0]]:
        problems.append(f"a | ends a cell of the table, in backticks too: {row[keys[0]]}")
    if not row["tests"]:
        problems.append(f"without a test: {row[keys[0]]}")
    for test in row["tests"]:
        path, _, name = test.partition(": ")
        if path not in files:
            problems.append(f"there is no {path}")
        elif name not in cases_of(root / path):
            problems.append(f'{path} has no case "{name}"')
    return problems


def tables_of(sections, keys):
    """The sections as Markdown, without the tests."""
    lines = []
    for section in sections:
        lines += [f"## {section['section']}", ""]
        if "where" in keys:
            lines += [f"| {keys[0]} | where |", "|---|---|"]
            lines += [f"| {row[keys[0]]} | " + ", ".join(f"[{path.rpartition('/')[2]}](../{path})" for path in row["where"]) + " |"
                      for row in section["rows"]]
        else:
            lines += [f"- {row[keys[0]]}" for row in section["rows"]]
        lines.append("")
    return "\n".join(lines)


def self_test(root, files):
    keys = PAGES["features"]
    good = {"capability": "x", "where": ["tests/check_features.py"], "tests": ["tests/check_features.py: cases_of"]}
    assert not problems_of(good, keys, root, files)
    for wrong in ({"capability": "a `|` b"}, {"where": ["core/no_such_file"]}, {"tests": []}, {"tests": ["tests/none: x"]}, {"tests": ["tests/check_features.py: x"]}):
        assert problems_of({**good, **wrong}, keys, root, files), wrong
    assert problems_of({"capability": "x"}, keys, root, files)


def main():
    root, write = pathlib.Path(sys.argv[1]).resolve(), "--write" in sys.argv[2:]
    files = set(tree_files(root))
    self_test(root, files)
    problems = []
    for name, keys in PAGES.items():
        sections = json.loads((root / f"tests/{name}.json").read_text(encoding="utf-8"))
        problems += [f"tests/{name}.json: {problem}" for section in sections for row in section["rows"]
                     for problem in problems_of(row, keys, root, files)]
        page = root / f"docs/{name}.md"
        text = page.read_text(encoding="utf-8")
        begin, end = f"<!-- from tests/{name}.json -->\n", "<!-- end -->"
        if begin not in text or end not in text:
            problems.append(f"docs/{name}.md: no place for the tables")
            continue
        new = text[: text.index(begin) + len(begin)] + tables_of(sections, keys) + text[text.index(end) :]
        if new != text and write:
            page.write_text(new, encoding="utf-8")
        elif new != text:
            problems.append(f"docs/{name}.md differs from tests/{name}.json: python3 tests/check_features.py . --write")
    for problem in problems:
        print(problem)
    print(f"{0 if problems else 1} passed, {1 if problems else 0} failed, 0 skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
