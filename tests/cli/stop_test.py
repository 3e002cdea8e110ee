#!/usr/bin/env python3
"""What ends a training from outside, and what it leaves: signals, a closed stdout, a full disk.

    stop_test.py LATHE [--sanitized] [--save-fault=LIBRARY]
"""
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

from driver import LATHE, SANITIZED, SAVE_FAULT, Skip, environment, expect, expect_one_line, lathe, main, start, with_fault
from runs import TINY, safetensors_header, train, write_png


def wait_for_step(process, run):
    """Until the run has written a row of metrics."""
    path = pathlib.Path(run) / "metrics.jsonl"
    for _ in range(3000):
        if path.exists() and path.stat().st_size > 0:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("no step within a minute")


def stop_by(number, expected, run):
    process = start("train", *TINY, "--epochs", 1000, "--log-every", 1, "--run-dir", run)
    wait_for_step(process, run)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == expected, (process.returncode, errors)
    assert f"{run}/last.safetensors holds the checkpoint, from which lathe train --resume {run} continues" in errors, errors
    expect(lathe("eval", "--run-dir", run, "--weights", f"{run}/last.safetensors", "--quiet"), 0)
    last = safetensors_header(f"{run}/last.safetensors")["__metadata__"]
    assert int(last["lathe.step"]) >= 1


def test_ctrl_c_saves_and_exits_130(folder):
    stop_by(signal.SIGINT, 130, "a")


def held_up(folder, run, *flags):
    """A training whose first row of --json waits in a pipe that is full: its folder is there, and no step is made. With the
    end of the pipe to read from."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b" " * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    process = start("train", *TINY, "--epochs", 1000, *flags, "--run-dir", run, "--json", stdout=write)
    os.close(write)
    log = folder / run / "log.txt"
    while not (log.exists() and "training images" in log.read_text()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    return process, read


def test_a_signal_before_the_first_step_saves_too(folder):
    for run, number, code in (("a", signal.SIGINT, 130), ("b", signal.SIGTERM, 143)):
        process, read = held_up(folder, run)
        process.send_signal(number)
        time.sleep(0.02)  # else the signal may come in the first step, which is as well
        while os.read(read, 1 << 16):
            pass
        os.close(read)
        errors = process.stderr.read()
        assert process.wait(timeout=60) == code and f"{run}/last.safetensors" in errors, (process.returncode, errors)
        assert not list((folder / run).glob("*.tmp*"))
        expect(lathe("train", "--resume", run, "--stop-after", 2, "--quiet"), 0)
        assert "by --stop-after" in (folder / run / "log.txt").read_text()


def test_a_signal_does_not_wait_for_the_batch_that_is_being_read(folder):
    write_png(folder / "set/train/a/0.png", 3000, [bytes(9000)] * 3000)
    for part, kind in (("train", "b"), ("test", "a"), ("test", "b")):
        (folder / "set" / part / kind).mkdir(parents=True)
    for part, kind, count in (("train", "a", 64), ("train", "b", 64), ("test", "a", 1), ("test", "b", 1)):
        for i in range(count):
            if (part, kind, i) != ("train", "a", 0):
                os.link("set/train/a/0.png", f"set/{part}/{kind}/{i}.png")
    flags = ["train", "--data-root", "set", "--dataset", "folder", "--model", "resnet8", "--image-size", 8, "--batch-size", 128]
    for workers in (0, 1):  # reading the only batch takes seconds
        process = start(*flags, "--run-dir", f"r{workers}", "--workers", workers)
        log = folder / f"r{workers}/log.txt"
        while not (log.exists() and "training images" in log.read_text()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 143 and "stopped after step 0 by SIGTERM" in errors, errors
        expect(lathe("train", "--resume", f"r{workers}", "--dry-run"), 0)


def test_ctrl_c_while_an_epoch_is_saved_counts(folder):
    for run in "abc":
        process = start("train", *TINY, "--synthetic-size", 50, "--epochs", 100000, "--run-dir", run)
        while not (folder / run / "last.safetensors").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.0005)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130 and f"{run}/last.safetensors" in errors, (process.returncode, errors)


def test_sigterm_saves_and_exits_143(folder):
    stop_by(signal.SIGTERM, 143, "a")


def test_a_second_signal_stops_at_once(folder):
    """Held up as in a step that takes long: the first signal is noted, and the second ends the process."""
    def has(process, number, *fields):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return any(int(status.partition(field)[2].split()[0], 16) >> (number - 1) & 1 for field in fields)
    for run, second in (("a", signal.SIGINT), ("b", signal.SIGTERM)):
        process, read = held_up(folder, run)
        assert has(process, signal.SIGINT, "SigCgt:")
        process.send_signal(signal.SIGINT)
        while has(process, signal.SIGINT, "SigPnd:", "ShdPnd:"):
            time.sleep(0.005)
        time.sleep(0.1)
        assert process.poll() is None, "the first one waits"
        process.send_signal(second)
        assert process.wait(timeout=60) == -second
        os.close(read)


def test_a_run_folder_that_is_emptied_is_an_error(folder):
    """What the folder should hold at the end is missed, however the training ends."""
    for run, flags, code in (("a", ["--max-steps", 2], None), ("b", ["--stop-after", 1], None), ("c", [], signal.SIGTERM)):
        process, read = held_up(folder, run, *flags)
        for path in (folder / run).iterdir():
            path.unlink()
        if code:
            process.send_signal(code)
            time.sleep(0.02)
        while os.read(read, 1 << 16):
            pass
        os.close(read)
        errors = process.stderr.read()
        assert process.wait(timeout=60) == 1, (process.returncode, errors)
        assert f"lathe: {run}: metrics.jsonl, metrics.csv, config.toml, env.json, log.txt were removed while the training went on" in errors, errors
        assert safetensors_header(f"{run}/last.safetensors")
    process, read = held_up(folder, "d", "--max-steps", 2)
    for path in (folder / "d").iterdir():
        path.unlink()
    (folder / "d").rmdir()
    while os.read(read, 1 << 16):
        pass
    os.close(read)
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 1 and "d/" in errors and "No such file or directory" in errors, (process.returncode, errors)


def test_a_signal_while_a_result_is_written_leaves_nothing(folder):
    """And what a kill leaves goes with the next result of that name."""
    expect(train("--max-steps", 1, "--run-dir", "a", "--quiet"), 0)
    convert = ["ckpt", "convert", "a/best.safetensors", "w.safetensors"]
    for kind, number in (("term", signal.SIGTERM), ("kill", signal.SIGKILL)):
        left = 0
        for call in range(1, 100):
            result = with_fault(f"{kind}:{call}", *convert)
            if "no such call" in result.stderr:
                break
            assert result.returncode == -number, (kind, call, result)
            now = [path.name for path in folder.iterdir() if ".tmp" in path.name]
            assert len(now) <= (kind == "kill"), (kind, call, now)
            left += len(now)
        assert call > 5 and (left > 0) == (kind == "kill"), (kind, call, left)
        expect(lathe(*convert), 0)
        assert sorted(path.name for path in folder.iterdir()) == ["a", "w.safetensors"]


def test_too_many_open_files_are_no_mistake_of_the_call(folder):
    if SANITIZED:
        raise Skip("UndefinedBehaviorSanitizer opens a pipe to look at an object, and takes it for a wrong one where it cannot")
    expect(train("--max-steps", 1, "--run-dir", "a", "--quiet"), 0)

    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
    expect_one_line(lathe("train", "--resume", "a", "--epochs", 2, "--quiet", preexec_fn=few_files), 1, "a: cannot be locked", "Too many open files")


def test_a_closed_stdout_saves_and_exits_1(folder):
    process = start("train", *TINY, "--epochs", 1000, "--run-dir", "a")
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 1, errors
    assert "lathe: stdout: closed" in errors and "a/last.safetensors" in errors
    assert safetensors_header("a/last.safetensors")
    command = " ".join(map(str, ["exec", LATHE, "train", *TINY, "--epochs", 1000, "--run-dir", "b", ">&-"]))
    result = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60, env=environment())
    assert result.returncode == 1 and "stdout: closed" in result.stderr, result
    with open("/dev/full", "w") as full:
        expect(train("--epochs", 1000, "--run-dir", "c", stdout=full), 1, "stdout: No space left on device", "c/last.safetensors")
        expect(train("--run-dir", "d", "--json", stdout=full), 1, "stdout: No space left on device", "d/last.safetensors")  # its first row


def small_files(bytes):
    """A limit on file sizes (ulimit -f): a write over it fails, and a signal comes that ends a process."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, resource.RLIM_INFINITY))
    return limit


