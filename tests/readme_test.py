#!/usr/bin/env python3
"""The C++ example in README.md is examples/quickstart.cpp, word for word (which the tests compile and run). check_docs.py
checks the rest of the page.

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
    for fault in faults:
        print(fault)
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
