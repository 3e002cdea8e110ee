#!/usr/bin/env python3
"""Interrupts trainings everywhere and compares what they end with: `lathe ckpt verify-resume` for every position of a run
of three epochs, each optimiser, precision and number of workers, the resumed half in a new process each time. By hand: it
takes some minutes. tests/cli/resume_test.py does the same with several interruptions in one run.

    resume_matrix.py build/release/bin/lathe [FLAGS of train...]
"""
import itertools
import json
import subprocess
import sys

# 50 images in batches of 8: an epoch has 7 steps.
TRAINING = ["--dataset", "synthetic", "--synthetic-size", "50", "--model", "resnet8", "--batch-size", "8", "--augment", "crop,flip",
            "--threads", "1", "--lr", "0.01", "--epochs", "3", "--steps", "21"]
POSITIONS = (1, 3, 6, 7, 8, 10, 13, 14, 15, 20)  # the first step, inside, the borders of epochs and both sides of them
MATRIX = {"--optimizer": ("sgd", "adam"), "--amp": ("off", "bf16"), "--workers": ("0", "4")}


def verify(lathe, flags):
    """→ the parts that are the same in both trainings, and all."""
    run = subprocess.run([lathe, "ckpt", "verify-resume", *TRAINING, *flags, "--json"], stdout=subprocess.PIPE, text=True)
    parts = [row for row in map(json.loads, run.stdout.splitlines()) if "identical" in row and "part" in row]
    if run.returncode not in (0, 7) or not parts:
        sys.exit(f"{' '.join(run.args)}: exit {run.returncode}")
    return [row["part"] for row in parts if row["identical"]], [row["part"] for row in parts]


def main():
    lathe, *more = sys.argv[1:]
    differing = 0
    for values in itertools.product(*MATRIX.values()):
        flags = [word for pair in zip(MATRIX, values) for word in pair]
        same = 0
        for position in POSITIONS:
            identical, parts = verify(lathe, [*flags, "--interrupt-at", str(position), *more])
            same += identical == parts
            if identical != parts:
                print(f"  after step {position}: {', '.join(part for part in parts if part not in identical)} differ")
        differing += len(POSITIONS) - same
        print(f"{' '.join(flags):<45} {same} of {len(POSITIONS)} positions end with the same SHA-256 of {', '.join(parts)}", flush=True)
    sys.exit(7 if differing else 0)


main()