def test_a_disk_that_fills_up_keeps_the_old_file(folder):
    """A limit on file sizes stands for a full disk: the weights do not fit, everything else does."""
    for run, flags in (("a", ["--quiet"]), ("b", ["--json", "--quiet"])):
        result = train("--max-steps", 1, "--run-dir", run, *flags, preexec_fn=small_files(200_000))
        expect_one_line(result, 1, f"{run}/best.safetensors", "File too large")
        assert not [p for p in pathlib.Path(run).iterdir() if "safetensors" in p.name], "nothing half-written, no temporary file"


def test_nothing_is_called_saved_before_it_is(folder):
    """An error at any call of the saves at an epoch's end: then the line that says "saved" is not there."""
    files = set()
    for call in range(1, 100):
        result = with_fault(f"EIO:{call}", "train", *TINY, "--max-steps", 1, "--run-dir", f"run{call}")
        if result.returncode == 0:
            assert result.stdout.count("saved best") == 1, result.stdout
            if "no such call" in result.stderr:
                break
            continue  # the call is none that fails
        expect(result, 1, "Input/output error")
        files |= set(re.findall(r"\w+\.safetensors", result.stderr))
        assert "saved" not in result.stdout, (call, result.stdout, result.stderr)
    assert files == {"best.safetensors", "last.safetensors"} and call > 5, (files, call)


def test_a_signal_that_a_library_takes_when_it_is_loaded_is_given_back(folder):
    """UCX, which Gloo brings along on Debian 13, takes SIGHUP to wait for a debugger."""
    if SANITIZED or not SAVE_FAULT:
        raise Skip("without the library that takes it")
    taken = {"LD_PRELOAD": SAVE_FAULT, "LATHE_SAVE_FAULT": "HUP"}
    job = ["launch", "-n", 1, "sh", "-c", "echo up; exec sleep 100"]
    process = start(*job, env=taken, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.stdout.readline()
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    assert int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16) & 1, f"SIGHUP is not ignored any more:\n{status}"
    process.terminate()


def test_a_stdout_over_the_limit_on_file_sizes_exits_1(folder):
    with open("out", "w") as out:
        expect_one_line(lathe("info", stdout=out, preexec_fn=small_files(10)), 1, "stdout: File too large")


main(globals())
