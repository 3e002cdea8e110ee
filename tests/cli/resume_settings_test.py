#!/usr/bin/env python3
"""Which settings a resumed run has, and which of them may be others than before.

    resume_settings_test.py LATHE [--sanitized]
"""
import json
import math
import pathlib
import re

from driver import SANITIZED, expect, lathe, main
from runs import rows_of, values_of

TINY = ["--dataset", "synthetic", "--synthetic-size", 24, "--model", "resnet8", "--batch-size", 8, "--augment", "none", "--image-size", 16,
        "--threads", 1, "--lr", 0.1, "--quiet"]  # 3 steps are an epoch

# Another value of every flag of `train`, by what a resumed run makes of it.
FREE = {  # it changes neither a parameter nor a row of metrics
    "data-root": "elsewhere", "workers": 0, "prefetch-factor": 5, "pin-memory": True, "data-cache": "ram", "algo-cache": "algos.bin", "capture": False, "recompute": True,
    "save-every": 5, "keep": 7, "target-acc": 0.5, "time-limit": 100, "stop-after": 3, "progress": "plain", "tensorboard": True, "json": True, "quiet": True, "profile": True,
    "profile-steps": "1:3", "detect-anomaly": True, "sync": "warn"}
LENGTH = {"epochs": 4, "max-steps": 5, "eval-every": 2, "log-every": 2, "early-stopping": 3}  # how long to train, and what to write of it
ROUNDING = {  # the same numbers, computed in another way
    "threads": 2, "conv-exact": True, "layout": "nchw", "tf32": False, "deterministic": True, "cudnn-benchmark": False, "workspace-limit": 77}
REFUSED = {  # anything else, unless --allow-changes is given
    "synthetic-size": 32, "augment": "flip", "image-size": 20, "skip-broken": True, "drop-last": True, "model": "resnet20",
    "stem": "imagenet", "weights": "a/last.safetensors", "new-head": True, "weights-section": "model", "freeze": "conv1", "lora-rank": 2, "lora-alpha": 8, "lora-targets": "layer1", "head-lr": 0.3, "bias-lr": 0.3, "muon-rest": "sgd", "optimizer": "adam", "lr": 0.2, "lr-scale-batch": True, "momentum": 0.8, "nesterov": True,
    "trust-coefficient": 0.5, "weight-decay": 0.3, "no-decay-norm": True, "scheduler": "linear", "step-size": 3, "milestones": "4", "gamma": 0.7, "restart-epochs": 2, "restart-factor": 3,
    "val-split": 0.25, "tta": "mirror", "power": 3, "patience": 4, "warmup-epochs": 1, "label-smoothing": 0.1, "clip-grad-norm": 2, "ema": 0.9, "batch-size": 4, "accumulate": 2, "sync-batch-norm": True,
    "amp": "bf16", "loss-scale": 8, "init-scale": 8, "growth-interval": 8, "seed": 5}
OTHERS = {"help", "config", "recipe", "dry-run", "run-dir", "resume", "allow-changes", "seeds",  # of this call
          "dataset", "download", "device"}  # what else there is depends on the machine


def train(*arguments, **options):
    return lathe("train", *TINY, *arguments, **options)


def some_of(settings):
    return list(settings.items())[::6 if SANITIZED else 1]


def flag(key, value):
    return [f"--{key}"] if value is True else [f"--no-{key}"] if value is False else [f"--{key}", value]


def test_each_setting_may_change_or_not(folder):
    text = lathe("train", "--help").stdout
    known = set(re.findall(r"^ *(?:-\w, )?--(?:\[no-\])?([a-z0-9-]+)", text, re.MULTILINE))
    lists = (FREE, LENGTH, ROUNDING, REFUSED, OTHERS)
    assert len(known) > 60 and known == set().union(*lists), known ^ set().union(*lists)
    assert len(known) == sum(map(len, lists))
    expect(train("--run-dir", "a", "--stop-after", 2), 0)
    resume = ["train", "--resume", "a", "--dry-run"]
    for kind in (FREE, LENGTH, ROUNDING):
        for key, value in some_of(kind):
            result = expect(lathe(*resume, *flag(key, value)), 0)
            assert (f"numbers may round differently from here on: {key} " in result.stderr) == (kind is ROUNDING), (key, result.stderr)
            assert (f"other than before: {key} " in result.stderr) == (kind is LENGTH), (key, result.stderr)
            assert "changed since" not in result.stderr, (key, result.stderr)
    for key, value in some_of(REFUSED):
        expect(lathe(*resume, *flag(key, value)), 2, "was made with other settings (", f"{key} ", "--allow-changes")


def test_the_checkpoint_comes_before_the_config_file_beside_it(folder):
    expect(train("--run-dir", "a", "--stop-after", 2, "--scheduler", "none"), 0)
    config = pathlib.Path("a/config.toml")
    assert "\nlr = 0.1\n" in config.read_text()
    config.write_text(config.read_text().replace("\nlr = 0.1\n", "\nlr = 0.5\n"))
    expect(lathe("train", "--resume", "a", "--stop-after", 3, "--quiet"), 0)
    assert rows_of("a")[-1]["lr"] == 0.1, rows_of("a")


