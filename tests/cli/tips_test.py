#!/usr/bin/env python3
"""lathe bench tips, seen from outside. What the figures are is a matter of the machine.

    tips_test.py LATHE [--sanitized]
"""
import gzip
import json
import signal
import struct
import time

from driver import check_shown, expect, expect_one_line, lathe, main, start

JOB = ["--dataset", "synthetic", "--synthetic-size", 64, "--model", "resnet8", "--image-size", 16, "--batch-size", 8, "--device", "cpu"]
NEEDS_A_GPU = {"pinned memory", "data on the GPU", "TF32", "capture"}


def test_every_tip_is_measured_or_said_not_to_apply(folder):
    (folder / "tmp").mkdir()
    begin = time.monotonic()
    result = expect(lathe("bench", "tips", *JOB, "--seconds", 3, "--json", env={"TMPDIR": str(folder / "tmp")}), 0)
    took = time.monotonic() - begin
    *rows, done = [json.loads(line) for line in result.stdout.splitlines()]
    assert done["event"] == "done" and done["model"] == "resnet8" and done["device"] == "cpu"
    measured = {row["tip"]: row for row in rows if row["event"] == "tip"}
    other = {row["tip"]: row["why"] for row in rows if row["event"] == "not_applying"}
    assert NEEDS_A_GPU <= set(other) and all(other[tip] == "needs a GPU" for tip in NEEDS_A_GPU), other
    assert {"a worker", "prefetch", "data in RAM", "channels-last", "set_to_none", "no bias before norm", "no_grad (evaluation)",
            "accumulation", "debug scopes off"} <= set(measured)
    for row in measured.values():
        assert 0 < row["low"] <= row["gain"] <= row["high"], row
        assert row["verdict"] in ("helps", "does not matter", "hurts", "not clear")
        assert row["pairs"] >= 1 and row["claim"] and row["source"] and row["with"] != row["without"]
    assert took < 60, took  # of a busy machine: three seconds are asked for, one round is made in any case
    assert not list((folder / "tmp").iterdir())


def test_the_table_names_its_sources(folder):
    # The job is that of the weights, which are of another model than a CPU gets otherwise.
    expect(lathe("train", *JOB, "--model", "resnet20", "--max-steps", 1, "--eval-every", 0, "--run-dir", "a", "--quiet"), 0)
    job = [word for word in JOB if word not in ("--model", "resnet8")]
    text = check_shown(expect(lathe("bench", "tips", *job, "--weights", "a/last.safetensors", "--seconds", 1), 0)).stdout
    lines = text.splitlines()
    assert lines[0] == "chosen: --model resnet20, which has the names and shapes of the weights in a/last.safetensors", text
    assert lines[1].startswith("resnet20 on synthetic, batch 8, on cpu with "), text
    worker = next(line for line in lines if line.startswith("a worker"))
    assert "x  " in worker and worker.endswith("1.2x [1]"), worker
    assert any(line.startswith("[1] ") for line in lines) and "capture: does not apply, needs a GPU" in lines
    assert all(len(line) <= 80 for line in lines if "[" in line and not line.startswith("[")), text


def test_a_tip_that_needs_other_files_does_not_apply(folder):
    """As with Debian's package of Fashion-MNIST, which is compressed."""
    for part, count in (("train", 40), ("t10k", 8)):
        for kind, header, size in (("images-idx3", struct.pack(">4i", 0x803, count, 28, 28), 28 * 28), ("labels-idx1", struct.pack(">2i", 0x801, count), 1)):
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + bytes(count * size)))
    job = ["--dataset", "fashion-mnist", "--data-root", folder, "--model", "resnet8", "--batch-size", 8, "--device", "cpu"]
    text = expect(lathe("bench", "tips", *job, "--seconds", 1), 0).stdout
    assert "data in RAM: does not apply, " in text and "is compressed, so its images cannot be read one by one" in text, text
    assert any(line.startswith("a worker ") for line in text.splitlines()), text


def test_mistakes_and_a_stop(folder):
    expect_one_line(lathe("bench", "tips", *JOB, "--seconds", 0), 2, "--seconds")
    expect_one_line(lathe("bench", "tips", *JOB, "--batch-size", 100, "--drop-last"), 2, "--drop-last leaves no batch: the 64 images are fewer than --batch-size 100")
    (folder / "tmp").mkdir()
    long = start("bench", "tips", *JOB, "--seconds", 3000, env={"TMPDIR": str(folder / "tmp")})
    deadline = time.time() + 120
    while not list((folder / "tmp").iterdir()) and time.time() < deadline:
        time.sleep(0.05)
    long.send_signal(signal.SIGTERM)
    _, err = long.communicate(timeout=120)
    assert long.returncode == 143 and err == "lathe: stopped by SIGTERM\n", (long.returncode, err)
    assert not list((folder / "tmp").iterdir())


main(globals())
