#!/usr/bin/env python3
"""What the best is chosen by: --val-split, --early-stopping, and the one look at the test images.

    choice_test.py LATHE [--sanitized]
"""
import json
import os
import pathlib
import signal
import time

from driver import Skip, expect, expect_one_line, lathe, main, start
from runs import values_of, write_png
from short_run import TINY, check_equal, log_of, rows_of, train

SPLIT = ["--val-split", 0.2]  # 40 of the 50 images are left: 5 steps are an epoch


def rows(run, split):
    return [row for row in rows_of(run) if row["split"] == split]


def again(run, *arguments):
    return lathe("train", "--resume", run, "--quiet", *arguments)


def metadata_of(path):
    return json.loads(expect(lathe("ckpt", "show", path, "--json"), 0).stdout.splitlines()[-1])


def test_the_best_is_chosen_by_a_part_and_the_test_images_are_seen_once(folder):
    result = expect(train("a", *SPLIT, "--json", "--lr", 0.05), 0)
    val, test = rows("a", "val"), rows("a", "test")
    assert [row["step"] for row in val] == [5, 10, 15] and len(test) == 1
    best = max(val, key=lambda row: row["accuracy"])
    assert (test[0]["epoch"], test[0]["step"]) == (best["epoch"], best["step"]) == (best["epoch"], int(metadata_of("a/best.safetensors")["lathe.step"]))
    done = json.loads(result.stdout.splitlines()[-1])
    assert done["best_accuracy"] == best["accuracy"] and done["test_accuracy"] == test[0]["accuracy"] and done["test_loss"] == test[0]["loss"]
    assert "the best checkpoint is chosen on 10 of the training images" in log_of("a")
    for split, row, images in (("val", best, 10), ("test", test[0], 10)):
        seen = json.loads(expect(lathe("eval", "--run-dir", "a", "--split", split, "--json"), 0).stdout.splitlines()[0])
        assert seen["images"] == images and seen["accuracy"] == row["accuracy"] and abs(seen["loss"] - row["loss"]) < 1e-6 * row["loss"], (seen, row)
    assert json.loads(expect(lathe("eval", "--run-dir", "a", "--split", "train", "--json"), 0).stdout.splitlines()[0])["images"] == 40
    assert "validation accuracy" in expect(train("b", *SPLIT, "--max-steps", 1), 0).stdout

    expect(train("plain", "--max-steps", 1), 0)
    assert "the best checkpoint is chosen on the 10 test images, so its accuracy is optimistic; --val-split 0.1 avoids that" in log_of("plain") and not rows("plain", "test")
    expect_one_line(lathe("eval", "--run-dir", "plain", "--split", "val"), 2, "--split val needs the --val-split")


def test_the_target_is_one_of_the_part_that_chooses(folder):
    expect(train("a", *SPLIT, "--max-steps", 1, "--target-acc", 1), 7, "--target-acc: the best validation accuracy is ")
    expect(train("b", "--max-steps", 1, "--target-acc", 1), 7, "--target-acc: the best test accuracy is ")


def test_fractions_that_leave_nothing_are_refused(folder):
    for fraction in ("nan", "-0.1", "inf", "1.5"):
        expect_one_line(train("a", "--val-split", fraction), 2, "--val-split")
    expect_one_line(train("a", "--val-split", 1), 2, "--val-split 1 leaves no image to train on")
    expect_one_line(train("a", "--val-split", 0.001), 2, "--val-split 0.001: 50 training images of 10 classes are too few")
    expect_one_line(train("a", "--early-stopping", -1), 2, "--early-stopping")
    expect_one_line(train("a", "--early-stopping", 2, "--eval-every", 0), 2, "--early-stopping needs evaluations: --eval-every 0 makes none")
    assert not pathlib.Path("a").exists()


def test_a_run_stops_when_it_gets_no_better(folder):
    still = ["--freeze", "backbone", "--lr", 1e-12, "--epochs", 9, "--augment", "none"]  # the accuracy stays what it is
    expect(train("a", *still, "--early-stopping", 2, "--json"), 0)
    assert [row["epoch"] for row in rows("a", "val")] == [1, 2, 3]
    assert "stopped early: no evaluation since epoch 1 was better than" in log_of("a")
    expect(train("b", *still, "--early-stopping", 2, "--eval-every", 3), 0)
    assert [row["epoch"] for row in rows("b", "val")] == [3, 6], rows("b", "val")
    before = pathlib.Path("a/last.safetensors").read_bytes()
    expect(lathe("train", "--resume", "a", "--quiet"), 0)  # it is over
    assert pathlib.Path("a/last.safetensors").read_bytes() == before
    expect(lathe("train", "--resume", "a", "--early-stopping", 4, "--quiet"), 0)
    assert [row["epoch"] for row in rows("a", "val")] == [1, 2, 3, 4, 5]
    result = expect(train("c", "--patience", 2, "--max-steps", 1, "--no-quiet"), 0)
    assert "--patience has no effect with --scheduler cosine, only with plateau; --early-stopping N ends a run early" in result.stderr


