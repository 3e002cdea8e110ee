#!/usr/bin/env python3
"""Training that is interrupted and goes on ends where the uninterrupted one ends, bit by bit.

    resume_test.py LATHE [--sanitized]
"""
import csv
import itertools
import json
import os
import pathlib
import shutil
import struct
import zlib

from driver import SANITIZED, Skip, expect, expect_one_line, lathe, main
from short_run import TINY, check_equal, config_of, last_of, log_of, rows_of, train

POSITIONS = [1, 3, 6, 7, 8, 10, 13, 14, 15, 20]  # first step, inside, the borders of epochs and both sides of them


def test_interrupted_at_ten_positions_it_ends_as_if_it_was_not(folder):
    for optimizer in ("adam",) if SANITIZED else ("sgd", "adam"):
        for amp in ("off",) if SANITIZED else ("off", "bf16"):
            flags = ["--optimizer", optimizer, "--amp", amp, "--lr", 0.01]
            expect(train("whole", *flags), 0)
            for workers in (0, 4):
                for position in POSITIONS:
                    begun = ["--resume", "auto"] if position != POSITIONS[0] else flags
                    expect(train("parts", *begun, "--workers", workers, "--stop-after", position), 0)
                    assert f"stopped after step {position}" in log_of("parts")
                expect(train("parts", "--resume", "auto", "--workers", workers), 0)
                check_equal("parts", "whole")
                shutil.rmtree("parts")
            shutil.rmtree("whole")


def test_each_position_alone(folder):
    flags = ["--optimizer", "adam", "--amp", "fp16", "--accumulate", 2, "--init-scale", 1e5, "--growth-interval", 2]  # 4 steps are an epoch
    expect(train("whole", *flags), 0)
    for position in (1, 2, 3, 4, 5, 7, 8, 9, 11):
        run = f"at-{position}"
        expect(train(run, *flags, "--stop-after", position), 0)
        expect(lathe("train", "--resume", run, "--quiet"), 0)  # everything else is known from the run
        check_equal(run, "whole")


def test_a_run_that_is_complete_says_so_and_how_to_go_on(folder):
    first = expect(train("a", "--no-quiet"), 0)
    assert "complete" not in first.stderr, first.stderr
    before = {file.name: file.read_bytes() for file in pathlib.Path("a").iterdir() if file.name != "log.txt"}
    best = 100 * max(row["accuracy"] for row in rows_of("a") if row["split"] == "val")
    says = (f"this run is complete: 3 of 3 epochs, best accuracy {best:.2f} %. `lathe report a` makes its report; "
            "`lathe train --resume a --epochs N` with a larger N trains longer; another --run-dir begins a new run\n")
    again = expect(train("a", "--resume", "auto", "--no-quiet"), 0, says)
    assert again.stdout.startswith("test accuracy"), again.stdout
    assert before == {file.name: file.read_bytes() for file in pathlib.Path("a").iterdir() if file.name != "log.txt"}
    longer = expect(lathe("train", "--resume", "a", "--epochs", 4), 0)
    assert "complete" not in longer.stderr and rows_of("a")[-1]["epoch"] == 4, longer.stderr
    expect(train("b", "--max-steps", 2, "--quiet"), 0)
    expect(lathe("train", "--resume", "b"), 0, "this run is complete: 1 of ", "`lathe train --resume b --max-steps N`")
    expect(train("c", "--stop-after", 2, "--quiet"), 0)
    assert "complete" not in expect(lathe("train", "--resume", "c"), 0).stderr


