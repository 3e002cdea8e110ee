#!/usr/bin/env python3
"""A program that trains with train::Trainer (examples/fit_resumed.cpp) is killed at random moments and started again.

    fit_resumed_test.py PROGRAM [--lathe=LATHE] [--device=DEVICE] [--images=N] [--kills=N]

It ends with the checkpoints and rows of a run that nobody interrupted: on a device, and as two ranks that LATHE launches.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import tempfile
import time

TIMED = ("time", "images_per_second", "memory")


def rows(run):
    """The rows of metrics without what depends on time and memory."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not k.startswith(TIMED)} for line in lines]


def checkpoint(run):
    return (run / "last.safetensors").read_bytes()


def finish(command, run):
    subprocess.run([*command, run], check=True, timeout=300)


def kill_again_and_again(command, run, kills, seconds):
    """Ends the program at `kills` moments of the `seconds` that it takes.   → how many times it was there to be killed"""
    moments = random.Random(1)
    killed = 0
    for _ in range(kills):
        process = subprocess.Popen([*command, run], stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(moments.uniform(0, seconds))
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    return killed


def check(command, folder, kills, name):
    begin = time.monotonic()
    finish(command, folder / "whole")
    seconds = time.monotonic() - begin
    killed = kill_again_and_again(command, folder / "killed", kills, 2 * seconds / kills)
    for _ in range(3):  # ranks that have lost their launcher may still hold the folder
        try:
            finish(command, folder / "killed")
            break
        except subprocess.CalledProcessError:
            time.sleep(5)
    assert checkpoint(folder / "killed") == checkpoint(folder / "whole"), f"{name}: other bits after {killed} kills"
    assert rows(folder / "killed") == rows(folder / "whole"), f"{name}: other rows after {killed} kills"
    print(f"{name}: {seconds:.1f} s, killed {killed} times")
    return killed


def test_one_process_killed_at_random_moments(options, folder):
    wrapper = folder / "one.sh"  # the run folder is its last argument
    wrapper.write_text(f'#!/bin/sh\nexec "{options.program}" "$1" {options.device} {options.images}\n')
    wrapper.chmod(0o755)
    return check([wrapper], folder, options.kills, options.device)


def test_two_ranks_killed_at_random_moments(options, folder):
    return check([options.lathe, "launch", "-n", "2", options.program], folder, options.kills, "two ranks")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--lathe", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", default="400")
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    tests = [test_one_process_killed_at_random_moments]
    if options.lathe:
        tests.append(test_two_ranks_killed_at_random_moments)
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="lathe-fit-") as folder:
            assert test(options, pathlib.Path(folder)) > 0, "it ended before each kill"
    print(f"{len(tests)} passed, 0 failed, 0 skipped")


main()
