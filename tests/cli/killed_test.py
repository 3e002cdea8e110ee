#!/usr/bin/env python3
"""Training that is killed, or whose disk fails, at any moment leaves a whole checkpoint, goes on from it and ends where
the uninterrupted one ends, bit by bit.

    killed_test.py LATHE [--sanitized] [--save-fault=LIBRARY]
"""
import json
import pathlib
import random
import shutil
import signal
import time

from driver import SANITIZED, SAVE_FAULT, Skip, expect, expect_one_line, lathe, main, start, with_fault
from short_run import TINY, check_equal, last_of, train


def test_killed_at_twenty_moments_it_ends_as_if_it_was_not(folder):
    flags = ["--image-size", 16 if SANITIZED else 32, "--synthetic-size", 300, "--save-every", 2]  # 38 steps are an epoch
    expect(train("whole", *flags), 0)
    draw = random.Random(7)
    run, kills = ["a", *flags, "--resume", "auto"], 0

    def rows():
        metrics = pathlib.Path("a/metrics.jsonl")
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0
    while kills < (5 if SANITIZED else 20):
        before = rows()
        process = start("train", *TINY, "--run-dir", *run)
        while kills % 4 and rows() <= before and process.poll() is None:  # every fourth one dies while it starts
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.03))
        process.kill()
        process.communicate()
        if process.returncode == 0:  # it had come to the end; the next one begins anew
            check_equal("a", "whole")
            shutil.rmtree("a")
        else:
            assert process.returncode == -signal.SIGKILL
            kills += 1
    expect(train(*run), 0)
    check_equal("a", "whole")
    assert not list(pathlib.Path("a").glob("*.tmp*"))


def test_killed_between_the_last_step_and_the_end_of_its_epoch(folder):
    """The checkpoint of the last step is inside of the epoch: metrics, evaluation and the epoch's end are still to come."""
    prepare_for_faults(folder)
    for step in (7, 21):
        expect(train("a", "--stop-after", step - 1), 0)
        # Its save takes eight calls or nine; that of the best or the last follows.
        result = with_fault("kill:11", "train", "--run-dir", "a", "--resume", "auto", "--save-every", 1, "--quiet")
        assert result.returncode == -signal.SIGKILL, result
        shown = lathe("ckpt", "show", "a/last.safetensors", "--json").stdout.splitlines()
        assert json.loads(shown[-1])["lathe.step"] == str(step), shown[-1]
        expect(train("a", "--resume", "auto"), 0)
        check_equal("a", "whole")
        shutil.rmtree("a")


def prepare_for_faults(folder):
    if SANITIZED or not SAVE_FAULT:
        raise Skip("a library is put in front of libc, which the sanitizers want for themselves")
    expect(train("whole"), 0)
    expect(train("before", "--stop-after", 8), 0)
    shutil.copytree("before", "after")
    expect(train("after", "--resume", "auto", "--stop-after", 9), 0)
    return {last_of("before"): "old", last_of("after"): "new"}


def test_killed_at_every_system_call_of_a_save(folder):
    """Of the save at step 9, right before the n-th call that touches a checkpoint."""
    allowed = prepare_for_faults(folder)
    held = []
    for n in range(1, 100):
        shutil.rmtree("a", ignore_errors=True)
        shutil.copytree("before", "a")
        result = with_fault(f"kill:{n}", "train", *TINY, "--run-dir", "a", "--resume", "auto", "--stop-after", 9)
        if result.returncode == 0:
            break
        assert result.returncode == -signal.SIGKILL, result
        held.append(allowed[last_of("a")])  # the name holds one of the two, whole
        if n % 3 == 0:
            expect(train("a", "--resume", "auto"), 0)
            check_equal("a", "whole")
    assert held[0] == "old" and held[-1] == "new" and held == sorted(held, reverse=True) and len(held) >= 8, held


def test_a_disk_that_fails_when_it_is_looked_at(folder):
    """Whichever look fails, nothing is taken for missing."""
    expect(train("a", "--stop-after", 5, "--keep", 2), 0)
    pathlib.Path("a/best.safetensors").write_bytes(last_of("a"))
    metrics, last = pathlib.Path("a/metrics.jsonl").read_bytes(), last_of("a")
    for n, *call in ((1, "eval", "--run-dir", "a"), (1, "predict", "--run-dir", "a"), (1, "train", "--resume", "a"), (2, "train", "--resume", "a")):
        result = with_fault(f"STAT:{n}", *call, *(["--quiet"] if call[0] != "predict" else []))
        expect_one_line(result, 3, f"a/{'last' if 'train' in call and n == 1 else 'best'}.safetensors: cannot look at: Input/output error")
        assert pathlib.Path("a/metrics.jsonl").read_bytes() == metrics and last_of("a") == last, (n, call)
    pathlib.Path("mine.pack").write_bytes(b"not a packed file")
    for n in range(1, 10):
        result = with_fault(f"STAT:{n}", "data", "prepare", "mine.pack", "--dataset", "synthetic", "--synthetic-size", 10, "--image-size", 4)
        assert result.returncode in (1, 2), (n, result)
        assert pathlib.Path("mine.pack").read_bytes() == b"not a packed file", n
        if "no such call" in result.stderr:
            break


def test_a_disk_that_fails_at_any_call_of_a_save(folder):
    """ENOSPC and EIO end the run with the cause, the old file and no other; EINTR and short writes are gone on from."""
    allowed = prepare_for_faults(folder)
    for fault in ("ENOSPC", "EIO", "EINTR", "SHORT"):
        failures = 0
        for n in range(1, 100):
            shutil.rmtree("a", ignore_errors=True)
            shutil.copytree("before", "a")
            result = with_fault(f"{fault}:{n}", "train", *TINY, "--run-dir", "a", "--resume", "auto", "--stop-after", 9)
            state = allowed[last_of("a")]
            assert not list(pathlib.Path("a").glob("*.tmp*")), (fault, n)
            if "no such call" in result.stderr:
                break
            if result.returncode != 0:
                failures += 1
                assert fault in ("ENOSPC", "EIO"), (fault, n, result.stderr)
                expect_one_line(result, 1, "a/last.safetensors", {"ENOSPC": "No space left on device", "EIO": "Input/output error"}[fault])
            else:
                assert state == "new", (fault, n)
        assert n > 3 and (failures >= 4) == (fault in ("ENOSPC", "EIO")), (fault, n, failures)
        expect(train("a", "--resume", "auto"), 0)  # the retry
        check_equal("a", "whole")


main(globals())
