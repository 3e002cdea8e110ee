#!/usr/bin/env python3
"""What makes a step, an evaluation, the best checkpoint and --target-acc, seen from outside.

    training_rules_test.py LATHE [--sanitized]
"""
import json
import math
import pathlib

from driver import expect, lathe, main
from runs import rows_of, safetensors_header, values_of

TINY = ["--dataset", "synthetic", "--model", "resnet8", "--batch-size", 8, "--augment", "none", "--image-size", 16, "--threads", 1, "--quiet"]


def train(run, *arguments):
    """Its last row on stdout."""
    result = lathe("train", *TINY, "--run-dir", run, "--json", *arguments)
    expect(result, 0)
    return json.loads(result.stdout.splitlines()[-1])


def test_an_epoch_too_short_to_accumulate_is_a_whole_step(folder):
    for batches, more in ((1, 2), (2, 3)):
        for accumulate in (batches, more):
            train(f"{batches}-by-{accumulate}", "--synthetic-size", 8 * batches, "--epochs", 3, "--accumulate", accumulate)
        expect(lathe("ckpt", "diff", f"{batches}-by-{batches}/last.safetensors", f"{batches}-by-{more}/last.safetensors"), 0)


def test_an_evaluation_every_two_epochs(folder):
    train("a", "--synthetic-size", 16, "--epochs", 4, "--eval-every", 2)
    assert [row["epoch"] for row in rows_of("a", "val")] == [2, 4]
    train("b", "--synthetic-size", 16, "--epochs", 3, "--eval-every", 2)
    assert [row["epoch"] for row in rows_of("b", "val")] == [2, 3]  # and after the last


def test_of_equal_evaluations_the_first_is_the_best(folder):
    done = train("a", "--synthetic-size", 40, "--epochs", 12, "--lr", 0.02)
    accuracies = [row["accuracy"] for row in rows_of("a", "val")]
    best = max(accuracies)
    assert accuracies.count(best) > 1, accuracies
    assert done["best_epoch"] == 1 + accuracies.index(best) and done["best_accuracy"] == best, (done, accuracies)
    assert safetensors_header("a/best.safetensors")["__metadata__"]["lathe.epoch"] == str(done["best_epoch"])


def test_the_target_is_reached_by_the_best_accuracy_itself(folder):
    best = train("a", "--synthetic-size", 50, "--epochs", 2)["best_accuracy"]
    assert 0 < best < 1, best
    for target, code in ((best, 0), (math.nextafter(best, 1), 7), (math.nextafter(best, 0), 0), (1, 7)):  # 1: all, not 1 %
        expect(lathe("train", "--resume", "a", "--target-acc", repr(target), "--quiet"), code)


def test_averages_do_not_count_skipped_steps(folder):
    done = train("a", "--synthetic-size", 64, "--epochs", 2, "--amp", "fp16", "--init-scale", 2**24, "--ema", 0.9)
    (skipped,), (updates,) = (values_of("a/last.safetensors", name)[""] for name in ("trainer.skipped_steps", "ema.num_updates"))
    assert done["steps"] == 16 and 0 < skipped < 16 and updates == 16 - skipped, (done, skipped, updates)


def test_clipping_sees_gradients_without_their_scale(folder):
    """A gradient clipped to 0.001 moves the weights by 0.001 * lr, whatever the loss was multiplied by."""
    flags = ["--synthetic-size", 8, "--epochs", 1, "--amp", "fp16", "--lr", 1, "--momentum", 0, "--weight-decay", 0, "--scheduler", "none"]
    runs = {"still": ["--lr", 1e-30], "dynamic": ["--init-scale", 65536], "fixed": ["--loss-scale", 1]}
    weights = {}
    for run, more in runs.items():
        train(run, *flags, *more, "--clip-grad-norm", 1e-3)
        (skipped,) = values_of(f"{run}/last.safetensors", "trainer.skipped_steps")[""]
        assert skipped == 0, run
        names = [name for name in safetensors_header(f"{run}/last.safetensors") if name.endswith((".weight", ".bias")) and "." in name
                 and not name.startswith("optimizer.")]
        weights[run] = [value for name in names for value in values_of(f"{run}/last.safetensors", name)[""]]
        assert len(weights[run]) > 70_000

    def distance(a, b):
        return math.dist(weights[a], weights[b])
    assert abs(distance("dynamic", "still") / 1e-3 - 1) < 0.01 and abs(distance("fixed", "still") / 1e-3 - 1) < 0.01
    assert distance("dynamic", "fixed") < 1e-4  # gradients that are rounded to fp16 at another scale


main(globals())