def test_a_run_that_is_resumed_elsewhere_or_from_an_older_file(folder):
    expect(train("whole", "--save-every", 2, "--keep", 100), 0)
    steps = sorted(int(p.stem[5:]) for p in pathlib.Path("whole").glob("step-*.safetensors"))
    assert steps == [2, 4, 6, 7, 8, 10, 12, 14, 16, 18, 20, 21], steps
    expect(lathe("train", "--resume", "whole/step-8.safetensors", "--run-dir", "fork", "--save-every", 0, "--quiet"), 0)
    result = expect(lathe("ckpt", "diff", "fork/last.safetensors", "whole/last.safetensors"), 7)
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["trainer.metrics_rows"], result.stdout
    assert rows_of("fork") == [row for row in rows_of("whole") if row["step"] > 8]
    shutil.copytree("whole", "back")
    expect(lathe("train", "--resume", "back/step-10.safetensors", "--stop-after", 10, "--quiet"), 0)
    assert max(int(p.stem[5:]) for p in pathlib.Path("back").glob("step-*.safetensors")) == 10
    expect(lathe("train", "--resume", "auto", "--run-dir", "back", "--keep", 3, "--quiet"), 0)
    check_equal("back", "whole")
    assert len(list(pathlib.Path("back").glob("step-*.safetensors"))) == 3
    # The good state of a run that begins has no momentum, that of one that goes on has. The file's state is not held.
    whole, back = (list(csv.DictReader(open(f"{run}/metrics.csv")))[-1] for run in ("whole", "back"))
    more = int(back["memory_peak_other"]) - int(whole["memory_peak_other"])
    assert more < 1.5 * int(whole["memory_peak_weights"]), (more, whole, back)
    expect(lathe("eval", "--run-dir", "back", "--weights", "back/step-21.safetensors"), 0)


def test_going_back_removes_what_was_best_later(folder):
    expect(train("a", "--save-every", 1, "--keep", 100), 0)
    best = pathlib.Path("a/best.safetensors")
    of_step = int(json.loads(lathe("ckpt", "show", best, "--json").stdout.splitlines()[-1])["lathe.step"])
    for step in (20, 14, 8, 7, 1):
        expect(lathe("train", "--resume", f"a/step-{step}.safetensors", "--stop-after", 1, "--quiet"), 0)
        assert f"stopped after step {step} by --stop-after" in log_of("a")
        assert best.exists() == (of_step <= step), (of_step, step)

    # The best before is gone: the best of what follows takes its place, though it is not as good.
    expect(train("b", "--keep", 100), 0)
    stand_still = ["--lr", 1e-12, "--allow-changes", "--stop-after", 21, "--quiet"]
    pathlib.Path("b/best.safetensors").unlink()
    expect(lathe("train", "--resume", "b/step-7.safetensors", *stand_still), 0)
    assert pathlib.Path("b/best.safetensors").exists()
    expect(lathe("train", "--resume", "b/step-7.safetensors", "--run-dir", "c", *stand_still), 0)
    assert pathlib.Path("c/best.safetensors").exists()


def test_a_config_file_and_resume_auto_are_the_one_line_of_a_job(folder):
    text = config_of(TINY)
    job = ["train", "--config", "job.toml", "--resume", "auto"]
    pathlib.Path("job.toml").write_text(text + 'run-dir = "a"\n')
    expect(lathe(*job, "--stop-after", 5), 0)
    expect(lathe(*job), 0)
    expect(train("whole"), 0)
    check_equal("a", "whole")
    pathlib.Path("job.toml").write_text(text + 'run-dir = "b"\nresume = "auto"\n')
    expect(lathe(*job[:-2], "--stop-after", 5), 0)
    expect(lathe(*job[:-2], "--stop-after", 9), 0)
    # What the file says counts as a flag does: below flags and environment, above the settings of the run.
    pathlib.Path("job.toml").write_text(text + 'run-dir = "b"\nlr = 0.5\n')
    expect_one_line(lathe(*job), 2, "was made with other settings (lr ")
    before = lathe("train", "--resume", "b", "--dry-run", "--quiet").stdout
    lr = next(line for line in before.splitlines() if line.startswith("lr = "))[5:]
    assert lathe(*job, "--lr", lr, "--dry-run").stdout == lathe(*job, "--dry-run", env={"LATHE_LR": lr}).stdout == before
    expect(lathe(*job, "--lr", lr), 0)
    check_equal("b", "whole")
    # A job that ended before its first checkpoint left a config.toml, with the rate chosen for SGD. It begins anew with the file.
    pathlib.Path("ended").mkdir()
    pathlib.Path("ended/config.toml").write_text(pathlib.Path("b/config.toml").read_text())
    pathlib.Path("job.toml").write_text('run-dir = "ended"\ndataset = "synthetic"\nmodel = "resnet8"\noptimizer = "adamw"\n')
    dry = lathe(*job, "--dry-run").stdout
    assert "lr = 0.001\n" in dry and 'optimizer = "adamw"\n' in dry, dry
    expect_one_line(lathe(*job[:2], "/dev/null", *job[3:]), 2, "--resume auto needs --run-dir")


