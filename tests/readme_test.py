#!/usr/bin/env python3
"""README.md has at most 500 words, and its blocks of C++ are lines of examples/quickstart.cpp and examples/fit_finetune.cpp. The
blocks of docs/library.md are the sections of examples/guide.cpp, in order, those of docs/bridges.md examples/eigen_bridge.cpp and
examples/opencv_bridge.cpp. The tests compile and run these programs. check_docs.py checks the rest of the pages.

    readme_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys
import textwrap


def main():
    root = pathlib.Path(sys.argv[1])
    readme = (root / "README.md").read_text()
    faults = []
    words = re.findall(r"\S*\w\S*", readme)
    if len(words) > 500:
        faults.append(f"README.md: {len(words)} words, at most 500")
    examples = re.findall(r"```cpp\n(.*?)```", readme, re.S)
    sources = ["examples/quickstart.cpp", "examples/fit_finetune.cpp"]
    if len(examples) != len(sources):
        faults.append(f"README.md: {len(examples)} blocks of C++ for {', '.join(sources)}")
    for block, source in zip(examples, sources):
        if not any(textwrap.indent(block, indent) in (root / source).read_text() for indent in ("", "  ")):
            faults.append(f"README.md: a block of C++ is no part of {source}")
    page = (root / "docs/library.md").read_text()
    sections = re.findall(r"^// \[([^\]]+)\]\n(.*?)(?=^// \[)", (root / "examples/guide.cpp").read_text(), re.S | re.M)
    blocks = re.findall(r"```cpp\n(.*?)```", page, re.S)
    for at, (name, text) in enumerate(sections):
        if at >= len(blocks) or blocks[at] != text:
            faults.append(f"docs/library.md: its block {at + 1} differs from the section [{name}] of examples/guide.cpp")
    if len(blocks) != len(sections):
        faults.append(f"docs/library.md: {len(blocks)} blocks for {len(sections)} sections of examples/guide.cpp")
    programs = [(root / f"examples/{name}_bridge.cpp").read_text() for name in ("eigen", "opencv")]
    if re.findall(r"```cpp\n(.*?)```", (root / "docs/bridges.md").read_text(), re.S) != programs:
        faults.append("docs/bridges.md: its blocks are not examples/eigen_bridge.cpp and examples/opencv_bridge.cpp")
    for fault in faults:
        print(fault)
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