def test_interrupted_it_chooses_and_stops_as_if_it_was_not(folder):
    both = [*SPLIT, "--early-stopping", 2, "--ema", 0.9, "--amp", "fp16"]
    learning = [*both, "--epochs", 3, "--lr", 0.2]
    flags = [*both, "--epochs", 8, "--lr", 1e-7, "--freeze", "backbone"]  # the accuracy stays what it is
    for whole, parts, how in (("learned", "learned-parts", learning), ("whole", "parts", flags)):
        expect(train(whole, *how), 0)
        steps = rows(whole, "val")[-1]["step"]
        assert len(rows(whole, "test")) == 1, rows_of(whole)
        for position in range(3, steps + 1, 4):
            result = again(parts, "--stop-after", position) if position > 3 else train(parts, *how, "--stop-after", position)
            expect(result, 0)
        expect(again(parts), 0)
        check_equal(parts, whole)
        expect(again(parts), 0)  # over, and the test images are looked at again
        check_equal(parts, whole)
    assert "stopped early" in log_of("whole") and steps < 40, rows_of("whole")
    expect(again("parts", "--early-stopping", 0), 0)
    assert rows_of("parts")[:len(rows_of("whole")) - 1] == rows_of("whole")[:-1] and len(rows("parts", "test")) == 1
    expect_one_line(lathe("train", "--resume", "whole", "--val-split", 0.3, "--quiet"), 2, "val-split 0.2 → 0.3", "--allow-changes")
    verify = ["ckpt", "verify-resume", *TINY[:-1], *flags, "--epochs", 2, "--steps", 9]
    assert "identical after 9 steps" in expect(lathe(*verify), 0).stdout


def test_a_finished_run_in_a_new_folder_has_no_best_to_test(folder):
    expect(train("a", *SPLIT), 0)
    expect(lathe("train", "--resume", "a/last.safetensors", "--run-dir", "b", "--quiet"), 0)
    assert [row["step"] for row in rows("b", "test")] == [15] and not pathlib.Path("b/best.safetensors").exists()


def test_a_finished_run_with_averages_is_tested_with_them_in_a_new_folder(folder):
    expect(train("a", *SPLIT, "--ema", 0.9), 0)
    expect(lathe("train", "--resume", "a/last.safetensors", "--run-dir", "b", "--quiet"), 0)
    expect(train("c", *SPLIT, "--ema", 0.9, "--eval-every", 0), 0)  # its best is of the last step
    (got,), (want,) = rows("b", "test"), rows("c", "test")
    assert (got["step"], got["loss"], got["accuracy"]) == (15, want["loss"], want["accuracy"]), (got, want)
    plain = expect(lathe("eval", "--weights", "b/last.safetensors", "--run-dir", "b", "--split", "test", "--json"), 0)
    assert json.loads(plain.stdout.splitlines()[0])["loss"] != got["loss"], (plain.stdout, got)


def test_other_validation_images_begin_a_new_best(folder):
    """The accuracy so far is no measure of the next one. The weights of a finished run are evaluated again, and are the best."""
    expect(train("a", *SPLIT, "--lr", 0.05, "--scheduler", "plateau"), 0)
    change = ["--epochs", 4, "--lr", 0, "--allow-changes", "--no-quiet"]
    result = expect(lathe("train", "--resume", "a", "--val-split", 0.4, *change), 0)
    said = "the evaluations use other images or views than before: the best accuracy so far no longer counts"
    assert said in result.stderr and said in log_of("a"), result.stderr
    assert "evaluated 10 images of train → 20 images of train" in result.stderr, result.stderr
    trainer, last = values_of("a/last.safetensors", "trainer."), rows("a", "val")[-1]
    assert trainer["best_accuracy"] == [last["accuracy"]] and trainer["best_epoch"] == [4], trainer
    assert values_of("a/last.safetensors", "scheduler.")["best"] == [last["loss"]]
    assert metadata_of("a/best.safetensors")["lathe.epoch"] == "4" and len(rows("a", "test")) == 1
    # A run that is over looks at the other images once, and then at the test images.
    result = expect(again("a", "--val-split", 0.3, "--allow-changes", "--json"), 0)
    done = json.loads(result.stdout.splitlines()[-1])
    assert done["best_accuracy"] == rows("a", "val")[-1]["accuracy"] and done["best_epoch"] == 4, done
    # The same images: the best stays.
    result = expect(lathe("train", "--resume", "a", "--epochs", 5, "--no-quiet"), 0)
    assert said not in result.stderr, result.stderr


