#!/usr/bin/env python3
"""What training with large batches needs: schedules, scaled learning rates, seen from outside.

    large_batch_test.py LATHE [--sanitized]
"""
import array
import json
import math
import pathlib
import struct

from driver import expect, expect_one_line, lathe, main
from runs import rows_of

TINY = ["--dataset", "synthetic", "--synthetic-size", 200, "--model", "resnet8", "--batch-size", 20, "--image-size", 8]
EVERY_STEP = ["--log-every", 1, "--run-dir"]


def train(*arguments, **options):
    return lathe("train", *TINY, *arguments, **options)


def rates_of(run):
    return [row["lr"] for row in rows_of(run, "train")]


def close(got, want):
    return len(got) == len(want) and all(math.isclose(g, w, rel_tol=1e-9, abs_tol=1e-15) for g, w in zip(got, want))


def test_the_learning_rate_scales_with_the_images_of_a_step(folder):
    steps = ["--lr", 0.02, "--scheduler", "none", "--max-steps", 1, "--eval-every", 0]
    expect(train(*steps, "--lr-scale-batch", "--batch-size", 64, "--accumulate", 4, "--run-dir", "a"), 0)
    assert close(rates_of("a"), [0.04])
    expect(lathe("train", "--config", "a/config.toml", "--run-dir", "b"), 0)  # is not scaled twice
    assert close(rates_of("b"), [0.04])
    expect(train(*steps, "--batch-size", 64, "--accumulate", 4, "--run-dir", "c", env={"LATHE_LR_SCALE_BATCH": "true"}), 0)
    assert close(rates_of("c"), [0.04])


def test_poly_and_onecycle_follow_their_formulas(folder):
    poly = ["--scheduler", "poly", "--lr", 1e-3, "--epochs", 1, "--eval-every", 0]
    expect(train(*poly, "--warmup-epochs", 0.2, *EVERY_STEP, "poly"), 0)  # of ten steps two warm up
    assert close(rates_of("poly"), [1e-3 / 3, 2e-3 / 3] + [1e-3 * (1 - i / 8) ** 2 for i in range(8)]), rates_of("poly")
    expect(train(*poly, "--power", 1, *EVERY_STEP, "line"), 0)
    assert close(rates_of("line"), [1e-3 * (1 - i / 10) for i in range(10)])
    cycle = ["--scheduler", "onecycle", "--lr", 1e-3, "--epochs", 1, "--eval-every", 0]
    expect(train(*cycle, *EVERY_STEP, "cycle"), 0)
    def between(begin, end, t):
        return end + (begin - end) * (1 + math.cos(math.pi * t)) / 2
    low, end = 1e-3 / 25, 1e-3 / 25e4
    want = [between(low, 1e-3, i / 2) for i in range(3)] + [between(1e-3, end, i / 7) for i in range(1, 8)]
    assert close(rates_of("cycle"), want), (rates_of("cycle"), want)
    expect(train(*cycle, "--warmup-epochs", 0.5, *EVERY_STEP, "late"), 0)
    expect_one_line(train("--warmup-epochs", 100, "--epochs", 1), 2, "--warmup-epochs 100 leaves nothing of a run of --epochs 1")
    assert max(rates_of("late")) == rates_of("late")[5] and math.isclose(rates_of("late")[5], 1e-3)


def test_plateau_lowers_the_learning_rate_by_the_test_loss(folder):
    # A learning rate of 0 changes only the running statistics of the norms; the test loss is compared as it came out.
    run = ["--scheduler", "plateau", "--patience", 1, "--gamma", 0.5, "--lr", 0.3, "--epochs", 8]
    expect(train(*run, "--log-every", 100, "--run-dir", "a"), 0)
    best, bad, lr = math.inf, 0, 0.3
    for epoch in range(1, 9):
        (train_row,) = [r for r in rows_of("a", "train") if r["epoch"] == epoch]
        (val_row,) = [r for r in rows_of("a", "val") if r["epoch"] == epoch]
        assert math.isclose(train_row["lr"], lr), (epoch, train_row, lr)
        if val_row["loss"] < best * (1 - 1e-4):
            best, bad = val_row["loss"], 0
        else:
            bad += 1
        if bad > 1:
            lr, bad = lr / 2, 0
    assert rates_of("a")[-1] <= 0.3
    expect_one_line(train("--scheduler", "plateau", "--eval-every", 0), 2, "--eval-every")
    expect_one_line(train("--scheduler", "plateau", "--gamma", 1.5), 2, "--gamma")
    expect_one_line(train("--scheduler", "polly"), 2, "--scheduler", "did you mean poly?")
    expect_one_line(train("--power", -1), 2, "--power")
    expect_one_line(train("--patience", "few"), 2, "--patience")


