#!/usr/bin/env python3
"""A training that is interrupted at any of its writes, and goes on, leaves the files of one that was not.

    every_write_test.py LATHE --run-fault=LIBRARY [--every]

Interrupted at a call: killed before it, killed in the middle of a write, stopped by SIGTERM, the call fails once (EIO), the disk
is full from there on (ENOSPC), nobody reads stdout any more (EPIPE). --every: at every call in every way, which takes ten minutes of
processor time for a run; without, a sample.
"""
import json
import pathlib
import re
import shutil
import sys

from driver import RUN_FAULT, SANITIZED, Skip, expect, lathe, main
from short_run import is_timed

EVERY = "--every" in sys.argv
STRIDE_OF_ROWS, STRIDE = (1, 1) if EVERY else (7, 23)  # of metrics, log and stdout, and of all else; no multiples of the number of ways

# Three batches of 8 images are an epoch. The first evaluation is the best until the last; each of them tells the schedule.
FLAGS = ["--dataset", "synthetic", "--synthetic-size", 24, "--model", "resnet8", "--batch-size", 8, "--augment", "crop,flip", "--image-size", 16,
         "--threads", 1, "--seed", 7, "--lr", 0.05, "--epochs", 3, "--log-every", 2, "--scheduler", "plateau", "--patience", 0, "--save-every", 1, "--keep", 100]

WAYS = {"write": ("kill", "torn", "term", "EIO", "ENOSPC"), "unlink": ("kill", "term"), "remove": ("kill", "term"), "close": ("kill", "term"),
        "ftruncate": ("kill", "term")}
WAYS_OTHERWISE = ("kill", "term", "EIO", "ENOSPC")  # open, fsync, rename, link, mkdir
WAYS_OF_STDOUT = ("kill", "term", "EIO", "ENOSPC", "EPIPE")


def train(cwd, *flags, **fault):
    """`run` in the folder `cwd`; `fault` for run_fault.cpp."""
    cwd.mkdir(exist_ok=True)
    env = {f"LATHE_RUN_{key.upper()}": str(value) for key, value in fault.items()}
    if env:
        env.update(LD_PRELOAD=RUN_FAULT, LATHE_RUN_FOLDER="run")
    return lathe("train", *FLAGS, "--run-dir", "run", "--resume", "auto", *flags, cwd=cwd, env=env)


def log_of(run):
    """The lines of the log, each whole and named once, without the time and without those that speak of an interruption."""
    lines = []
    for line in (run / "log.txt").read_text().splitlines(keepends=True):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S.*\n", line), line
        text = line[20:]
        about_it = re.match(r"lathe: |(warning: )?(stopped (in|after) step|going on from|this run is complete|[^ ]+: cannot |run holds no checkpoint)", text)
        if not about_it and text not in lines:
            lines.append(text)
    return lines


def files_of(run):
    """What a run leaves, without what is a matter of time: the rate in rows of metrics, and the times in the log."""
    files = {}
    for path in sorted(run.iterdir()):
        if path.name == "log.txt":
            files[path.name] = log_of(run)
        elif path.name == "metrics.jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            rates = [row["images_per_second"] for row in rows]
            assert all(rate is None or rate > 0 for rate in rates), rates  # none: all images were seen before the interruption
            files[path.name] = [{key: value for key, value in row.items() if not is_timed(key)} for row in rows]
        elif path.name == "metrics.csv":
            header, *rows = [line.split(",") for line in path.read_text().splitlines()]
            files[path.name] = [[value for column, value in zip(header, row, strict=True) if not is_timed(column)] for row in [header, *rows]]
        else:
            files[path.name] = path.read_bytes()
    return files


def different(run, whole):
    """What differs from the files of the whole run, "" for nothing."""
    try:
        files = files_of(run)
    except (AssertionError, ValueError) as fault:
        return repr(fault)
    for name in sorted({*files, *whole}):
        if name not in files:
            return f"{name} is missing"
        if name == "step-0.safetensors" or name.startswith("metrics-before-"):  # of a run that ended before its first step, or checkpoint
            continue
        if name not in whole:
            return f"{name} is left over"
        if files[name] != whole[name]:
            pairs = zip(files[name], whole[name])
            first = next((pair for pair in pairs if pair[0] != pair[1]), (len(files[name]), len(whole[name])))
            return f"{name}: {first[0]} instead of {first[1]}"
    return ""


def ways_of(name, call):
    if name == "stdout":
        return WAYS_OF_STDOUT
    return WAYS.get(call, WAYS_OTHERWISE)


def chosen(calls):
    """The interruptions to make, as (way, name, number)."""
    every = [(way, name, number, call) for name, number, call in calls for way in ways_of(name, call)]
    rows = [it for it in every if it[1] in ("metrics.jsonl", "metrics.csv", "log.txt", "stdout")]
    others = [it for it in every if it not in rows]
    return rows[::STRIDE_OF_ROWS] + others[::STRIDE]