def test_early_stopping_of_a_run_that_skips_every_step(folder):
    # Nothing moves but the batch norms' statistics, unless these are frozen.
    flags = ["--epochs", 9, "--early-stopping", 2, "--amp", "fp16", "--loss-scale", 1e30, "--freeze", "*bn?"]
    expect(train("a", *flags), 6, "the gradients of all 21 steps were inf or nan, so every step was skipped")
    assert [row["epoch"] for row in rows("a", "val")] == [1, 2, 3] and len({row["accuracy"] for row in rows("a", "val")}) == 1
    assert "stopped early: no evaluation since epoch 1 was better" in log_of("a")
    assert values_of("a/last.safetensors", "trainer.")["step"] == [21]


def test_a_signal_during_the_last_look_leaves_the_run_to_be_resumed(folder):
    flags = [*SPLIT, "--epochs", 1, "--batch-size", 1, "--synthetic-size", 2000, "--max-steps", 2]
    expect(train("whole", *flags), 0)
    process = start("train", *TINY, "--run-dir", "a", *flags)
    metrics = pathlib.Path("a/metrics.jsonl")
    while process.poll() is None and not (metrics.exists() and '"split":"val"' in metrics.read_text()):
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    if process.returncode in (0, -signal.SIGTERM):
        raise Skip("it ended before the signal, or was about to")
    assert process.returncode == 143, errors
    expect(again("a"), 0)
    check_equal("a", "whole")


def test_a_last_batch_of_one_image_is_refused_where_a_batch_norm_cannot_take_it(folder):
    # After two strides 4 x 4 images are one pixel, 8 x 8 ones are four.
    def small(size, batch, *more, side=4):
        return lathe("train", "--dataset", "synthetic", "--synthetic-size", size, "--model", "resnet8", "--image-size", side, "--batch-size", batch, "--epochs", 1, "--threads", 1, "--quiet",
                     "--run-dir", "r", *more)
    refused, why = "has one image, which cannot be trained on: CifarResNet.layer3.0.bn1: ", "training needs more than one value per channel"
    for more in ([], ["--accumulate", 2], ["--dry-run"]):
        expect_one_line(small(9, 4, *more), 2, "the last of 3 batches of 9 images " + refused, why, "; --drop-last leaves it out")
    expect_one_line(small(10, 2, "--val-split", 0.1), 2, "the last of 5 batches of 9 images " + refused)  # 9 are left
    expect_one_line(small(8, 1), 2, "a batch of one image cannot be trained on: ", "a larger --batch-size")
    assert not pathlib.Path("r").exists()
    for run in (small(9, 4, "--drop-last", "--dry-run"), small(9, 4, "--max-steps", 2, "--dry-run"), small(10, 4, "--dry-run"), small(9, 4, "--dry-run", side=8)):
        expect(run, 0)
    expect(small(9, 4, "--freeze", "bn1,layer*"), 0)  # frozen batch norms use their running statistics


