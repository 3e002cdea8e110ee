#!/usr/bin/env python3
"""Runs the tour's programs and compares what they print with the chapters of docs/tour.

    chapters_test.py SOURCE_ROOT PROGRAM...

The first ```text block of a chapter is what its program prints. Lines that begin with "~ " are measured: they are not
compared, but there are as many. Lines that begin with "gpu: " are printed where there is a CUDA device, real or emulated;
without one they are skipped, and counted.
"""
import pathlib
import re
import subprocess
import sys


def block_of(page):
    return re.search(r"^```text\n(.*?)^```", page, re.S | re.M)[1]


def difference(expected, printed):
    """The first line that differs, and whether lines for a GPU were missing."""
    wanted, got = expected.splitlines(), printed.splitlines()
    skipped = any(line.startswith("gpu: ") for line in wanted) and not any(line.startswith("gpu: ") for line in got)
    if skipped:
        wanted = [line for line in wanted if not line.startswith("gpu: ")]
    hide = lambda line: "~" if line.startswith("~ ") else line.rstrip()
    wanted, got = [hide(line) for line in wanted], [hide(line) for line in got]
    for number in range(max(len(wanted), len(got))):
        a, b = (lines[number] if number < len(lines) else "(no line)" for lines in (wanted, got))
        if a != b:
            return f"line {number + 1}: the chapter has\n  {a}\nthe program printed\n  {b}", skipped
    return None, skipped


def self_test():
    page = "a\n~ 3 ms\ngpu: yes\n"
    assert difference(page, "a\n~ 4 ms\ngpu: yes\n") == (None, False)
    assert difference(page, "a\n~ 4 ms\n") == (None, True)
    for wrong in ("b\n~ 4 ms\n", "a\n", "a\n~ 4 ms\ngpu: no\n", "a\n~ 4 ms\nb\n"):
        assert difference(page, wrong)[0], wrong


def main():
    self_test()
    docs = pathlib.Path(sys.argv[1]) / "docs/tour"
    passed = failed = skipped = 0
    for program in map(pathlib.Path, sys.argv[2:]):
        name = program.name.removeprefix("tour_").replace("_", "-")
        run = subprocess.run([program], capture_output=True, text=True, timeout=60)
        fault, without_gpu = difference(block_of((docs / f"{name}.md").read_text(encoding="utf-8")), run.stdout)
        if run.returncode != 0:
            fault = f"exit code {run.returncode}: {run.stderr}"
        if fault:
            print(f"{name}: {fault}")
        if without_gpu:
            print(f"skipped: the lines of {name} that need a CUDA device")
        passed, failed, skipped = passed + (not fault), failed + bool(fault), skipped + without_gpu
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