def test_a_job_whose_settings_come_through_a_pipe_starts_and_restarts_with_one_line(folder):
    text = config_of([*TINY[:-1], "--run-dir", "a"])
    job = ["train", "--config", "/dev/stdin", "--resume", "auto", "--max-steps", 3]
    result = expect(lathe(*job, "--stop-after", 2, input=text), 0)
    assert "other than before" not in result.stderr, result.stderr
    # What the file leaves open stays as it was chosen, and a new length is told.
    result = expect(lathe(*job, input=text.replace('"resnet8"', '"auto"').replace("epochs = 3", "epochs = 2")), 0, "going on from a/last.safetensors, step 2")
    assert "other than before: epochs 3 → 2\n" in result.stderr and "other than before: epochs 3 → 2\n" in log_of("a"), result.stderr
    assert 'model = "resnet8"\n' in pathlib.Path("a/config.toml").read_text()


def test_a_config_file_cannot_lead_back_to_one_checkpoint_again_and_again(folder):
    expect(train("a", "--save-every", 1, "--max-steps", 3), 0)
    before = contents("a")
    pathlib.Path("job.toml").write_text('resume = "a/step-1.safetensors"\n')
    expect_one_line(lathe("train", "--config", "job.toml"), 2, "resume in job.toml is a/step-1.safetensors: every start with that config file would go back to this checkpoint")
    assert contents("a") == before
    pathlib.Path("job.toml").write_text('resume = "mnt/a"\n')  # a folder whose disk is not there: the job may be tried again
    expect_one_line(lathe("train", "--config", "job.toml"), 3, "lathe: resume in job.toml: there is no mnt/a\n")
    expect_one_line(lathe("train", "--resume", "mnt/a", "--run-dir", "b"), 3, "lathe: --resume: there is no mnt/a\n")
    expect_one_line(lathe("train", *TINY, env={"LATHE_RESUME": "mnt/a"}), 3, "lathe: LATHE_RESUME: there is no mnt/a\n")
    pathlib.Path("job.toml").write_text('resume = "a"\nrun-dir = "b"\nrecipe = "cifar10-94"\n')
    expect_one_line(lathe("train", "--config", "job.toml"), 2, "leave out run-dir in job.toml")
    expect_one_line(lathe("train", "--config", "job.toml", "--run-dir", "a"), 2, "it cannot take those of cifar10-94: leave out recipe in job.toml\n")
    expect_one_line(lathe("train", "--resume", "a", env={"LATHE_RECIPE": "cifar10-94"}), 2, "leave out LATHE_RECIPE")


def test_auto_takes_the_newest_whole_checkpoint_or_begins(folder):
    expect_one_line(lathe("train", *TINY, "--resume", "auto"), 2, "--resume auto needs --run-dir")
    expect_one_line(lathe("train", *TINY, "--resume", "nothing"), 3, "there is no nothing")
    expect(train("a", "--resume", "auto", "--save-every", 3, "--keep", 2, "--stop-after", 12), 0)
    damaged = bytearray(last_of("a"))
    damaged[-5] ^= 1
    pathlib.Path("a/last.safetensors").unlink()  # its other name, step-12, stays as it is
    pathlib.Path("a/last.safetensors").write_bytes(damaged)
    pathlib.Path("a/step-12.safetensors").write_bytes(damaged[:1000])
    pathlib.Path("a/last.safetensors.tmp99.0").write_bytes(b"left by a kill")
    shutil.copytree("a", "loud")
    assert expect(train("a", "--resume", "auto"), 0).stderr == ""  # --quiet
    remarks = log_of("a").partition("stopped after step 12")[2]
    assert all(text in remarks for text in ("warning: a/last.safetensors", "checksum", "warning: a/step-12.safetensors",
                                            "going on from a/step-9.safetensors")), remarks
    result = expect(lathe("train", "--resume", "loud"), 0, "warning: loud/last.safetensors", "warning: loud/step-12.safetensors")
    assert "checksum" in log_of("loud")
    assert not list(pathlib.Path("a").glob("*.tmp*"))
    expect(train("whole"), 0)
    check_equal("a", "whole")
    again = expect(train("a", "--resume", "auto", "--json"), 0)  # nothing is left to do
    assert json.loads(again.stdout.splitlines()[-1])["steps"] == 21
    check_equal("a", "whole")

    (folder / "b").mkdir()  # killed between the log and the first checkpoint
    (folder / "b" / "log.txt").write_text("")
    (folder / "b" / "metrics.jsonl").write_text('{"epoch":1,"step":4}\n')
    expect(train("b", "--resume", "auto"), 0)
    check_equal("b", "whole")
    assert len(list(pathlib.Path("b").glob("step-*.safetensors"))) == 3  # of --keep
    for path in pathlib.Path("b").glob("*.safetensors"):
        path.unlink()
        path.write_bytes(b"x")
    expect(train("b", "--resume", "auto"), 3, "none of the checkpoints in b can be read")


