#!/usr/bin/env python3
"""find-lr, find-batch and find-workers, seen from outside.

    find_test.py LATHE [--sanitized]
"""
import csv
import json
import math
import os
import re
import xml.etree.ElementTree

from driver import Skip, expect, expect_one_line, lathe, main, same_on_any_processor
from runs import rows_of

DATA = ["--dataset", "synthetic", "--synthetic-size", 200, "--model", "resnet8", "--batch-size", 20, "--image-size", 16]
BATCH = ["--model", "resnet8", "--image-size", 16, "--threads", 1]  # each thread has workspaces of its own
WORKERS = ["--dataset", "synthetic", "--synthetic-size", 64, "--image-size", 16, "--batch-size", 16]
KEPT = (3 * 16 * 16**2 + 2 * 32 * 8**2 + 2 * 64 * 4**2) * 4  # bytes for an image: what the convolutions give, for the backward
CLEAR = [*DATA, "--batch-size", 50]  # the losses of larger batches fluctuate less, so that there is a suggestion
MIB = 1 << 20


def rows(result):
    return [json.loads(line) for line in expect(result, 0).stdout.splitlines()]


def test_find_lr_sweeps_and_suggests(folder):
    steps = ["--min-lr", 1e-4, "--max-lr", 1, "--sweep-steps", 60]
    *points, done = rows(lathe("find-lr", *CLEAR, *steps, "--csv", "range.csv", "--json"))
    assert [p["step"] for p in points] == list(range(len(points)))  # fifteen epochs of four batches
    assert done["event"] == "done" and (len(points) == 60 or done["diverged"]), (len(points), done)
    for p in points:
        assert abs(p["lr"] / (1e-4 * 1e4 ** (p["step"] / 59)) - 1) < 1e-9, p
    lowest = min(points, key=lambda p: p["smoothed_loss"])
    assert done["lowest"] == lowest["lr"] and 0 < done["suggestion"] <= done["lowest"]
    assert lowest["smoothed_loss"] < points[0]["loss"], "it learns on its way"
    with open("range.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(r["loss"]) for r in table] == [p["loss"] for p in points]
    assert [path.name for path in folder.iterdir()] == ["range.csv"], "nothing else is left"
    shown = expect(lathe("find-lr", *CLEAR, *steps, "--csv", "range.csv", "--quiet"), 0)  # its own file is replaced
    assert shown.stderr == "" and "suggestion: --lr " in shown.stdout and "*" in shown.stdout
    assert 16 + 2 + 2 <= len(shown.stdout.splitlines()) <= 16 + 2 + 3 and all(len(line) <= 100 for line in shown.stdout.splitlines())


def test_find_lr_names_no_rate_from_few_steps(folder):
    *points, done = rows(lathe("find-lr", *DATA, "--min-lr", 1e-4, "--max-lr", 1, "--sweep-steps", 25, "--json"))
    assert len(points) == 25 and done["suggestion"] is None and done["remark"].startswith("too few steps were made to suggest a learning rate"), done


def test_find_lr_stops_when_the_loss_explodes(folder):
    steps = ["--min-lr", 1e-3, "--max-lr", 1e6, "--sweep-steps", 40, "--weight-decay", 0, "--momentum", 0.9]
    *points, done = rows(lathe("find-lr", *DATA, *steps, "--json"))
    assert done["diverged"] and len(points) < 40, done
    assert points[-1]["lr"] < 1e6
    *points, done = rows(lathe("find-lr", *DATA, "--min-lr", 1e30, "--max-lr", 1e38, "--weight-decay", 0, "--json"))
    assert len(points) == 1 and done["suggestion"] is None, (points, done)


def test_find_lr_accumulates_and_takes_the_settings_of_training(folder):
    steps = ["--sweep-steps", 4, "--max-lr", 1e-3]
    for extra in (["--accumulate", 3], ["--optimizer", "adamw", "--no-decay-norm"], ["--amp", "bf16", "--clip-grad-norm", 1],
                  ["--amp", "fp16"]):
        *points, _ = rows(lathe("find-lr", *DATA, *steps, *extra, "--json"))
        assert len(points) == 4, (extra, points)
    (folder / "run.toml").write_text('lr = 0.5\nepochs = 3\noptimizer = "adam"\n')  # what others know is let pass
    assert rows(lathe("find-lr", *DATA, *steps, "--config", "run.toml", "--json"))[-1]["optimizer"] == "adam"
    env = {"LATHE_SWEEP_STEPS": "3", "LATHE_OPTIMIZER": "rmsprop"}
    *points, done = rows(lathe("find-lr", *DATA, "--max-lr", 1e-3, "--json", env=env))
    assert len(points) == 3 and done["optimizer"] == "rmsprop"


def test_a_step_of_find_lr_is_the_mean_over_its_images(folder):
    """Also where it has the smaller last batch of an epoch: epochs here are batches of 4, 4 and 2 images."""
    data = ["--dataset", "synthetic", "--synthetic-size", 10, "--model", "resnet8", "--batch-size", 4, "--image-size", 16, "--augment", "none"]
    still = ["--min-lr", 1e-30, "--max-lr", 1e-29, "--json"]  # changes no weight
    batch = [p["loss"] for p in rows(lathe("find-lr", *data, *still, "--sweep-steps", 8))[:-1]]
    sizes = [4, 4, 2] * 2
    for accumulate in (2, 3, 5):
        first = rows(lathe("find-lr", *data, *still, "--sweep-steps", 2, "--accumulate", accumulate))[0]["loss"]
        images = sizes[:accumulate]
        assert math.isclose(first, sum(n * loss for n, loss in zip(images, batch)) / sum(images), rel_tol=1e-6), accumulate
    sweep = ["--accumulate", 3, "--min-lr", 0.05, "--max-lr", 0.5, "--sweep-steps", 2, "--json"]
    *points, _ = rows(lathe("find-lr", *data, *sweep))
    steps = ["--accumulate", 3, "--lr", 0.05, "--scheduler", "none", "--epochs", 2, "--log-every", 1, "--run-dir", "a", "--quiet"]
    expect(lathe("train", *data, *steps), 0)  # its step has the same images
    assert all(math.isclose(p["loss"], row["loss"], rel_tol=1e-5) for p, row in zip(points, rows_of("a", "train"), strict=True)), points


def test_find_lr_writes_its_curve_and_its_suggestion(folder):
    steps = ["--min-lr", 1e-4, "--max-lr", 1, "--sweep-steps", 60, "--svg", "curve.svg", "--write-config", "my.toml"]
    (folder / "my.toml").write_text("# mine\nlr = 7 # old\nmomentum = 0.8\n")
    result = expect(lathe("find-lr", *CLEAR, *steps, "--config", "my.toml", "--quiet"), 0)
    lr = re.search(r"suggestion: --lr (\S+),", result.stdout)[1]
    assert (folder / "my.toml").read_text() == f"# mine\nlr = {lr} # old\nmomentum = 0.8\n", result.stdout
    assert f"my.toml: lr = {lr}" in result.stdout
    assert xml.etree.ElementTree.parse("curve.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    expect(lathe("find-lr", *CLEAR, *steps, "--config", "my.toml", "--quiet"), 0)  # its own picture is replaced
    plan = expect(lathe("train", *DATA, "--config", "my.toml", "--dry-run"), 0).stdout
    assert re.search(rf"^lr = {lr}$", plan, re.M) and "momentum = 0.8" in plan, plan


def test_what_cannot_be_found_or_written_changes_no_config(folder):
    # The loss of the first steps is that of a new model; so small learning rates do not change it.
    nothing = ["--min-lr", 1e-12, "--max-lr", 1e-11, "--sweep-steps", 12, "--write-config", "my.toml"]
    result = lathe("find-lr", *DATA, *nothing, "--quiet")
    assert result.returncode == 7 and "no suggestion: " in result.stdout, result
    assert result.stderr.startswith("lathe: --write-config: my.toml is unchanged: ") and not (folder / "my.toml").exists(), result.stderr
    (folder / "my.toml").write_text("[section]\n")
    for command in (["find-lr", *DATA], ["find-batch", *BATCH, "--max-batch", 1], ["find-workers", *WORKERS]):
        expect_one_line(lathe(*command, "--write-config", "my.toml"), 2, "my.toml:1: sections are not used here")
        expect_one_line(lathe(*command, "--write-config", "no/my.toml"), 1, "no/my.toml")
    assert (folder / "my.toml").read_text() == "[section]\n"
    expect_one_line(lathe("find-lr", *DATA, "--svg", "my.toml"), 2, "--svg my.toml: this file does not begin with")


def test_find_batch_and_find_workers_write_what_they_found(folder):
    (folder / "my.toml").write_text("lr = 0.5\n")
    *_, done = rows(lathe("find-batch", *BATCH, "--max-batch", 4, "--write-config", "my.toml", "--json"))
    assert (folder / "my.toml").read_text() == f"lr = 0.5\nbatch-size = {done['fastest_batch_size']}\n"
    *_, done = rows(lathe("find-workers", *WORKERS, "--write-config", "new.toml", "--json"))
    assert (folder / "new.toml").read_text() == f"workers = {done['workers']}\n"


def test_find_lr_mistakes(folder):
    expect_one_line(lathe("find-lr", *DATA, "--min-lr", 1, "--max-lr", 0.1), 2, "--min-lr 1 must be above 0 and below --max-lr 0.1")
    expect_one_line(lathe("find-lr", *DATA, "--min-lr", 0), 2, "--min-lr 0")
    expect_one_line(lathe("find-lr", *DATA, "--sweep-steps", 1), 2, "--sweep-steps")
    expect_one_line(lathe("find-lr", *DATA, "--lr", 1), 2, "--lr: unknown flag")
    expect_one_line(lathe("find-lr", *DATA, "--drop-last", "--batch-size", 500), 2, "--drop-last")
    result = expect_one_line(lathe("find-lr", *DATA, "--sweep-steps", 2, "--csv", "no/where.csv", "--json"), 1, "no/where.csv")
    assert result.stdout == "", "said before the sweep"
    (folder / "notes.csv").write_text("my notes\n")
    expect_one_line(lathe("find-lr", *DATA, "--csv", "notes.csv"), 2, "--csv notes.csv: this file does not begin with", "name a new file")
    assert (folder / "notes.csv").read_text() == "my notes\n"


def find_batch(*flags):
    return rows(lathe("find-batch", *BATCH, *flags, "--json"))


def check_search(found, limit, first):
    """The rows of a search within `limit` bytes that met it; a batch of one image takes `first` bytes."""
    *tries, done = found
    good = [t["batch_size"] for t in tries if t["fits"]]
    bad = [t["batch_size"] for t in tries if not t["fits"]]
    assert good and bad and done["batch_size"] == max(good), found
    assert max(good) < min(bad) <= max(good) + max(max(good) // 32, 1), found
    for t in tries:
        if t["fits"]:
            assert t["images_per_second"] > 0 and KEPT * t["batch_size"] <= t["peak_bytes"] <= limit, t
    # Hardly more images do not fit, so the largest batch takes nearly the limit; half of what is left for images allows
    # for a workspace that comes with the last few.
    (largest,) = [t["peak_bytes"] for t in tries if t["batch_size"] == max(good)]
    assert largest - first > (limit - first) / 2, (first, found)
    assert done["memory_limit_bytes"] == limit
    assert done["fastest_batch_size"] in good


def test_find_batch_within_a_memory_limit(folder):
    # What one image takes is mostly workspaces, of which every processor needs others. The limits leave room beside them.
    first = find_batch("--max-batch", 1)[0]["peak_bytes"]
    base, room = math.ceil(first / MIB), 8
    found = find_batch("--memory-limit", base + room)
    check_search(found, (base + room) * MIB, first)
    wider = find_batch("--memory-limit", base + 2 * room)
    assert 1.5 * found[-1]["batch_size"] < wider[-1]["batch_size"], (first, found[-1], wider[-1])
    text = expect(lathe("find-batch", *BATCH, "--memory-limit", base + 1), 0).stdout.splitlines()
    assert "does not fit" in "".join(text) and text[-1].startswith("largest batch: "), text


def test_find_batch_stops_at_the_largest_to_try(folder):
    *tries, done = find_batch("--max-batch", 6)
    assert [t["batch_size"] for t in tries] == [1, 2, 4, 6] and done["batch_size"] == 6
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert max(t["peak_bytes"] for t in tries) < done["memory_limit_bytes"] <= installed, "a part of what is available"
    assert "--max-batch" in expect(lathe("find-batch", *BATCH, "--max-batch", 1), 0).stdout


def test_find_batch_of_a_model_that_needs_two_images(folder):
    # The last batch norms have one pixel: one image has no variance.
    small = ["find-batch", "--model", "resnet8", "--image-size", 4, "--threads", 1, "--json"]
    *tries, done = rows(lathe(*small, "--max-batch", 2))
    assert [row["batch_size"] for row in tries] == [2] and done["batch_size"] == done["fastest_batch_size"] == 2
    expect_one_line(lathe(*small, "--max-batch", 1), 2, "--max-batch 1", "more than one value per channel")
    lone = ["find-lr", "--model", "resnet8", "--image-size", 4, "--dataset", "synthetic", "--synthetic-size", 9, "--batch-size", 4]
    expect_one_line(lathe(*lone, "--sweep-steps", 20), 2, "the last of 3 batches of 9 images has one image", "--drop-last")


def test_find_batch_where_nothing_fits(folder):
    result = lathe("find-batch", "--model", "resnet18", "--memory-limit", 1, "--json")
    expect_one_line(result, 5, "not even a batch of one image fits: host memory: cannot allocate")
    expect_one_line(lathe("find-batch", *BATCH, "--max-batch", 0), 2, "--max-batch")
    expect_one_line(lathe("find-batch", *BATCH, "--memory-limit", -1), 2, "--memory-limit")


def test_find_batch_on_a_gpu(folder):
    """An emulated one: where the driver refuses, what failed is given back before the next size."""
    def gpu(mib):
        return {"LATHE_EMULATED_DEVICES": "1", "LATHE_EMULATED_MEMORY": str(mib * MIB), "LATHE_EMULATED_WATCH": "0"}
    if not any("emulated" in str(row.get("name", "")) for row in rows(lathe("info", "--json", env=gpu(64)))):
        raise Skip("no emulated CUDA device")
    search = ["find-batch", *BATCH, "--image-size", 8, "--device", "cuda", "--deterministic", "--max-batch", 4, "--json"]  # times no algorithms
    *tries, done = rows(lathe(*search, env=gpu(256)))
    assert [t["batch_size"] for t in tries if t["fits"]] == [1, 2, 4] and done["batch_size"] == 4, tries
    expect_one_line(lathe(*search, env=gpu(1)), 5, "out of memory")
    *tries, done = rows(lathe(*search, "--max-batch", 64, "--memory-limit", 2, env=gpu(256)))
    good, bad = ([t["batch_size"] for t in tries if t["fits"] == fits] for fits in (True, False))
    assert max(t.get("peak_bytes", 0) for t in tries) <= 2 * MIB, tries
    expect_one_line(lathe(*search, "--memory-limit", 1, env=gpu(256)), 5, "not even a batch of one image fits: cuda:0: out of memory", "limit 1 MiB")
    assert bad and max(good) == done["batch_size"] < min(bad), tries
    assert any(t["fits"] for t in tries[[t["fits"] for t in tries].index(False):]), "memory came back after a failure"


@same_on_any_processor
def test_find_workers_suggests_the_fewest_that_are_nearly_the_fastest(folder):
    rows = [json.loads(line) for line in
            expect(lathe("find-workers", "--batch-size", 16, "--synthetic-size", 500, "--json"), 0).stdout.splitlines()]
    trials = {row["workers"]: row["images_per_second"] for row in rows[:-1]}
    assert {0, 1} <= set(trials) and all(rate > 0 for rate in trials.values())
    chosen = rows[-1]["workers"]
    assert trials[chosen] >= 0.95 * max(trials.values())
    assert all(trials[workers] < 0.95 * max(trials.values()) for workers in trials if workers < chosen)


@same_on_any_processor
def test_find_workers_counts_the_images_of_short_batches(folder):
    def rate(batch_size):
        flags = ["--dataset", "synthetic", "--synthetic-size", 8, "--batch-size", batch_size, "--json"]
        return json.loads(expect(lathe("find-workers", *flags), 0).stdout.splitlines()[0])["images_per_second"]
    assert rate(8000) < 50 * rate(8)  # the same batches of 8
    expect_one_line(lathe("find-workers", "--dataset", "synthetic", "--synthetic-size", 8, "--batch-size", 9, "--drop-last"), 2, "--drop-last")


main(globals())
