#!/usr/bin/env python3
"""Checks that the product writes a training step once, in train/: no other file takes gradients and then has an optimiser use them.

    check_step.py SOURCE_ROOT

Examples, benchmarks and tests may: they show what a step is, or look at its parts.
"""
import pathlib
import re
import sys

from tree_files import paths_below

FOLDERS, SUFFIXES = ("autograd", "core", "data", "distributed", "graph", "nn", "ops", "optim", "profile", "tools/cli"), {".cpp", ".cu", ".h"}
GRADIENTS = re.compile(r"(?:\.|->)backward\(\)")
UPDATE = re.compile(r"(?:\.|->)(?:step|update)\(")
STEP = re.compile(r"\b\w*step_?(?:\.|->)(?:forward|backward|update)\(")  # the parts of a train::Step


def steps_in(text):
    """The lines of each backward() that an update follows within twenty lines."""
    lines = [STEP.sub("", re.sub(r"//.*", "", line)) for line in text.splitlines()]
    return [number for number, line in enumerate(lines, 1)
            if GRADIENTS.search(line) and any(UPDATE.search(later) for later in lines[number - 1:number + 20])]


def self_test():
    assert steps_in("loss.backward();\nif (clips) clip();\noptimizer.step();") == [1]
    assert steps_in("scaler.scale(loss).backward();\n  scaler->step(*optimizer);") == [1]
    assert not steps_in("loss.backward();\nreport();")
    assert not steps_in("// loss.backward();\noptimizer.step();")
    assert not steps_in("train_step.forward(batch);\ntrain_step.backward();\ntrain_step.update();")


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    files = paths_below(root, FOLDERS, SUFFIXES)
    faults = [f"{path.relative_to(root)}:{number}: a training step by hand; train/step.h makes it"
              for path in files for number in steps_in(path.read_text(encoding="utf-8"))]
    print(*faults, sep="\n")
    print(f"{len(files)} files")
    print(f"{int(not faults)} passed, {int(bool(faults))} failed, 0 skipped")
    sys.exit(bool(faults))


main()