def test_auto_begins_again_without_a_checkpoint_and_keeps_the_rows(_):
    """Ended before its first checkpoint, or the checkpoints were taken away: no row of metrics is lost."""
    for number in (1, 2):
        expect(train("a", "--stop-after", 5, *(["--resume", "auto"] if number > 1 else [])), 0)
        before = {end: pathlib.Path(f"a/metrics.{end}").read_bytes() for end in ("jsonl", "csv")}
        for path in pathlib.Path("a").glob("*.safetensors"):
            path.unlink()
        expect(lathe("train", *TINY[:-1], "--run-dir", "a", "--resume", "auto", "--stop-after", 1), 0,
               f"warning: a holds no checkpoint, so the run begins again; the 2 rows of metrics so far are kept in metrics-before-{number}.jsonl")
        assert f"metrics-before-{number}.jsonl" in log_of("a")
        assert before == {end: pathlib.Path(f"a/metrics-before-{number}.{end}").read_bytes() for end in before}
    expect(train("b", "--stop-after", 5), 0)
    for path in pathlib.Path("b").glob("*.safetensors"):
        path.unlink()
    pathlib.Path("b/metrics.jsonl").write_text("")  # nothing to lose
    pathlib.Path("b/metrics.csv").write_text("epoch,")
    expect(train("b", "--resume", "auto", "--stop-after", 1), 0)
    assert not list(pathlib.Path("b").glob("metrics-before*"))


def test_a_checkpoint_that_cannot_be_looked_at_is_not_missing(folder):
    """On storage that is not mounted, or behind links that lead nowhere: nothing begins anew, and last does not stand in for best."""
    expect(train("a", "--stop-after", 9), 0)
    before = pathlib.Path("a/metrics.jsonl").read_bytes()
    (folder / "store").mkdir()
    for name in ("last.safetensors", "best.safetensors"):
        shutil.move(f"a/{name}", f"store/{name}")
        os.symlink(folder / "store" / name, f"a/{name}")
    (folder / "store").rename(folder / "away")
    for resume in ("auto", "a"):
        expect_one_line(train("a", "--resume", resume), 3, "a/last.safetensors: is a symbolic link to ", "which is not there")
    for command in (["eval"], ["predict"], ["predict", "x.png"]):
        expect(lathe(*command, "--run-dir", "a"), 3, "a/best.safetensors: is a symbolic link to ", "which is not there")
    os.symlink(folder / "nowhere", "run")
    expect_one_line(train("run", "--resume", "auto"), 3, "run: is a symbolic link to ")
    os.unlink("a/best.safetensors")
    os.symlink("best.safetensors", "a/best.safetensors")
    expect(lathe("eval", "--run-dir", "a", "--quiet"), 3, "a/best.safetensors: cannot look at: Too many levels of symbolic links")
    expect(lathe("report", "a", "--output", "r.html"), 0)
    assert "a/best.safetensors: cannot look at: Too many levels" in pathlib.Path("r.html").read_text()
    assert pathlib.Path("a/metrics.jsonl").read_bytes() == before
    os.unlink("a/best.safetensors")
    (folder / "away").rename(folder / "store")
    os.symlink(folder / "store/best.safetensors", "a/best.safetensors")
    expect(train("a", "--resume", "auto"), 0)
    expect(train("whole"), 0)
    check_equal("a", "whole")


def step_of(path):
    shown = expect(lathe("ckpt", "show", path, "--json"), 0).stdout.splitlines()
    return int(json.loads(shown[-1])["lathe.step"])


