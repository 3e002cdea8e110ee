#!/usr/bin/env python3
"""One process at a time trains in a run folder, and SIGUSR1 has it save.

    run_lock_test.py LATHE [--sanitized]
"""
import fcntl
import os
import signal
import time

from driver import expect, expect_one_line, lathe, main, start
from short_run import TINY, log_of, rows_of, train


def test_one_process_at_a_time_and_signals_that_save(folder):
    long = [*TINY, "--epochs", 1000, "--run-dir"]
    for run, number, code in (("a", signal.SIGHUP, 129), ("b", signal.SIGTERM, 1)):  # b's files are missed at the end
        process = start("train", *long, run, "--save-every", 1)
        while not (folder / run / "last.safetensors").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        expect_one_line(lathe("train", "--resume", run, "--quiet"), 2, f"{run}: another process is training in this folder")
        if run == "b":  # with no file but the checkpoint left it is still held
            for name in ("log.txt", "config.toml", "env.json", "metrics.jsonl", "metrics.csv"):
                (folder / run / name).unlink()
            expect_one_line(lathe("train", "--resume", run, "--quiet"), 2, "another process")
            expect_one_line(lathe("train", "--resume", "auto", "--run-dir", run, "--quiet"), 2, "another process")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code and f"{run}/last.safetensors" in errors, (process.returncode, errors)
        if run == "b":
            continue
        assert len(rows_of(run)) >= 1
        step = int(lathe("train", "--resume", run, "--stop-after", 1, "--json").stdout.splitlines()[-1].partition('"steps":')[2].partition(",")[0])
        expect(lathe("train", "--resume", run, "--stop-after", step + 3, "--quiet"), 0)
        assert f"stopped after step {step + 3}" in log_of(run)


def test_sigusr1_saves_and_goes_on(folder):
    # The epoch is long: nothing else saves.
    process = start("train", *TINY, "--synthetic-size", 100000, "--epochs", 1, "--run-dir", "a")
    metrics, last = folder / "a/metrics.jsonl", folder / "a/last.safetensors"

    def wait_until(done):
        while not done():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)

    wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0)
    assert not last.exists()
    for saves in (1, 2):
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: log_of("a").count("SIGUSR1: saved a/last.safetensors of step ") == saves)
        assert last.exists()
        last.unlink()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    expect(lathe("train", "--resume", "a", "--stop-after", 1, "--quiet"), 0)


def test_either_lock_of_a_folder_is_enough(folder):
    expect(train("a", "--stop-after", 1), 0)
    for held in ("a", "a/log.txt"):  # over NFS only that of the file is seen by other machines
        descriptor = os.open(held, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        expect_one_line(lathe("train", "--resume", "a", "--quiet"), 2, "a: another process is training in this folder")
        os.close(descriptor)
    expect(lathe("train", "--resume", "a", "--stop-after", 2, "--quiet"), 0)


main(globals())
