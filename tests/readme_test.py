#!/usr/bin/env python3
"""The C++ example in README.md is examples/quickstart.cpp, word for word, and the blocks of docs/library.md are the sections of
examples/guide.cpp, in order. The tests compile and run both. check_docs.py checks the rest of the pages.

    readme_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    readme = (root / "README.md").read_text()
    faults = []
    example = re.search(r"```cpp\n(.*?)```", readme, re.S)
    if not example or example.group(1) != (root / "examples/quickstart.cpp").read_text():
        faults.append("README.md: the C++ example differs from examples/quickstart.cpp")
    page = (root / "docs/library.md").read_text()
    sections = re.findall(r"^// \[([^\]]+)\]\n(.*?)(?=^// \[)", (root / "examples/guide.cpp").read_text(), re.S | re.M)
    blocks = re.findall(r"```cpp\n(.*?)```", page, re.S)
    for at, (name, text) in enumerate(sections):
        if at >= len(blocks) or blocks[at] != text:
            faults.append(f"docs/library.md: its block {at + 1} differs from the section [{name}] of examples/guide.cpp")
    if len(blocks) != len(sections):
        faults.append(f"docs/library.md: {len(blocks)} blocks for {len(sections)} sections of examples/guide.cpp")
    for fault in faults:
        print(fault)
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