def test_a_folder_with_val_and_test_chooses_by_val(folder):
    counts = {"train": 4, "val": 3, "test": 2}

    def fill(part):
        for name, grey in (("dark", 40), ("light", 200)):
            for k in range(counts[part]):
                write_png(folder / "images" / part / name / f"{k}.png", 16, [bytes([grey + k] * 48)] * 16)
    fill("train"), fill("test")
    flags = ["--dataset", "folder", "--data-root", "images", "--model", "resnet8", "--image-size", 16, "--batch-size", 4, "--log-every", 9]
    result = lathe("train", *flags, "--run-dir", "before", "--epochs", 1, "--quiet")
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    expect(result, 0)
    fill("val")
    expect(lathe("train", *flags, "--run-dir", "a", "--epochs", 2, "--quiet"), 0)
    assert "the best checkpoint is chosen on the 6 images of val; those of test are evaluated once, at the end" in log_of("a")
    assert len(rows("a", "val")) == 2 and len(rows("a", "test")) == 1, rows_of("a")
    best = max(rows("a", "val"), key=lambda row: row["accuracy"])
    for split, row, images in (("val", best, 6), ("test", rows("a", "test")[0], 4)):
        seen = json.loads(expect(lathe("eval", "--run-dir", "a", "--split", split, "--json"), 0).stdout.splitlines()[0])
        assert seen["images"] == images and seen["accuracy"] == row["accuracy"], (seen, row)
    report = [json.loads(line) for line in expect(lathe("data", "verify", "./images", "--json"), 0).stdout.splitlines()]
    assert {row["part"]: row["images"] for row in report if row["event"] == "verified"} == {part: 2 * n for part, n in counts.items()}
    # --val-split takes its images from train, as without val.
    expect(lathe("train", *flags, "--run-dir", "b", "--epochs", 1, "--val-split", 0.5, "--quiet"), 0)
    assert "the best checkpoint is chosen on 4 of the training images" in log_of("b")
    expect_one_line(lathe("train", "--resume", "before", "--epochs", 2, "--quiet"), 2, "evaluated 4 images of test → 6 images of val")
    expect(lathe("train", "--resume", "before", "--epochs", 2, "--allow-changes", "--quiet"), 0)
    assert "the evaluations use other images or views than before" in log_of("before")
    result = expect(lathe("data", "prepare", "x.pack", "--dataset", "folder", "--data-root", "images"), 0)
    assert "the images of images/val are left out" in result.stderr and "8 images for training, 4 for testing" in result.stdout, result


def grey_classes(root, **counts):
    for name, count in counts.items():
        for k in range(count):
            write_png(root / name / f"{k}.png", 16, [bytes([(40 if name == "dark" else 200) + k] * 48)] * 16)


def test_images_without_a_test_part_are_divided(folder):
    """ImageFolder's layout, train alone, and a packed file of it: 20 images, of which 4 are for the test and 4 of the others choose."""
    small = ["--model", "resnet8", "--image-size", 16, "--batch-size", 4, "--epochs", 2, "--quiet", "--seed", 3]
    way = "--val-split 0.2 takes a fifth of the images for the test"
    grey_classes(folder / "plain", dark=12, light=8)
    grey_classes(folder / "half/train", dark=12, light=8)
    result = lathe("data", "prepare", "x.pack", "--dataset", "folder", "--data-root", "plain")
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    assert "20 images for training, 0 for testing" in expect(result, 0).stdout
    for root, found in (("plain", "has the folders dark, light; wanted are"), ("half", "has the folder train; wanted are"), ("x.pack", "has no test images")):
        expect_one_line(lathe("train", "--data-root", root, *small, "--run-dir", "none"), 3, f"{root}: {found}", way)
        assert not pathlib.Path("none").exists()
        run = f"run-{root}"
        expect(lathe("train", "--data-root", root, "--val-split", 0.2, *small, "--run-dir", run), 0)
        assert f"{root} has no test images: 4 of its 20 become the test set, evaluated once at the end; the best checkpoint is chosen on 3 others" in log_of(run), log_of(run)
        best, (test,) = max(rows(run, "val"), key=lambda row: row["accuracy"]), rows(run, "test")
        for call in (["--run-dir", run], ["--weights", f"{run}/best.safetensors"]):  # a checkpoint says how it is divided
            for split, row, images in (("val", best, 3), ("test", test, 4)):
                seen = json.loads(expect(lathe("eval", *call, "--split", split, "--json"), 0).stdout.splitlines()[0])
                assert (seen["images"], seen["accuracy"]) == (images, row["accuracy"]), (call, split, seen, row)
            assert json.loads(expect(lathe("eval", *call, "--split", "train", "--json"), 0).stdout.splitlines()[0])["images"] == 13
        assert len(expect(lathe("predict", "--run-dir", run), 0).stdout.splitlines()) == 1 + 4  # a heading, and fewer rows than the usual 16
        expect(lathe("train", "--data-root", root, "--val-split", 0.2, *small, "--run-dir", f"{run}-parts", "--stop-after", 3), 0)
        expect(lathe("train", "--resume", f"{run}-parts", "--quiet"), 0)
        check_equal(f"{run}-parts", run)
        expect_one_line(lathe("train", "--resume", run, "--epochs", 3, "--seed", 4, "--quiet"), 2, "seed 3 → 4")
        expect_one_line(lathe("train", "--data-root", root, "--val-split", 0.02, *small, "--run-dir", "none"), 2, "20 training images of 2 classes are too few: none would be left to")
    # Where the run's data set is named as well, it is still divided as the run did.
    call = ["--weights", "run-plain/best.safetensors", "--dataset", "folder", "--data-root", "plain", "--model", "resnet8", "--image-size", 16]
    seen = json.loads(expect(lathe("eval", *call, "--split", "test", "--json"), 0).stdout.splitlines()[0])
    assert (seen["images"], seen["accuracy"]) == (4, rows("run-plain", "test")[0]["accuracy"]), seen
    # What is given counts more than what the run was trained with.
    seen = json.loads(expect(lathe("eval", "--run-dir", "run-plain", "--split", "train", "--val-split", 0, "--json"), 0).stdout.splitlines()[0])
    assert seen["images"] == 20, seen
    for root, inside in (("plain", "plain/run"), ("half", "half/train/run")):  # it would be a class when the images are next opened
        expect_one_line(lathe("train", "--data-root", root, "--val-split", 0.2, *small, "--run-dir", inside), 2, f"--run-dir: {inside} lies in ",
                        "each folder of which is a class")
        expect_one_line(lathe("train", "--data-root", root, "--val-split", 0.2, *small, "--run-dir", inside, "--dry-run"), 2, "each folder of which is a class")
        assert not pathlib.Path(inside).exists()
    assert "identical" in expect(lathe("ckpt", "verify-resume", "--run-dir", "run-plain", "--steps", 6), 0).stdout
    rows_of_verify = expect(lathe("data", "verify", "./half", "--json"), 0).stdout.splitlines()
    assert [json.loads(line)["part"] for line in rows_of_verify if '"verified"' in line] == ["train"]
    os.rename("half", "folder")  # a folder of that name is meant
    assert expect(lathe("data", "verify", "folder", "--json"), 0).stdout.splitlines() == rows_of_verify