def steps_in(run):
    return sorted(int(path.stem[5:]) for path in pathlib.Path(run).glob("step-*.safetensors"))


def test_auto_takes_the_best_where_it_is_the_newest(folder):
    """Killed between writing best and last, or with last.safetensors lost."""
    often = ["--save-every", 3, "--keep", 100]
    expect(train("whole", *often), 0)
    best = step_of("whole/best.safetensors")
    newest_before = max(step for step in steps_in("whole") if step < best)
    for left, taken in (("best", "best"), ("damaged best", f"step-{newest_before}"), ("best and last", "last"), ("all steps", "step-21")):
        shutil.copytree("whole", "a")
        for step in steps_in("a"):
            if step >= best and left != "all steps":
                os.unlink(f"a/step-{step}.safetensors")
        if left != "best and last":
            os.unlink("a/last.safetensors")
        os.unlink("a/log.txt")
        if left == "damaged best":
            damaged = bytearray(pathlib.Path("a/best.safetensors").read_bytes())
            damaged[-5] ^= 1
            pathlib.Path("a/best.safetensors").write_bytes(damaged)
        expect(train("a", *often, "--resume", "auto"), 0)
        assert f"going on from a/{taken}.safetensors" in log_of("a"), (left, best, log_of("a"))
        check_equal("a", "whole")
        shutil.rmtree("a")


def test_auto_takes_averages_only_where_nothing_else_is_left(folder):
    ema = ["--ema", 0.9, "--save-every", 3, "--keep", 100, "--stop-after", 8]
    expect(train("a", *ema), 0)  # the best one is of step 7, and does not go on bit by bit
    for step in (7, 8):
        pathlib.Path(f"a/step-{step}.safetensors").unlink(missing_ok=True)
    os.unlink("a/last.safetensors")
    assert step_of("a/best.safetensors") == 7 and steps_in("a") == [3, 6]
    shutil.copytree("a", "b")
    expect(train("a", *ema, "--resume", "auto"), 0)
    assert "going on from a/step-6.safetensors" in log_of("a"), log_of("a")
    for step in (3, 6):
        os.unlink(f"b/step-{step}.safetensors")
    expect(train("b", *ema, "--resume", "auto"), 0)
    assert "going on from b/best.safetensors" in log_of("b"), log_of("b")


def test_what_changed_is_refused_unless_a_flag_says_so(folder):
    expect(train("a", "--stop-after", 10), 0)
    before = {path.name: path.read_bytes() for path in pathlib.Path("a").iterdir()}
    for key, value in (("batch-size", 4), ("model", "resnet20"), ("seed", 5), ("synthetic-size", 60), ("lr", 0.5), ("augment", "none"),
                       ("weights", "a/last.safetensors"), ("amp", "bf16")):
        result = lathe("train", "--resume", "auto", "--run-dir", "a", f"--{key}", value, "--quiet")
        expect_one_line(result, 2, "made with other settings", f"{key} ", f"→ {value}", "--allow-changes")
    pathlib.Path("other.toml").write_text(before["config.toml"].decode().replace("seed = 0", "seed = 5"))
    expect_one_line(lathe("train", "--resume", "auto", "--run-dir", "a", "--config", "other.toml"), 2, "made with other settings (seed 0 → 5)")
    assert {path.name: path.read_bytes() for path in pathlib.Path("a").iterdir()} == before
    shutil.copytree("a", "b")
    expect(lathe("train", "--resume", "auto", "--run-dir", "a", "--epochs", 4, "--log-every", 1, "--quiet"), 0)
    assert rows_of("a")[-1]["epoch"] == 4
    result = lathe("train", "--resume", "auto", "--run-dir", "b", "--batch-size", 10, "--seed", 3, "--allow-changes", "--quiet")
    assert expect(result, 0).stderr == "" and "batch-size 8 → 10, " in log_of("b") and "seed 0 → 3" in log_of("b")
    assert rows_of("b")[-1]["step"] == 10 + 2 * 5  # the second epoch began again