def test_a_recipe_goes_on_and_cannot_be_another(folder):
    """What the recipe says counts as what the run was begun with, and so do the flags that were stronger."""
    flags = ["train", "--recipe", "cifar10-94", *TINY[:-1], "--epochs", 6, "--device", "cpu", "--log-every", 1]
    expect(lathe(*flags, "--run-dir", "a"), 0, "recipe cifar10-94, except dataset synthetic (recipe: cifar10), model resnet8 (recipe: resnet18)")
    expect(lathe(*flags, "--run-dir", "b", "--stop-after", 7, "--quiet"), 0)
    assert "nesterov = true\n" in pathlib.Path("b/config.toml").read_text()
    expect(lathe(*flags, "--resume", "auto", "--run-dir", "b", "--stop-after", 8, "--quiet"), 0)  # the same call again
    pathlib.Path("b/config.toml").unlink()  # the checkpoint knows as much, and "none" does not change the recipe
    expect(lathe("train", "--resume", "b", "--recipe", "none", "--quiet"), 0)
    assert values_of("a/last.safetensors", "fc.") == values_of("b/last.safetensors", "fc.")
    expect(train("--run-dir", "c", "--stop-after", 2), 0)
    expect(lathe("train", "--resume", "c", "--recipe", "cifar10-94"), 2, "the run in c was begun with --recipe none", "it cannot take those of cifar10-94: leave out --recipe\n")
    expect(lathe("train", "--resume", "c", "--recipe", "cifar10-94", "--allow-changes"), 2, "it cannot take those of cifar10-94: leave out --recipe\n")


def test_other_batches_begin_the_epoch_and_the_mean_again(folder):
    expect(train("--run-dir", "a", "--stop-after", 2, "--log-every", 4), 0)
    assert values_of("a/last.safetensors", "trainer.window.added.")["counts"][0] == 16  # two batches of 8
    expect(lathe("train", "--resume", "a", "--stop-after", 2, "--batch-size", 6, "--allow-changes", "--quiet"), 0)
    trainer = values_of("a/last.safetensors", "trainer.")
    assert trainer["step"] == [2] and trainer["batch"] == [0] and trainer["epoch_open"] == [1], trainer
    sums = {name: values for name, values in trainer.items() if name.startswith(("window.", "epoch_tally."))}
    assert len(sums) > 8 and not any(map(any, sums.values())), sums
    expect(lathe("train", "--resume", "a", "--stop-after", 3, "--quiet"), 0)
    assert values_of("a/last.safetensors", "trainer.window.added.")["counts"][0] == 6


def test_the_first_step_of_more_epochs_has_the_rate_of_its_epoch(folder):
    def cosine(steps):
        return [0.1 * (1 + math.cos(math.pi * i / steps)) / 2 for i in range(steps)]
    for run, flags, expected in (("a", ["--scheduler", "step", "--step-size", 1, "--gamma", 0.1], [0.1] * 3 + [0.01] * 3),
                                 ("b", ["--scheduler", "cosine"], cosine(3) + cosine(6)[3:])):
        expect(train("--run-dir", run, *flags, "--log-every", 1, "--epochs", 1), 0)
        expect(lathe("train", "--resume", run, "--epochs", 2, "--quiet"), 0)
        rates = [row["lr"] for row in rows_of(run, "train")]
        assert len(rates) == 6 and all(abs(a / b - 1) < 1e-12 for a, b in zip(rates, expected)), rates


def test_another_text_of_the_same_value_is_no_change(folder):
    expect(train("--run-dir", "a", "--epochs", 1), 0)
    expect(train("--run-dir", "b", "--epochs", 1, "--weights", "a/last.safetensors"), 0)
    (folder / "sub").mkdir()
    resume = ["train", "--resume", folder / "b", "--dry-run", "--quiet"]
    expect(lathe(*resume, "--weights", "../a/last.safetensors", cwd=folder / "sub"), 0)
    expect(lathe(*resume, "--weights", "b/last.safetensors"), 2, "was made with other settings (weights ")
    expect(lathe(*resume, "--freeze", "none"), 0)
    expect(lathe(*resume, "--freeze", "conv1"), 2, "was made with other settings (freeze nothing → conv1)")


def test_a_setting_of_earlier_versions_is_accepted_and_named(folder):
    expect(train("--run-dir", "r", "--epochs", 1), 0)
    config, gone = folder / "r/config.toml", "conv-benchmark has no effect any more"
    for value, named in (("false", 0), ("true", 1)):  # each run of theirs had it
        config.write_text(config.read_text() + f"conv-benchmark = {value}\n")
        expect(train("--run-dir", "r", "--resume", "auto", "--epochs", 2), 0)
        assert (folder / "r/log.txt").read_text().count(gone) == named
        assert "conv-benchmark" not in config.read_text()
    config.write_text(config.read_text() + "conv-benchmark = true\n")
    said = expect(lathe("eval", "--run-dir", "r", "--no-quiet"), 0).stderr
    assert f"warning: r/config.toml:{len(config.read_text().splitlines())}: {gone}: " in said, said


main(globals())
