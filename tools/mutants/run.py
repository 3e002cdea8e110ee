#!/usr/bin/env python3
"""Plants slips in the source and says which of them the tests notice: for people and for a nightly run, not for CI.

    tools/mutants/run.py --seed 1 --count 100                 # of the whole library and the command
    tools/mutants/run.py --seed 1 --count 50 core data/sampler.cpp
    tools/mutants/run.py --seed 1 --count 50 --diff origin/main
    tools/mutants/run.py --report build/mutants/results.jsonl

A slip, or mutant, changes one line: operators.py has the kinds. All are built into one copy of the tree, in --work, each behind a switch
that MUTANT=<number> sets at run time; those that do not compile are left out. The tests run once without a mutant, which shows what each
case takes and which mutants it reaches. Then every mutant runs against the cases that reach it: first those of its own folder, with
--wide those of all folders. A mutant is

    killed          a case failed, or its program ended
    timed out       a case took five times as long as without it and 10 s more; counts as killed
    survived        cases reached it and none failed
    not reached     no case of the tests that ran came there
    equivalent      as equivalent.txt says, by hand
    not built       its source is in no program of the tests that ran; counts as none

Results come as JSON lines in --out, which an interrupted run goes on with when it is called again. The report is printed at the end.
Left out are headers, CUDA sources, and places that no switch can be in (places.py says which). Tests of tests/<folder> are nearest to
<folder>, those of tests/cli to tools/cli. Only tests that ctest knows in a folder of tests/ are asked. ninja, cmake and git must be there.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

import build
import operators
import programs
import report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ["core", "autograd", "ops", "nn", "optim", "data", "distributed", "graph", "profile", "train", "tools/cli"]
SETTINGS = ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -w", "-DLATHE_CUDA=OFF", "-DLATHE_UNITY=LIBRARY", "-DLATHE_PCH=ON"]


def log(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def changed_lines(root, revision):
    """{file: its lines that differ from a revision}"""
    text = subprocess.run(["git", "-C", root, "diff", "-U0", "--no-ext-diff", revision], check=True, text=True, capture_output=True).stdout
    lines, path = {}, None
    for line in text.splitlines():
        if line.startswith("+++ "):
            path = line[6:] if line.startswith("+++ b/") else None
        elif path and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            lines.setdefault(path, set()).update(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
    return lines


def sources(root, wanted):
    """The .cpp files of git below these folders or files, but for tests and examples."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--", *wanted], check=True, text=True, capture_output=True).stdout
    return [p for p in sorted(listed.split("\0")) if p.endswith(".cpp") and not p.startswith(("tests/", "examples/")) and (root / p).is_file()]


def candidates(root, paths, only=None):
    """All mutants of these files, by line: {(path, line): [mutant]}. Warns of a file that is not understood."""
    texts = {path: (root / path).read_text() for path in paths}
    codes = sorted({code for text in texts.values() for code in re.findall(r"\bExitCode::(k\w+)", text)})
    by_line = {}
    for path, text in texts.items():
        try:
            found = operators.mutants(path, text, codes)
        except ValueError as error:
            print(f"mutants: {path} is left out: {error}", file=sys.stderr)
            continue
        for mutant in found:
            if only is None or mutant.line in only.get(path, ()):
                by_line.setdefault((path, mutant.line), []).append(mutant)
    return by_line


def chosen(by_line, seed, count):
    """At most `count`, each on a line of its own: a line by chance, then a kind, then one of that kind."""
    draw = random.Random(seed)
    lines = sorted(by_line)
    draw.shuffle(lines)
    found = []
    for line in lines[:count]:
        kinds = sorted({m.kind for m in by_line[line]})
        kind = draw.choice(kinds)
        found.append(draw.choice([m for m in by_line[line] if m.kind == kind]))
    for number, mutant in enumerate(found, 1):
        mutant.id = number
    return found


def is_near(test, mutant):
    folders = pathlib.PurePath(mutant.path).parts
    return test.folder in (folders[1:2] if folders[0] == "tools" else folders[:1]) if len(folders) > 1 else True


