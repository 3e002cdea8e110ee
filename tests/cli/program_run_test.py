#!/usr/bin/env python3
"""`lathe train --resume` on the run of a program that trains with train::Trainer (begun_by_program.cpp).

    program_run_test.py LATHE --program=BEGUN_BY_PROGRAM [--sanitized]
"""
import json
import pathlib
import subprocess
import sys

from driver import environment, expect, expect_one_line, lathe, main
from runs import rows_of, write_png

PROGRAM = next(word.partition("=")[2] for word in sys.argv if word.startswith("--program="))
DATA = ["--dataset", "synthetic", "--synthetic-size", 60, "--augment", "none"]
SAME = [*DATA, "--batch-size", 10, "--layout", "nchw", "--device", "cpu", "--threads", 2]  # as the program has it


def program(run, pause=0, variant=""):
    subprocess.run([PROGRAM, run, str(pause), variant], check=True, timeout=300, env=environment())


def state(run):
    """The bytes of the checkpoint's tensors, but of those that count rows of metrics and samples of evaluations."""
    data = (run / "last.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: data[8 + size:][slice(*entry["data_offsets"])] for name, entry in header.items() if name != "__metadata__"}


def test_the_command_goes_on_with_the_bits_of_the_program(folder):
    program("whole")
    for pause in (8, 6, 0):
        program(f"paused{pause}", pause)
        result = expect(lathe("train", "--resume", f"paused{pause}", *SAME), 0, f"going on from paused{pause}/last.safetensors, step {pause or 18}",
                        "chosen: --model resnet8", "in place of the program's")
        assert "changed since" not in result.stderr and "other than before" not in result.stderr, result.stderr
        whole, here = state(folder / "whole"), state(folder / f"paused{pause}")
        assert whole.keys() == here.keys()
        assert [name for name in whole if whole[name] != here[name]] == []
    assert [row["loss"] for row in rows_of("paused8", "val")] == [row["loss"] for row in rows_of("whole", "val")]
    expect(lathe("train", "--resume", "paused8", "--epochs", 4), 0, "other than before: epochs 3 → 4")  # now a run of the command
    config = (folder / "paused8/config.toml").read_text()
    for line in ('optimizer = "sgd"', "lr = 0.05", "momentum = 0.8", "weight-decay = 0.001", 'scheduler = "none"', "clip-grad-norm = 2.5", "log-every = 3"):
        assert f"\n{line}\n" in config, (line, config)


def test_one_error_names_the_flags_that_are_missing(folder):
    program("a", 4)
    program("scheduled", 4, "schedule")
    program("named", 4, "named")
    begin = "is of a program, and lacks settings that the command needs: add "
    expect_one_line(lathe("train", "--resume", "a"), 2, f"--resume: a/last.safetensors {begin}--dataset, --batch-size\n")
    expect_one_line(lathe("train", "--resume", "a", "--data-root", "."), 2, f"{begin}--batch-size\n")
    expect_one_line(lathe("train", "--resume", "auto", "--run-dir", "a", "--batch-size", 10), 2, f"{begin}--dataset\n")
    expect_one_line(lathe("train", "--resume", "scheduled", *DATA), 2, f"{begin}--scheduler, --batch-size\n")
    expect_one_line(lathe("train", "--resume", "named"), 2, f"{begin}--batch-size\n")
    (folder / "job.toml").write_text('dataset = "synthetic"\nsynthetic-size = 60\nbatch-size = "auto"\n')
    expect_one_line(lathe("train", "--resume", "a", "--config", "job.toml"), 2, f"{begin}--batch-size\n")
    assert not (folder / "a/config.toml").exists()
    expect(lathe("train", "--resume", "a", "--config", "job.toml", "--batch-size", 10, "--stop-after", 5), 0)
    expect(lathe("train", "--resume", "scheduled", *SAME, "--scheduler", "cosine", "--stop-after", 5, "--quiet"), 0)


def test_what_the_program_had_otherwise_is_a_change(folder):
    program("a", 4)
    again = ["train", "--resume", "a"]
    expect_one_line(lathe(*again, *SAME, "--batch-size", 12), 2, "other settings (batches in an epoch 6 → 5)", "--allow-changes")
    expect_one_line(lathe(*again, *SAME, "--momentum", 0.5), 2, "other settings (momentum 0.8 → 0.5)")
    expect_one_line(lathe(*again, *SAME, "--lr", 0.1), 2, "other settings (lr 0.05 → 0.1)")
    expect_one_line(lathe(*again, *SAME, "--model", "resnet20", "--allow-changes"), 3, "a/last.safetensors")
    expect(lathe(*again, *SAME, "--lr", 0.1, "--allow-changes", "--stop-after", 5), 0, "lr 0.05 → 0.1")
    program("dampened", 4, "dampened")
    changed = ["train", "--resume", "dampened", *SAME]
    expect_one_line(lathe(*changed), 2, "hyper-parameters that have no flag (dampening 0.1 → 0)", "--allow-changes")
    expect(lathe(*changed, "--allow-changes", "--stop-after", 5, "--quiet"), 0)


def test_an_average_and_another_optimiser_go_on(folder):
    program("whole", 0, "adamw")
    program("a", 8, "adamw")
    expect(lathe("train", "--resume", "a", *SAME), 0)
    whole, here = state(folder / "whole"), state(folder / "a")
    assert [name for name in whole if whole[name] != here.get(name)] == []
    assert any(name.startswith("ema.") for name in whole)


def test_a_run_that_no_flags_continue_is_refused(folder):
    program("a", 4, "by-loss")
    expect_one_line(lathe("train", "--resume", "a", *SAME), 3, "a program that does not choose its best by accuracy", "resume it with that program")
    program("b", 4, "by-epoch")
    expect_one_line(lathe("train", "--resume", "b", *SAME), 3, "a program that steps its schedule once an epoch")


def test_other_commands_take_it_where_the_model_is_named(folder):
    program("a")
    write_png(pathlib.Path("x.png"), 4, [bytes(12)] * 4)
    for command in (["predict", "x.png"], ["predict", "--index", 0], ["eval"]):
        expect_one_line(lathe(*command, "--run-dir", "a"), 2, "a is the run of a program, and only that program knows the model. Load a/best.safetensors "
                        "in the program, or name the model here: --model NAME, FILE.pt2 or FILE.onnx")
    expect_one_line(lathe("eval", "--run-dir", "a", "--model", "resnet8"), 2, "which data set it is for; name that with --dataset")
    best = max(rows_of("a", "val"), key=lambda row: row["accuracy"])
    shown = expect(lathe("eval", "--run-dir", "a", "--model", "resnet8", *DATA[:4], "--json"), 0).stdout.splitlines()
    seen = next(row for row in map(json.loads, shown) if row["event"] == "eval")
    assert seen["accuracy"] == best["accuracy"] and abs(seen["loss"] - best["loss"]) < 1e-4 * best["loss"], (seen, best)
    expect(lathe("predict", "--run-dir", "a", "--model", "resnet8", "x.png"), 0)
    for command in ("doctor", "ckpt verify-resume"):
        expect_one_line(lathe(*command.split(), "--run-dir", "a"), 2, f"--run-dir: a has no config.toml (the run of a program has none), and lathe {command} needs "
                        "its settings: give them as flags")
    expect(lathe("report", "a"), 0)
    page = pathlib.Path("a/report.html").read_text()
    assert "The run could not be evaluated: a is the run of a program" in page and "config.toml is missing" not in page, page[:3000]
    assert "missing" not in expect(lathe("watch", "a", "--once"), 0).stdout


def test_a_damaged_checkpoint_is_named(folder):
    program("a")
    for name, reasons in (("last", ["could not be evaluated: a is the run of a program"]),  # the best one says whose run it is
                          ("best", ["could not be evaluated: a/last.safetensors: ", "There is no config.toml either"])):
        (folder / f"a/{name}.safetensors").write_bytes(b"damaged")
        expect(lathe("report", "a"), 0)
        page = pathlib.Path("a/report.html").read_text()
        watched = expect(lathe("watch", "a", "--once"), 0).stdout
        assert all(reason in page for reason in reasons) and "config.toml is missing" not in page, page[:3000]
        assert "missing" not in watched and (name == "last" or "a/last.safetensors: " in watched), watched


def test_a_folder_that_is_no_run_is_called_what_it_is(folder):
    (folder / "empty").mkdir()
    (folder / "all/b").mkdir(parents=True)
    (folder / "file").touch()
    for command in (["eval"], ["predict", "x.png"], ["doctor"], ["ckpt", "verify-resume"]):
        expect_one_line(lathe(*command, "--run-dir", "nowhere"), 3, "--run-dir: there is no nowhere")
        expect_one_line(lathe(*command, "--run-dir", "empty"), 3, "--run-dir: empty is an empty folder")
        expect_one_line(lathe(*command, "--run-dir", "all"), 3, "--run-dir: all holds no run (no config.toml, log, metrics or checkpoint)\n")
        expect_one_line(lathe(*command, "--run-dir", "file"), 2, "--run-dir: file is a file; did you mean --weights file?")
    (folder / "all/b/config.toml").touch()
    expect_one_line(lathe("eval", "--run-dir", "all"), 3, "all holds no run", "; did you mean --run-dir all/b?\n")


main(globals())
