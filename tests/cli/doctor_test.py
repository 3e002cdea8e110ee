#!/usr/bin/env python3
"""lathe doctor, seen from outside: what it finds, what it leaves, how it ends.

    doctor_test.py LATHE [--sanitized]
"""
import json
import signal
import time

from driver import check_shown, expect, expect_one_line, lathe, main, start

JOB = ["--dataset", "synthetic", "--synthetic-size", 64, "--model", "resnet8", "--image-size", 16, "--batch-size", 16,
       "--data-cache", "ram", "--steps", 4]
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def doctor(folder, *arguments):
    """→ the rows. Nothing is left behind, and the exit code tells whether there are findings."""
    (folder / "tmp").mkdir(exist_ok=True)
    result = lathe("doctor", *arguments, "--json", env={"TMPDIR": str(folder / "tmp"), **NO_GPU})
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    findings = [row for row in rows if row["event"] == "finding"]
    expect(result, 7 if findings else 0)
    assert rows[-1] == {"event": "done", "findings": len(findings)}, rows[-1]
    assert not list((folder / "tmp").iterdir()), "a trial leaves no folder"
    return rows


def checks(rows, event):
    return [row["check"] for row in rows if row["event"] == event]


def test_a_good_configuration(folder):
    rows = doctor(folder, *JOB)
    steps = rows[0]
    assert steps["event"] == "steps" and steps["steps"] == 4 and steps["seconds"] > 0 and steps["memory_peak_bytes"] > 0
    # Whether such small steps wait for data, or are slowed by threads, is a matter of the machine's load.
    assert set(checks(rows, "finding")) <= {"waiting for data"}, rows
    assert {"workers", "debug scopes", "gradients set to none", "bias before batch norm"} <= set(checks(rows, "good"))
    assert not checks(rows, "not_checked")
    assert not [path for path in folder.iterdir() if path.name != "tmp"]


def test_faults_are_found_and_their_fixes_timed(folder):
    rows = doctor(folder, *JOB, "--detect-anomaly", "--workers", 0, "--log-every", 1)
    anomaly = next(row for row in rows if row.get("check") == "debug scopes")
    assert anomaly["event"] == "finding" and anomaly["where"] == "--detect-anomaly" and anomaly["measured"] and anomaly["gain"] > 0
    workers = next(row for row in rows if row.get("check") == "workers")
    assert workers["event"] in ("finding", "harmless") and workers["fix"] == "--workers 1" and workers["measured"]
    assert (workers["gain"] >= 1.03) == (workers["event"] == "finding"), workers
    gains = [row["gain"] for row in rows if row["event"] == "finding" and row["measured"]]
    assert gains == sorted(gains, reverse=True)
    text = check_shown(expect(lathe("doctor", *JOB, "--detect-anomaly", env=NO_GPU), 7)).stdout
    assert "--detect-anomaly: a flag for debugging is on" in text and "   fix: leave it out" in text and "x, measured" in text
    assert "\ngood: " in text


def test_the_settings_for_a_gpu_that_is_not_here(folder):
    bad = ["--no-pin-memory", "--layout", "nchw", "--amp", "fp16", "--no-cudnn-benchmark", "--no-capture", "--batch-size", 10]
    rows = doctor(folder, *JOB, "--device", "cuda", *bad)
    assert set(checks(rows, "finding")) == {"pinned memory", "layout", "algorithm search", "capture", "multiples of 8"}, rows
    assert set(checks(rows, "not_checked")) >= {"waiting for data", "batch and memory", "waits for the GPU"}
    assert not any(row["measured"] for row in rows if row["event"] == "finding")
    good = doctor(folder, *JOB, "--device", "cuda", "--amp", "bf16")
    assert not checks(good, "finding"), good
    text = expect(lathe("doctor", *JOB, "--device", "cuda", "--amp", "bf16", env=NO_GPU), 0).stdout
    assert "doctor measures no steps" in text and "not checked, because no step was made: " in text


def test_the_settings_of_a_finished_run(folder):
    run = ["--dataset", "synthetic", "--synthetic-size", 32, "--model", "resnet8", "--image-size", 16, "--batch-size", 8]
    expect(lathe("train", *run, "--max-steps", 2, "--conv-exact", "--run-dir", folder / "run", "--quiet"), 0)
    before = sorted(path.name for path in (folder / "run").iterdir())
    rows = doctor(folder, "--run-dir", folder / "run", "--steps", 2)
    assert "Winograd" in checks(rows, "finding") + checks(rows, "harmless"), rows
    assert sorted(path.name for path in (folder / "run").iterdir()) == before


def test_mistakes_and_a_stop(folder):
    expect_one_line(lathe("doctor", *JOB, "--batch-size", 100, "--drop-last"), 2, "--drop-last leaves no batch: the 64 images are fewer than --batch-size 100")
    expect_one_line(lathe("doctor", *JOB, "--steps", 1), 2, "--steps")
    (folder / "tmp").mkdir()
    long = start("doctor", *JOB, "--steps", 1000000, "--json", env={"TMPDIR": str(folder / "tmp")})
    deadline = time.time() + 120
    while not list((folder / "tmp").iterdir()) and time.time() < deadline:
        time.sleep(0.05)
    long.send_signal(signal.SIGINT)
    out, err = long.communicate(timeout=120)
    assert long.returncode == 130 and err == "lathe: stopped by Ctrl-C\n" and out == "", (long.returncode, out, err)
    assert not list((folder / "tmp").iterdir())


main(globals())