def test_few_images_get_small_batches_and_small_images(folder):
    grey_classes(folder / "a/train", dark=30, light=30)
    grey_classes(folder / "a/test", dark=2, light=2)
    call = ["train", "--data-root", "a", "--device", "cpu", "--model", "resnet8", "--max-steps", 1]
    result = lathe(*call, "--run-dir", "run")
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    chosen = "chosen for about 60 training images: --image-size 64, --batch-size 8, --lr 0.00625, --epochs 60\n"
    expect(result, 0, chosen)
    config = pathlib.Path("run/config.toml").read_text()
    for line in ("image-size = 64", "batch-size = 8", "lr = 0.00625", "epochs = 60"):
        assert f"\n{line}\n" in config, config
    assert "chosen for" not in expect(lathe("train", "--resume", "run", "--max-steps", 2), 0).stderr
    # Everything that is given stays, and a run that has other values keeps them.
    given = [*call, "--image-size", 16, "--batch-size", 20, "--lr", 0.1, "--epochs", 2]
    assert "chosen for" not in expect(lathe(*given, "--run-dir", "given"), 0).stderr
    expect(lathe("train", "--resume", "given", "--max-steps", 2, "--quiet"), 0)
    config = pathlib.Path("given/config.toml").read_text()
    assert "\nimage-size = 16\n" in config and "\nbatch-size = 20\n" in config and "\nlr = 0.1\n" in config, config
    expect(lathe("find-lr", *call[1:-2], "--sweep-steps", 12), 0, "chosen for about 60 training images: --image-size 64, --batch-size 8\n")
    grey_classes(folder / "b", dark=5, light=5)
    expect(lathe("train", "--data-root", "b", *call[3:], "--val-split", 0.2, "--run-dir", "b-run"), 0, "chosen for about 6 training images: ")