def test_hyper_parameters_that_change_count_from_the_next_step_on(folder):
    changed = ["--lr", 0.01, "--momentum", 0.5, "--weight-decay", 0.1, "--amp", "fp16", "--loss-scale", 8, "--quiet"]
    expect(train("a", "--stop-after", 3, "--log-every", 1, "--amp", "fp16", "--loss-scale", 4), 0)
    expect(lathe("train", "--resume", "a", *changed, "--stop-after", 6, "--allow-changes"), 0)
    expect(train("whole", *changed, "--stop-after", 6, "--log-every", 1), 0)

    def saved(run):
        rows = map(json.loads, lathe("ckpt", "show", f"{run}/last.safetensors", "--json").stdout.splitlines())
        return {row["name"]: row["sha256"] for row in rows if row.get("name", "").startswith(("optimizer.group.", "scheduler.", "scaler.s"))}
    assert saved("a") == saved("whole") and len(saved("a")) > 8, (saved("a"), saved("whole"))
    rates, expected = ([row["lr"] for row in rows_of(run)] for run in ("a", "whole"))
    assert all(abs(a / b - (10 if step < 3 else 1)) < 1e-9 for step, (a, b) in enumerate(zip(rates, expected))), (rates, expected)
    assert [row["loss_scale"] for row in rows_of("a")] == [4] * 3 + [8] * 3
    expect(train("none", "--momentum", 0, "--stop-after", 1), 0)
    expect(lathe("train", "--resume", "none", "--momentum", 0.9, "--allow-changes"), 2, "does not fit --momentum 0.9 (it was made with 0)")


def contents(run):
    return {path.name: path.read_bytes() for path in pathlib.Path(run).iterdir()}


def test_what_no_flag_can_change_leaves_the_run_as_it_was(folder):
    expect(train("a", "--stop-after", 3), 0)
    before = contents("a")
    useless = ["train", "--resume", "a", "--dry-run", "--power", 2]  # the schedule is the run's
    expect_one_line(lathe(*useless), 0, "warning: --power has no effect with --scheduler cosine, only with poly")
    assert expect(lathe(*useless, "--quiet"), 0).stderr == ""
    new = ["--resume", "a/last.safetensors", "--run-dir", "new"]
    for key, value, where in (("model", "resnet20", ["--resume", "a"]), ("optimizer", "adam", ["--resume", "a"]), ("ema", 0.9, new),
                              ("amp", "fp16", ["--resume", "a", "--dry-run"]), ("scheduler", "plateau", new)):
        result = expect(lathe("train", *where, f"--{key}", value, "--allow-changes"), 2)
        warning, *remarks, line = result.stderr.splitlines()
        assert all(remark.startswith("warning: --patience 5 cannot be exceeded") for remark in remarks) and len(remarks) == (key == "scheduler"), remarks
        assert lathe("train", *where, f"--{key}", value, "--allow-changes", "--quiet").stderr == line + "\n"
        assert warning.startswith("warning: changed since") and f"does not fit --{key} {value} (it was made with" in line and len(line) < 150, line
    assert contents("a") == before and not pathlib.Path("new").exists()
    os.mkfifo("fifo")
    for name in ("metrics.csv", "metrics.jsonl"):  # nor does a file that is none
        shutil.copytree("a", "b")
        pathlib.Path("b", name).unlink()
        pathlib.Path("b", name).symlink_to("../fifo")
        expect_one_line(lathe("train", "--resume", "b", "--epochs", 9, "--quiet"), 1, f"b/{name}: not a regular file")
        assert pathlib.Path("b/config.toml").read_bytes() == before["config.toml"]
        shutil.rmtree("b")
    for name, code, why in (("log.txt", 1, "not a regular file"), ("config.toml", 2, "cannot read the config file: it is a named pipe")):
        pathlib.Path("a", name).unlink()
        os.mkfifo(f"a/{name}")
        expect_one_line(lathe("train", "--resume", "a", "--quiet"), code, f"a/{name}: {why}")
        pathlib.Path("a", name).unlink()
        pathlib.Path("a", name).write_bytes(before[name])