def interrupt_everywhere(folder, flags=(), before=()):
    """`before`: flags of a part of the run that is done before it is interrupted."""
    if SANITIZED or not RUN_FAULT:
        raise Skip("a library is put in front of libc, which the sanitizers want for themselves")
    begun, whole, case = folder / "begun", folder / "whole", folder / "case"
    begun.mkdir()
    if before:
        expect(train(begun, *flags, *before), 0)
    shutil.copytree(begun, whole)
    expect(train(whole, *flags, trace=folder / "trace"), 0)
    calls = [(name, int(number), call) for name, number, call in map(str.split, (folder / "trace").read_text().splitlines())]
    files = files_of(whole / "run")
    rows = files["metrics.jsonl"]
    assert sum(row["split"] == "val" for row in rows) == 3 and len(files["metrics.csv"]) == 1 + len(rows) >= 7, rows

    wrong, ended = [], {}
    to_make = chosen(calls)
    for k, (way, name, number, call) in enumerate(to_make):
        if k % 100 == 99:
            print(f"{k + 1} of {len(to_make)} interruptions, {len(wrong)} with other files", flush=True)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(begun, case)
        result = train(case, *flags, fault=f"{way} {name} {number}")
        ended[result.returncode] = ended.get(result.returncode, 0) + 1
        again = train(case, *flags)
        difference = again.stderr if again.returncode != 0 else different(case / "run", files)
        if difference:
            wrong.append(f"{way} at {name} {number} ({call}), exit {result.returncode}: {difference[:300]}")
    print(f"{len(calls)} calls, {len(to_make)} interruptions; exit codes {ended}; {len(wrong)} with other files", flush=True)
    assert not wrong, "\n".join(wrong)
    return ended


def test_a_new_run(folder):
    ended = interrupt_everywhere(folder, ["--json"])
    assert {-9, 143, 1, 0} <= set(ended), ended  # killed, stopped, failed; 0: a write of the log that failed


def test_a_run_that_goes_on(folder):
    interrupt_everywhere(folder, before=["--stop-after", 4])


def test_a_stop_that_cannot_be_reported(folder):
    """In the middle of a mean: the row that --stop-after writes for who reads it now is not one of the run that goes on."""
    if SANITIZED or not RUN_FAULT:
        raise Skip("a library is put in front of libc, which the sanitizers want for themselves")
    expect(train(folder / "whole", "--json"), 0)
    expect(train(folder / "stopped", "--json", "--stop-after", 5, trace=folder / "trace"), 0)
    count = sum(line.startswith("stdout ") for line in (folder / "trace").read_text().splitlines())
    for number in (count - 1, count):  # that row; that the run has stopped
        case = folder / str(number)
        expect(train(case, "--json", "--stop-after", 5, fault=f"EPIPE stdout {number}"), 1, "stdout: closed")
        expect(train(case, "--json"), 0)
        assert not different(case / "run", files_of(folder / "whole" / "run"))


def test_the_look_at_the_test_images_at_the_end(folder):
    """With --val-split: its row comes after the last checkpoint and is no part of it. The run goes on to write it once."""
    if SANITIZED or not RUN_FAULT:
        raise Skip("a library is put in front of libc, which the sanitizers want for themselves")
    flags = ["--synthetic-size", 30, "--val-split", 0.2, "--early-stopping", 1, "--freeze", "conv1,bn1", "--head-lr", 0.02, "--json"]
    expect(train(folder / "whole", *flags, trace=folder / "trace"), 0)
    files = files_of(folder / "whole" / "run")
    assert [row["split"] for row in files["metrics.jsonl"]][-2:] == ["val", "test"], files["metrics.jsonl"]
    calls = [line.split() for line in (folder / "trace").read_text().splitlines()]
    wrong = []
    for name, back in (("metrics.jsonl", 1), ("metrics.csv", 1), ("stdout", 2), ("stdout", 1)):
        _, number, call = [call for call in calls if call[0] == name and call[2] == "write"][-back]
        for way in ways_of(name, call):
            case = folder / f"{name}-{back}-{way}"
            train(case, *flags, fault=f"{way} {name} {number}")
            expect(train(case, *flags), 0)
            wrong += [f"{way} at {name} {number}: {difference}" for difference in [different(case / "run", files)] if difference]
    assert not wrong, "\n".join(wrong)


def test_averages_and_loss_scales_without_step_files(folder):
    if not EVERY:
        raise Skip("this one runs with --every")
    interrupt_everywhere(folder, ["--ema", 0.9, "--amp", "fp16", "--init-scale", 2**18, "--accumulate", 2, "--optimizer", "adam", "--save-every", 0,
                                  "--keep", 1, "--json"])


main(globals())
