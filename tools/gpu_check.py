#!/usr/bin/env python3
"""Everything that only a machine with a GPU can show, in eight minutes, in the order of what it is worth.

    tools/gpu_pack.sh build/release gpu-pack.tar.xz                     (where Lathe is built)
    tools/gpu_check.py --programs gpu-pack.tar.xz --out gpu-check       (on the machine with the GPU)

    gpu_check.py [--out FOLDER] [--programs ARCHIVE|FOLDER] [--seconds N] [--caches FILE] [--python PATH] [STEP...]
    gpu_check.py --dry-run        prints the budget of each step and their sum
    gpu_check.py --render FOLDER  makes the report again of what a run left that was killed

The steps, each with its budget and with what it writes:
{steps}

The pack holds these tools too, so the second line also works as tools/gpu_check.py of an unpacked pack, in an empty folder: then
--programs is that pack unless it is given. Without a pack the tree is built in build/gpu first, without warnings as errors and
without counting the time. cuDNN and cuBLAS come from the machine's CUDA toolkit or from PyTorch's wheels.

--out (default: $OUT, or build/gpu-check) gets at most 8 files. log.txt is what programs print, as they print it, and beside.txt what
the program beside the tests prints. report.md and report.json are made of these, again and again. algos.json is the convolution search's
file for both batches. caches.tar.gz is what PyTorch compiled: --caches gives it to the next run, which then need not compile. A kill
at any moment loses nothing that was printed; --render puts the last lines into the report.

No step runs beyond --seconds (480). $LATHE_DATA_ROOT has the images of `train`. The last line is "N passed, N failed, N skipped".
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from gpu import build, report, schedule, steps

ROOT = pathlib.Path(__file__).resolve().parent.parent


def budget():
    total = schedule.total(steps.PLAN)
    return "\n".join([*schedule.budget_lines(steps.PLAN), f"    in all {total} s"])


def commit_of(programs):
    for folder in (programs, ROOT):
        if folder and (folder / "commit").is_file():
            return (folder / "commit").read_text().strip()
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True, capture_output=True).stdout.strip()


def run(options, command):
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    out = report.Report(options.out, commit=commit_of(options.programs), command=command)
    found = steps.Steps(options, out, scratch)
    plan = [s for s in steps.PLAN if not options.steps or s.name in options.steps or s.name == "unpack"]
    order = schedule.Schedule(plan, found.actions(), out, options.seconds)
    found.schedule = order

    def stop(*_):
        """Ends at once. The programs under way end with this process."""
        out.event("result", result="ended by a signal", seconds=None)
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(143)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    if found.packed or order.prepare(build.STEP, lambda: build.build(found)):
        order.run()
    counts = [a + b for a, b in zip(found.test_totals, (0, order.failed, order.skipped))]
    print("{} passed, {} failed, {} skipped".format(*counts), flush=True)
    shutil.rmtree(scratch, ignore_errors=True)
    return 1 if counts[1] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.format(steps=budget()), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT") or ROOT / "build/gpu-check")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT if (ROOT / "commit").is_file() else None)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batches", default="512,128")
    parser.add_argument("--small-batch", type=int, default=64, help="of the steps with resnet8")
    parser.add_argument("--window", type=float, default=2, help="seconds for which a step is timed")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--caches", type=pathlib.Path, help="caches.tar.gz of an earlier run")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--render", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("steps", nargs="*", metavar="STEP")
    options = parser.parse_args()
    if unknown := set(options.steps) - {step.name for step in steps.PLAN}:
        parser.error(f"no such step: {' '.join(sorted(unknown))}")
    if not re.fullmatch(r"\d+,\d+", options.batches):
        parser.error(f"--batches: expected two numbers, such as 512,128, got {options.batches}")
    for path in (options.programs, options.caches, options.render):
        if path and not path.exists():
            parser.error(f"there is no {path}")
    if options.dry_run:
        print(budget())
        return 0
    if options.render:
        report.render(options.render)
        return 0
    options.out, options.batches = pathlib.Path(options.out), [int(n) for n in options.batches.split(",")]
    words = sys.argv[1:len(sys.argv) - len(options.steps)]
    return run(options, " ".join(["tools/gpu_check.py", *words]))


if __name__ == "__main__":
    sys.exit(main())
