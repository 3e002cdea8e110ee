#!/usr/bin/env python3
"""Checks that tiny/ stays what its README says: small, alone, and beside the real one.

    check_tiny.py SOURCE_ROOT

- Its C++ has fewer than 2,000 lines and includes the standard library and itself.
- Nothing but tests/tiny and course/, whose assignments are parts of it, includes it.
- Its README has at most 300 words and names every source.
- Each header ends with "What the real one adds, and why", which names files. tests/check_docs.py looks whether they exist.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tree_files import tree_files  # noqa: E402

SOURCES = (".h", ".cuh", ".cpp", ".cu")
END = re.compile(r"^}  // namespace tiny\n\n// What the real one adds, and why\n((?://.*\n)+)\Z", re.M)


def faults_of(texts, readme):
    """texts: path → text of every source of the tree."""
    own = {name.partition("/")[2]: text for name, text in texts.items() if name.startswith("tiny/")}
    if (lines := sum(text.count("\n") for text in own.values())) >= 2000:
        yield f"tiny/ has {lines} lines"
    for name, text in own.items():
        for quoted in re.findall(r'^#include "([^"]+)"', text, re.M):
            if quoted not in own:
                yield f"tiny/{name} includes {quoted}"
        if not re.search(rf"\({re.escape(name)}\)", readme):
            yield f"tiny/README.md does not name {name}"
        end = END.search(text)
        if name.endswith(".h") and not (end and re.search(r"\w+/\w+\.\w+", end[1])):
            yield f"tiny/{name} does not end with what the real one adds"
    for name, text in texts.items():
        if not name.startswith(("tiny/", "tests/tiny/", "course/")) and re.search(r'^#include ".*\btiny/', text, re.M):
            yield f"{name} includes tiny/"
    if (words := len(readme.split())) > 300:
        yield f"tiny/README.md has {words} words"


def self_test():
    """The checker must see each kind of fault."""
    end = "}  // namespace tiny\n\n// What the real one adds, and why\n// - core/tensor.h: more.\n"
    faults = lambda text, readme="[a.h](a.h)", name="tiny/a.h": list(faults_of({"tiny/a.h": end, name: text}, readme))
    assert not faults(end) and faults(end, "a.h") and faults(end, "[a.h](a.h)" + " x" * 300)
    assert faults(end.replace("core/tensor.h", "more")) and faults(end + "int x;\n") and faults('#include "lathe/core/tensor.h"\n' + end)
    assert faults("\n" * 2000 + end) and faults('#include "../tiny/a.h"\n', name="core/x.cpp")
    assert not faults('#include "../../tiny/a.h"\n', name="tests/tiny/x.cpp")


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    texts = {name: (root / name).read_text(encoding="utf-8") for name in tree_files(root) if name.endswith(SOURCES)}
    assert "tiny/main.cpp" in texts, f"no tiny/ under {root}"
    found = list(faults_of(texts, (root / "tiny/README.md").read_text(encoding="utf-8")))
    print("\n".join(found))
    print(f"{0 if found else 1} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
