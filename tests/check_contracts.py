#!/usr/bin/env python3
"""Checks the form of comments: what a reader looks for stands where it is looked for.

    check_contracts.py SOURCE_ROOT

- Every source file begins with a comment that says what it holds.
- In headers, a contract's keyword (dtypes, grad, amp, throws, ref) begins its line, or follows another one on a line
  that begins with one; and no line ends with a keyword.
- No comment is longer than a line of code may be, and none is a ruler torn from its title.
- Where a source of the library has its contract needs no search: in a header that it includes and whose name begins its own, as
  unary.h or unary_impl.h for unary_compare_cuda.cu, or in the one that its first comment names: "Contract: passes.h."
"""
import pathlib
import re
import sys

from tree_files import paths_below

FOLDERS = ["core", "profile", "autograd", "ops", "nn", "graph", "optim", "data", "distributed", "train", "tools"]
WITHOUT_CONTRACTS = "tools"  # commands and benchmarks, which nobody calls
HEADERS, SOURCES = {".h", ".cuh"}, {".h", ".cuh", ".cpp", ".cu"}
COLUMNS = 100
KEYWORD = r"(?:dtypes|grad|amp|throws|ref):"
COMMENT = re.compile(r"^\s*(///?)(?: (.*))?$")
BEGINS = re.compile(rf"^\s*{KEYWORD}(?:\s|$)")
INSIDE = re.compile(rf"(?<![\w`\"]){KEYWORD}(?=\s|$)")
ENDS = re.compile(rf"(?<![\w`\"]){KEYWORD}\s*$")
INCLUDE = re.compile(r'^#\s*include "lathe/([^"]+)"', re.M)
CONTRACT = re.compile(r"Contracts?: ([\w/]+\.(?:h|cuh)(?:(?:, | and |, and )[\w/]+\.(?:h|cuh))*)[.,;: ]")
RULER = re.compile(r"^\s*[-=]{4,}\s*$")


def faults_of_line(text, is_header):
    """What is wrong with a line that is a comment, without its slashes."""
    if RULER.match(text):
        yield "a ruler without its title"
    if is_header and ENDS.search(text):
        yield "the line ends with a keyword"
    elif is_header and INSIDE.search(text) and not BEGINS.match(text):
        yield f"{INSIDE.search(text)[0]} stands in the middle of the line"


def fault_of_contract(path, text, exists):
    """What is wrong with a source whose contract has to be searched for."""
    included = [pathlib.PurePath(name) for name in INCLUDE.findall(text)]
    words = path.stem.split("_")
    if {name.stem.removesuffix("_impl") for name in included} & {"_".join(words[:n]) for n in range(1, len(words) + 1)}:
        return None
    head = re.match(r"(//[^\n]*\n)*", text)[0].replace("\n// ", " ").replace("\n", " ")
    named = CONTRACT.search(head)
    if not named:
        return f"{path}:1: no header of its name, and no \"Contract: <header>.\" in the first comment"
    places = (path.parent, *path.parent.parents)  # beside it, or above
    missing = [name for name in re.findall(r"[\w/]+\.\w+", named[1]) if not any(exists(place / name) for place in places)]
    return f"{path}:1: its contract is in {missing[0]}, which is neither beside it nor above" if missing else None


def faults_of(path, text, exists):
    lines = text.splitlines()
    if not lines or not lines[0].startswith("//"):
        yield f"{path}:1: no comment says what the file holds"
    if path.suffix not in HEADERS and path.parts[0] != WITHOUT_CONTRACTS and (fault := fault_of_contract(path, text, exists)):
        yield fault
    for number, line in enumerate(lines, 1):
        comment = COMMENT.match(line)
        if comment and len(line) > COLUMNS and "http" not in line:
            yield f"{path}:{number}: {len(line)} columns"
        if comment:
            yield from (f"{path}:{number}: {fault}" for fault in faults_of_line(comment[2] or "", path.suffix in HEADERS))


def self_test():
    """The checker must see each kind of fault."""
    head = "// What it holds.\n"
    exists = {pathlib.Path("ops/x.h")}.__contains__
    faults = lambda text, name="ops/x.h": list(faults_of(pathlib.Path(name), text, exists))
    assert faults("#pragma once\n") and not faults(head)
    own = head + '#include "lathe/ops/x.h"\n'
    assert faults("#include <vector>\n", "ops/x.cpp") and not faults(own, "ops/x.cpp") and not faults(own, "ops/kernels/x_cuda.cu")
    assert faults(head, "ops/x.cpp") and faults(own, "ops/y.cpp") and not faults(head, "tools/cli/x.cpp")
    assert not faults("// What it holds. Contract: x.h.\n", "ops/room/y.cpp") and not faults("// Sums. Contract:\n// ops/x.h.\n" + own, "ops/y.cpp")
    assert faults("// What it holds. Contract: z.h.\n" + own, "ops/y.cpp")
    assert faults(head + "/// The sum.   throws: ShapeError.\n") and faults(head + "/// The sum.   throws:\n")
    assert faults(head + "/// grad: x.   amp:\n") and not faults(head + "/// grad: x.   amp: half.\n")
    assert not faults(head + "/// The sum.\n/// throws: ShapeError.\n") and not faults(head + "int grad();  // it throws: x\n")
    assert faults(head + "// " + "x" * 98) and faults(head + "// -------\n") and not faults(head + "// --- sums ----\n")


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    paths = paths_below(root, FOLDERS, SOURCES)
    assert paths, f"no sources under {root}"
    found = [fault for path in paths for fault in faults_of(path.relative_to(root), path.read_text(encoding="utf-8"), lambda name: (root / name).exists())]
    print("\n".join(found))
    print(f"{len(paths)} files, {len(found)} faults")
    print(f"{0 if found else 1} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
