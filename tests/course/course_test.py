#!/usr/bin/env python3
"""Assignments of course/: the stubs compile and fail, the solution and other right ones pass, and each of ten or more wrong solutions is
refused by the test that names what is wrong with it.

    course_test.py SOURCE_ROOT COMPILER [NUMBER...] [--verbose]    # all, if no number is given; --verbose prints what refused what

As it is handed out an assignment is compiled without making a program. One program has the stubs, the solution and its variants; a
variable of the environment chooses which of them runs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CHOICE = """#pragma once
#include <cstdlib>
namespace course {
inline const int variant = std::atoi(std::getenv("COURSE_VARIANT"));
}
"""


def compiled(compiler, folder, *options):
    """None if it compiles, else what the compiler says."""
    done = subprocess.run([compiler, "-std=c++20", *options, "-pthread", "-I", folder, "-o", folder / "test", folder / "test.cpp"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode else None


def points_of(folder, variant=0, seconds=20, only=""):
    """({test: points}, {test: what it says}) of a run of the tests whose names have the text `only`. Each may take `seconds`."""
    words = {"COURSE_VARIANT": str(variant), "COURSE_SECONDS": str(seconds), "COURSE_ONLY": only}
    out = subprocess.run([folder / "test"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **words}).stdout
    lines = re.findall(r"^  (\d+)/\d+  (.*)\n(?:         (.*)\n)?", out, re.M)
    return {name: int(points) for points, name, _ in lines}, {name: said for _, name, said in lines}


def faults_of(make, one, compiler, work):
    names = {name for _, name in one.tests()}
    if (points := sum(points for points, _ in one.tests())) != make.POINTS:
        yield f"its tests have {points} points"
    if len(one.data["wrong"]) < 10 or {wrong["refused_by"] for wrong in one.data["wrong"]} - names:
        yield "has fewer than ten wrong solutions, or one that no test of it refuses"
    bodies = [text[slice(*make.place_of(cut, text))] for cut in one.data["cut"] for text in [make.source_of(cut["file"], one).read_text(encoding="utf-8")]]
    for variant in one.variants():
        if (count := sum(body.count(variant["old"]) for body in bodies)) != 1 and "in" not in variant:
            yield f"“{variant['name']}” changes what is cut in {count} places"

    stubs, whole = work / "stubs", work / "whole"
    make.write_folder(one, stubs)
    if error := compiled(compiler, stubs, "-fsyntax-only"):
        yield f"the stubs do not compile:\n{error}"
        return
    make.write_folder(one, whole, solution=True)
    for name in make.needed_files(one):
        (whole / name).write_text(make.with_variants(name, (whole / name).read_text(encoding="utf-8"), one), encoding="utf-8")
    (whole / "variant.h").write_text(CHOICE, encoding="utf-8")  # one for all folders: clang would take a second copy for another header
    if error := compiled(compiler, whole, "-O2" if one.data.get("timed") else "-O1"):
        yield f"the variants do not compile:\n{error}"
        return
    got, _ = points_of(whole, -1)
    if set(got) != names or sum(got.values()) > make.POINTS // 4:
        yield f"the stubs get {got}"
    if (sum(points_of(whole)[0].values())) != make.POINTS:
        yield f"the solution gets {points_of(whole)}"
    for number, wrong in enumerate(one.data["wrong"], 1):
        got, said = points_of(whole, number, seconds=1, only=wrong["refused_by"])
        if got.get(wrong["refused_by"]) != 0:
            others, _ = points_of(whole, number, seconds=1)
            yield f"“{wrong['name']}” is not refused by “{wrong['refused_by']}” but by {[name for name in others if others[name] == 0]}"
        elif "--verbose" in sys.argv:
            print(f"{wrong['name']}: {said[wrong['refused_by']]}")
    for number, right in enumerate(one.data.get("right", []), len(one.data["wrong"]) + 1):
        got, said = points_of(whole, number)
        if sum(got.values()) != make.POINTS:
            yield f"“{right['name']}” is right and fails: {said}"
        elif "--verbose" in sys.argv:
            print(f"{right['name']}: passes")


def main():
    root, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    sys.path.insert(0, str(root / "course"))
    import make
    chosen = [int(word) for word in sys.argv[3:] if word.isdigit()]
    counts = {"passed": 0, "failed": 0}
    for one in make.assignments():
        if chosen and one.number not in chosen:
            continue
        with tempfile.TemporaryDirectory(prefix="lathe-course-") as folder:
            try:
                faults = list(faults_of(make, one, compiler, pathlib.Path(folder).resolve()))
            except ValueError as error:  # a part to be cut is not there
                faults = [error]
        for fault in faults:
            print(f"course/{one.folder.name}: {fault}")
        counts["failed" if faults else "passed"] += 1
    print("{passed} passed, {failed} failed, 0 skipped".format(**counts))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