def test_folders_that_are_no_classes_are_not_divided(folder):
    """A folder above the right one, parts without classes, and one folder alone. Without --dataset, too, where there are images."""
    grey_classes(folder / "above/shapes/train", dark=2, light=2)
    grey_classes(folder / "above/pets", dark=2, light=2)
    for part in ("training", "testing"):
        grey_classes(folder / "flat" / part, **{".": 2})
    grey_classes(folder / "one", dark=2)
    flat = "flat/training holds 2 images, and no folders; each class needs a folder of its images: flat/training/cat/1.jpg"
    one = "one: has the folder dark; wanted are train and test"
    above = "above: has the folders pets, shapes; wanted are train and test (or val), each with a folder of images per class: above/train/cat/1.jpg, above/test/cat/2.jpg; above/pets has folders of images: name it with --data-root\n"
    for root, found in (("above", above), ("flat", flat), ("one", one), ("one/dark", "one/dark holds 2 images, and no folders")):
        call = ["train", "--data-root", root, "--val-split", 0.4, "--model", "resnet8", "--dry-run", "--quiet"]
        result = lathe(*call, "--dataset", "folder")
        expect_one_line(result, 3, found)
        assert "--val-split" not in result.stderr, result.stderr
        expect_one_line(lathe(*call), 3, found)


def test_parts_and_classes_are_understood_by_their_names(folder):
    small = ["--model", "resnet8", "--image-size", 8, "--batch-size", 4, "--epochs", 1, "--quiet"]
    for part, count in (("Train", 4), ("valid", 3), ("TESTING", 2)):
        grey_classes(folder / "a" / part, dark=count, light=count)
    result = lathe("train", "--data-root", "a", *small, "--run-dir", "three")
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    expect(result, 0)
    assert "the best checkpoint is chosen on the 6 images of valid; those of TESTING are evaluated once, at the end" in log_of("three")
    (test,) = rows("three", "test")
    seen = json.loads(expect(lathe("eval", "--run-dir", "three", "--split", "test", "--json"), 0).stdout.splitlines()[0])
    assert (seen["images"], seen["accuracy"]) == (4, test["accuracy"]), (seen, test)
    verified = [json.loads(line) for line in expect(lathe("data", "verify", "a", "--json"), 0).stdout.splitlines()]
    assert [(row["part"], row["images"]) for row in verified if row["event"] == "verified"] == [("train", 8), ("val", 6), ("test", 4)]
    expect_one_line(lathe("train", "--data-root", "a", *small, "--run-dir", "a/TESTING/run"), 2, "each folder of which is a class")
    # A class that is called like a part.
    grey_classes(folder / "vehicles", dark=4, light=4, train=4)
    expect(lathe("train", "--data-root", "vehicles", "--val-split", 0.3, *small, "--run-dir", "classes"), 0)
    classes = [json.loads(line)["name"] for line in expect(lathe("eval", "--run-dir", "classes", "--json", "--no-quiet"), 0).stdout.splitlines() if '"event":"class"' in line]
    assert classes == ["dark", "light", "train"], classes


def test_a_folder_is_divided_by_class_and_broken_files_stay_in_their_part(folder):
    for part in ("train", "test"):
        for name, count, grey in (("many", 9, 40), ("one", 1, 200)):
            for k in range(count):
                write_png(folder / "images" / part / name / f"{k}.png", 16, [bytes([grey + k] * 48)] * 16)
    flags = ["--dataset", "folder", "--data-root", "images", "--model", "resnet8", "--image-size", 16, "--batch-size", 4, "--quiet"]
    result = lathe("train", *flags, "--run-dir", "a", "--val-split", 0.3, "--max-steps", 1)
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    expect(result, 0)

    def counts(split):
        lines = expect(lathe("eval", "--run-dir", "a", "--split", split, "--json", "--skip-broken", "--no-quiet"), 0).stdout.splitlines()
        return [json.loads(line)["images"] for line in lines if '"event":"class"' in line]
    # The class with one image keeps it for training.
    assert counts("val") == [3, 0] and counts("train") == [6, 1], (counts("val"), counts("train"))
    for k in range(9):
        path = folder / "images" / "train" / "many" / f"{k}.png"
        path.write_bytes(path.read_bytes()[:60])
    (folder / "images/train/many/4.png").unlink()
    write_png(folder / "images/train/many/4.png", 16, [bytes([44] * 48)] * 16)
    # Image 4 is in one of the parts; the other part of this class has nothing that could be read.
    results = [lathe("eval", "--run-dir", "a", "--split", split, "--json", "--skip-broken", "--no-quiet") for split in ("val", "train")]
    labels = [sum(json.loads(line)["images"] for line in r.stdout.splitlines() if '"event":"class"' in line) for r in results]
    assert [r.returncode for r in results] in ([3, 0], [0, 0]) and labels in ([0, 7], [3, 7]), (labels, results)


main(globals())