class Judge:
    """Runs mutants against the cases that reach them."""

    def __init__(self, tests, results, wide):
        self.tests, self.results, self.wide, self.lock = tests, results, wide, threading.Lock()
        self.known = report.equivalents()

    def order(self, mutant):
        """(test, cases) to run: nearest tests first, among them those that take the shortest."""
        found = [(not is_near(test, mutant), sum(c.seconds for c in cases), test, cases) for test in self.tests
                 if (cases := test.reaching(mutant.id)) and (self.wide or is_near(test, mutant))]
        return [(test, cases) for *_, test, cases in sorted(found, key=lambda row: row[:2])]

    def judge(self, mutant):
        begin = time.monotonic()
        status, by, reached = self.verdict(mutant)
        with self.lock:
            self.results.add(mutant, status, by, time.monotonic() - begin, reached)
            log(f"{mutant.id} {status}{' by ' + by if by else ''}: {mutant.path}:{mutant.line} {mutant.kind}")

    def verdict(self, mutant):
        if mutant.key() in self.known:
            return report.EQUIVALENT, "", 0
        order = self.order(mutant)
        reached = sum(len(cases) for _, cases in order)
        for test, cases in order:
            run = test.run(mutant.id, cases, programs.limit_of(cases))
            if not run.ok:
                by = f"{test.name}: {run.by()}".rstrip(": ")
                return report.TIMED_OUT if run.timed_out else report.KILLED, by, reached
        return report.SURVIVED if order else report.NOT_REACHED, "", reached


def run(options):
    root = options.root
    only = changed_lines(root, options.diff) if options.diff else None
    paths = sources(root, options.paths or (sorted(only) if only is not None else FOLDERS))
    by_line = candidates(root, [p for p in paths if only is None or p in only], only)
    spare = options.count + options.count // 4  # for those that do not compile
    mutants = chosen(by_line, options.seed, spare)
    if not mutants:
        sys.exit(f"mutants: no place for a mutant in {' '.join(paths) or 'these files'}")
    mark = hashlib.sha256(json.dumps([(m.id, m.line, m.key()) for m in mutants]).encode()).hexdigest()[:12]
    results = report.Results(options.out, {"seed": options.seed, "count": options.count, "wide": options.wide, "mutants": mark})
    log(f"{len(mutants)} mutants of {sum(map(len, by_line.values()))} on {len(by_line)} lines of {len(paths)} files")

    copy = build.Copy(root, options.work, options.jobs, log)
    copy.fill({m.path for m in mutants})
    gone = {row["id"] for row in results.rows if row["status"] == report.NOT_COMPILED}
    copy.put([m for m in mutants if m.id not in gone])
    copy.configure(options.cmake or SETTINGS)
    tests = [t for t in programs.tests_of(copy.build_folder, copy.tree) if t.folder and re.search(options.tests, t.name)]
    tests = [t for t in tests if options.wide or any(is_near(t, m) for m in mutants)]
    log(f"builds {len(tests)} tests")
    left, dropped = copy.build([m for m in mutants if m.id not in gone], sorted({t for test in tests for t in test.targets(copy.build_folder)}))
    for mutant in dropped:
        results.add(mutant, report.NOT_COMPILED)
    unbuilt = copy.unbuilt(left)
    left = [m for m in left if m not in unbuilt]
    for mutant in unbuilt:
        if mutant.id not in results.done():
            results.add(mutant, report.NOT_BUILT)
    log(f"{len(left)} compile; runs the tests without a mutant")
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(lambda test: programs.baseline(test, log), tests))
        judge = Judge(tests, results, options.wide)
        done = results.done()
        for future in [pool.submit(judge.judge, m) for m in left[:options.count] if m.id not in done]:
            future.result()
    print(report.text(results.rows, results.run))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="folders or files of the tree")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--diff", metavar="REV", help="only lines that differ from this revision")
    parser.add_argument("--wide", action="store_true", help="then the tests of all folders")
    parser.add_argument("--tests", default="", metavar="REGEX", help="of ctest's names")
    parser.add_argument("--work", type=pathlib.Path, help="the copy and its build (default: build/mutants)")
    parser.add_argument("--out", type=pathlib.Path, help="default: results.jsonl in --work")
    parser.add_argument("--jobs", type=int, default=2, help="of the build")
    parser.add_argument("--at-once", type=int, default=1, help="tests at a time")
    parser.add_argument("--cmake", action="append", metavar="ARGUMENT", help="instead of " + " ".join(f"'{s}'" for s in SETTINGS))
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--report", type=pathlib.Path, metavar="RESULTS", help="prints the report of what is there, and runs nothing")
    options = parser.parse_args()
    if options.report:
        first, *rows = map(json.loads, options.report.read_text().splitlines())
        print(report.text(rows, first))
        return 0
    options.root = options.root.resolve()
    options.work = (options.work or options.root / "build/mutants").resolve()
    options.out = options.out or options.work / "results.jsonl"
    try:
        return run(options)
    except ValueError as error:
        sys.exit(f"mutants: {error}")


if __name__ == "__main__":
    sys.exit(main())