def write_grey_png(path, size, value):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes([value]) * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def test_another_folder_of_images_is_another_data_set(folder):
    for root in ("images", "others"):
        for part in ("train", "test"):
            for name, grey in (("dark", 40), ("light", 200)):
                path = folder / root / part / name
                path.mkdir(parents=True)
                for k in range(9):
                    write_grey_png(path / f"{k}.png", 16, grey + k)
    flags = ["--dataset", "folder", "--data-root", "images", "--model", "resnet8", "--image-size", 16, "--batch-size", 4, "--epochs", 2]
    result = lathe("train", *flags, "--run-dir", "a", "--stop-after", 7, "--quiet")
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    expect(result, 0)
    resume = ["train", "--resume", "a", "--quiet"]
    expect_one_line(lathe(*resume, "--data-root", "others"), 2, "images → others", "--allow-changes")
    for words in (["eval"], ["predict", "--index", 0]):  # the run is found from any directory
        expect(lathe(*words, "--run-dir", folder / "a", "--threads", 1, cwd="/"), 0)
    expect(lathe("train", "--config", folder / "a/config.toml", "--dry-run", cwd="/"), 0)
    expect(lathe(*resume, "--data-root", folder / "images", "--stop-after", 8), 0)  # the same one
    (folder / "below").mkdir()  # from where "images" is another name
    for relative in ([], ["--data-root", "../images"]):
        expect(lathe("train", "--resume", "../a", "--stop-after", 8, "--quiet", *relative, cwd=folder / "below"), 0)
    shutil.copy("a/last.safetensors", "alone.safetensors")  # knows without the run's folder
    expect_one_line(lathe("train", "--resume", "alone.safetensors", "--run-dir", "b", "--data-root", "others"), 2, "data-root ", "others")
    expect(lathe(*resume, "--data-root", "others", "--allow-changes"), 0)
    assert "→ others" in log_of("a")
    assert rows_of("a")[-1]["step"] == 8 + 5  # the second epoch began again


def test_stopped_by_a_time_limit_it_ends_as_if_it_was_not(folder):
    flags = ["--image-size", 16 if SANITIZED else 32, "--epochs", 4, "--scheduler", "plateau", "--patience", 0, "--eval-every", 2]
    expect(train("whole", *flags), 0)
    # The limit begins with less than a step takes and grows until one is made, on any processor; where that was enough
    # for whole epochs only, as when the machine was held up at first, it begins anew with less.
    limit, steps = 0.001, [0]
    parts = itertools.cycle((1, 0.5, 1.6))  # of one length, all might end at the end of an epoch
    while steps[-1] < 28 or not any(step % 7 for step in steps):
        if steps[-1] == 28:
            shutil.rmtree("a")
            limit, steps = limit / 4, [0]
        part = next(parts) if steps[-1] > 0 else 1
        result = expect(train("a", *flags, "--resume", "auto", "--time-limit", limit * part, "--json"), 0)
        steps.append(json.loads(result.stdout.splitlines()[-1])["steps"])
        assert rows_of("a")[-1]["split"] == "val" and rows_of("a")[-1]["step"] == steps[-1], rows_of("a")[-1]
        limit *= 1.4 if steps[-1] == steps[-2] else 1
    assert rows_of("a") == rows_of("whole"), steps
    expect(lathe("ckpt", "diff", "a/last.safetensors", "whole/last.safetensors"), 0)


def test_after_a_divergence_it_goes_on_from_what_was_good(folder):
    # Step 1 makes the weights infinite and is saved before anyone sees it, as step-1 too; last is put back to step 0.
    diverged = train("a", "--lr", 1e38, "--save-every", 1, "--epochs", 1)
    expect(diverged, 6, "holds the weights of step 0")
    assert (folder / "a/step-1.safetensors").exists()
    for resume in (["--resume", "auto", "--run-dir", "a"], ["--resume", "a"]):
        shutil.copytree("a", "kept")
        expect(lathe("train", *resume, "--lr", 0.01, "--allow-changes", "--quiet"), 0)
        assert "going on from a/last.safetensors, step 0" in log_of("a"), log_of("a")
        assert all(row["loss"] < 100 for row in rows_of("a")), rows_of("a")
        shutil.rmtree("a")
        shutil.move("kept", "a")


def test_the_best_averages_go_on_with_a_warning(folder):
    expect(train("a", "--ema", 0.9), 0)
    assert expect(lathe("train", "--resume", "a/best.safetensors", "--quiet"), 0).stderr == ""
    assert "best.safetensors, but not with the bits of an uninterrupted run: its weights are averages" in log_of("a"), log_of("a")
    assert rows_of("a")[-1]["step"] == 21


main(globals())