def test_the_optimisers_of_large_batches_learn(folder):
    size = ["--synthetic-size", 600, "--epochs", 2, "--log-every", 3, "--accumulate", 2, "--warmup-epochs", 0.5]
    for optimizer in ("lars", "lamb", "novograd"):
        expect(train(*size, "--optimizer", optimizer, "--run-dir", optimizer), 0)
        losses = [row["loss"] for row in rows_of(optimizer, "train")]
        assert sum(losses[-3:]) < 0.95 * sum(losses[:3]), (optimizer, losses)
    expect(train("--optimizer", "lars", "--trust-coefficient", 0.001, "--max-steps", 1, "--run-dir", "a"), 0)
    assert "trust-coefficient = 0.001" in pathlib.Path("a/config.toml").read_text()
    expect_one_line(train("--optimizer", "larz"), 2, "--optimizer", "did you mean lars?")
    expect_one_line(train("--optimizer", "lars", "--trust-coefficient", -1), 2, "--trust-coefficient")


def entry(path, name):
    """The numbers of an f32 entry of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    meta = json.loads(data[8:8 + length])[name]
    assert meta["dtype"] == "F32", meta
    begin, end = meta["data_offsets"]
    return array.array("f", data[8 + length + begin:8 + length + end])


def test_ema_averages_the_weights_and_evaluates_the_average(folder):
    run = ["--scheduler", "none", "--eval-every", 0, "--ema", 0.2]
    expect(train(*run, "--lr", 0, "--max-steps", 1, "--run-dir", "w0"), 0)
    for steps in (1, 2, 3):
        expect(train(*run, "--lr", 0.05, "--max-steps", steps, "--run-dir", f"w{steps}"), 0)
    for name in ("conv1.weight", "fc.bias"):
        want = entry("w0/last.safetensors", name)
        for n in (1, 2, 3):
            decay = min(0.2, (1 + n) / (10 + n))
            want = [decay * a + (1 - decay) * w for a, w in zip(want, entry(f"w{n}/last.safetensors", name))]
        got = entry("w3/last.safetensors", f"ema.average.{name}")
        assert all(math.isclose(g, w, rel_tol=1e-5, abs_tol=1e-7) for g, w in zip(got, want)), name
        assert list(entry("w3/best.safetensors", name)) == list(got), "best holds what was evaluated"
        assert list(entry("w3/last.safetensors", name)) != list(got)
    row = json.loads(expect(lathe("eval", "--run-dir", "w3", "--json"), 0).stdout.splitlines()[0])
    (val,) = rows_of("w3", "val")
    assert math.isclose(row["loss"], val["loss"], rel_tol=1e-6), (row, val)
    plain = train("--scheduler", "none", "--eval-every", 0, "--lr", 0.05, "--max-steps", 3, "--run-dir", "plain")
    expect(plain, 0)
    assert list(entry("plain/last.safetensors", "conv1.weight")) == list(entry("w3/last.safetensors", "conv1.weight")), "training is the same"
    expect_one_line(train("--ema", 1.5), 2, "--ema")
    expect_one_line(train("--ema", "much"), 2, "--ema")


def test_ema_and_plateau_go_on_after_a_stop(folder):
    run = ["--scheduler", "plateau", "--patience", 0, "--gamma", 0.5, "--warmup-epochs", 0.5, "--ema", 0.9, "--epochs", 4, "--lr", 0.3]
    expect(train(*run, *EVERY_STEP, "whole"), 0)
    expect(train(*run, "--stop-after", 23, *EVERY_STEP, "parts"), 0, "stopped after step 23")
    expect(train(*run, "--resume", "auto", *EVERY_STEP, "parts"), 0)
    pick = lambda name: [(r["step"], r["split"], r["loss"], r["lr"]) for r in rows_of(name)]
    assert pick("whole") == pick("parts")
    for name in ("conv1.weight", "ema.average.conv1.weight"):
        assert list(entry("whole/last.safetensors", name)) == list(entry("parts/last.safetensors", name))


main(globals())
