#!/usr/bin/env python3
"""Training, evaluation and prediction on the synthetic set, seen from outside.

    train_test.py LATHE [--sanitized]
"""
import csv
import json
import os
import pathlib
import re
import resource
import struct
import subprocess

from driver import LATHE, SANITIZED, Skip, environment, expect, expect_one_line, lathe, main, same_on_any_processor, start
from runs import SIDE, SIZE, TINY, rows_of, safetensors_header, train, write_png


TAGS = [f"memory_peak_{tag}" for tag in ("other", "weights", "gradients", "optimiser_state", "activations", "workspace", "data")]


def check_memory(row):
    """Of resnet8, which has 75,290 parameters, and as many values of momentum, with 50 images."""
    assert all(row[tag] >= 0 for tag in TAGS) and row["memory_reserved_bytes"] > 4 * 75290, row
    if not SANITIZED:  # where the allocator gives nothing back, what it has covers the peak
        assert row["memory_peak_bytes"] <= row["memory_reserved_bytes"], row
    assert 4 * 75290 <= row["memory_peak_weights"] < 1.1 * 4 * 75290, row
    if row["split"] == "train":  # the results of conv1 and bn1, and more
        assert row["memory_peak_activations"] > 2 * 4 * 50 * 16 * SIDE**2, row
        # The first step makes it after its own peak, which later ones exceed unless the loader holds two batches less then.
        assert row["memory_peak_optimiser_state"] >= 4 * 75290 or row["step"] == 5, row
    else:
        assert row["memory_peak_activations"] == row["memory_peak_gradients"] == 0 and row["memory_peak_other"] > 4 * 50 * 16 * SIDE**2, row


def gradient(width, height, colour):
    """Rows of one colour that grows lighter, so that it is an image."""
    return [b"".join(bytes(min(c + x + y, 255) for c in colour) for x in range(width)) for y in range(height)]


def test_models_of_other_families_train(folder):
    """Two steps, evaluation of what was saved, and the graph for other programs."""
    run = ["train", "--dataset", "synthetic", "--synthetic-size", 10, "--model", "mobilenet_v2", "--batch-size", 4, "--max-steps", 2,
           "--quiet", "--run-dir"]
    expect(lathe(*run, "m"), 0)
    expect(lathe("eval", "--run-dir", "m"), 0)
    expect(lathe("ckpt", "convert", "m/last.safetensors", "m.onnx"), 0)
    expect_one_line(lathe(*run, "v", "--model", "vgg11", "--image-size", 16), 2, "--model vgg11 needs images of 32 x 32 or larger")


def test_a_folder_of_images_is_a_data_set(folder):
    """Red and blue squares of several sizes, where the build reads PNG."""
    for part, count in (("train", 24), ("test", 6)):
        for name, colour in (("blue", (20, 30, 180)), ("red", (180, 30, 20))):
            path = pathlib.Path("images") / part / name
            for k in range(count):
                width, height = 20 + k % 7, 24 - k % 5
                write_png(path / f"{k}.png", width, gradient(width, height, colour))
    arguments = ["train", "--dataset", "folder", "--data-root", "images", "--model", "resnet8", "--image-size", 16, "--batch-size", 8]
    result = lathe(*arguments, "--epochs", 3, "--lr", 0.05, "--run-dir", "a")
    if "this build has no libpng" in result.stderr:
        raise Skip("this build reads no PNG files")
    expect(result, 0)
    assert rows_of("a", "val")[-1]["accuracy"] == 1, rows_of("a")
    expect(lathe("eval", "--run-dir", "a"), 0)

    broken = pathlib.Path("images/train/red/3.png")
    broken.write_bytes(broken.read_bytes()[:60])
    assert f"{broken}: is a damaged PNG file" in expect(lathe(*arguments, "--max-steps", 20), 3).stderr
    pathlib.Path("images/test/red").rename("images/test/green")
    assert "images/test: has 2 classes that are not the 2 of images/train; only " in expect(lathe(*arguments, "--max-steps", 1), 3).stderr
    assert "; only green is in images/test; only red is in images/train" in expect(lathe(*arguments, "--max-steps", 1), 3).stderr
    for folder_of_class in ("images/test/green", "images/train/red"):
        pathlib.Path(folder_of_class).rename(folder_of_class.replace("/", "-"))
    assert "warning: all training images are of one class, blue: " in expect(lathe(*arguments, "--max-steps", 1), 0).stderr
    assert "--data-root" in expect(lathe("train", "--dataset", "folder"), 2).stderr


def test_training_learns_and_leaves_a_run_folder(folder):
    size = 1000 if SANITIZED else 1500
    result = expect(train("--synthetic-size", size, "--epochs", 3, "--lr", 0.05, "--log-every", 5, "--run-dir", "a", "--json"), 0)
    lines = [json.loads(line) for line in result.stdout.splitlines()]  # --json: nothing but JSON on stdout
    assert lines[0]["event"] == "start" and lines[-1]["event"] == "done"
    assert [line for line in lines if "split" in line] == rows_of("a")

    steps = 3 * size // 50
    training = rows_of("a", "train")
    assert training[-1]["step"] == steps and len(training) == steps // 5
    assert sum(r["loss"] for r in training[-3:]) < 0.9 * sum(r["loss"] for r in training[:3]), training
    validation = rows_of("a", "val")
    assert [r["epoch"] for r in validation] == [1, 2, 3]
    for row in rows_of("a"):
        assert list(row) == ["epoch", "step", "split", "loss", "accuracy", "lr", "images_per_second", "time", "memory_peak_bytes", *TAGS,
                             "memory_reserved_bytes", "schema"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["time"]), row
        assert 0 <= row["accuracy"] <= 1 and row["images_per_second"] > 0 and row["schema"] == 1
        check_memory(row)

    with open("a/metrics.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [(r["step"], r["split"], float(r["loss"])) for r in table] == [(str(r["step"]), r["split"], r["loss"]) for r in rows_of("a")]
    names = {path.name for path in pathlib.Path("a").iterdir()}
    checkpoints = {f"{name}.safetensors" for name in ("last", "best", *(f"step-{steps * epoch // 3}" for epoch in (1, 2, 3)))}
    assert names == {"config.toml", "env.json", "metrics.jsonl", "metrics.csv", "log.txt", *checkpoints}, names
    environment = json.loads(pathlib.Path("a/env.json").read_text())
    assert environment["lathe"] and environment["convolution"]
    assert ("without oneDNN" in pathlib.Path("a/log.txt").read_text()) == (environment["oneDNN"] == "off")
    assert "conv1.weight" in safetensors_header("a/last.safetensors")


def test_eval_repeats_the_metrics_of_training(folder):
    expect(train("--epochs", 2, "--run-dir", "a"), 0)
    best = max(rows_of("a", "val"), key=lambda row: row["accuracy"])
    result = expect(lathe("eval", "--run-dir", "a", "--json", "--confusion", "c.csv"), 0)
    row = json.loads(result.stdout.splitlines()[0])
    assert row["accuracy"] == best["accuracy"] and row["images"] == SIZE // 5
    assert abs(row["loss"] - best["loss"]) <= 1e-6 * best["loss"], (row, best)
    table = [[int(n) for n in line.split(",")[1:]] for line in pathlib.Path("c.csv").read_text().splitlines()[1:]]
    assert sum(map(sum, table)) == row["images"]
    assert abs(sum(table[i][i] for i in range(10)) / row["images"] - row["accuracy"]) < 1e-9
    expect(lathe("eval", "--run-dir", "a", "--quiet", "--confusion", "c.csv"), 0)  # its own file is replaced
    kept = pathlib.Path("a/best.safetensors").read_bytes()
    expect_one_line(lathe("eval", "--run-dir", "a", "--confusion", "a/best.safetensors"), 2, 'does not begin with "label,"', "name a new file")
    assert pathlib.Path("a/best.safetensors").read_bytes() == kept
    other = json.loads(expect(lathe("eval", "--run-dir", "a", "--weights", "a/last.safetensors", "--json"), 0).stdout.splitlines()[0])
    assert abs(other["loss"] - rows_of("a", "val")[-1]["loss"]) <= 1e-6 * other["loss"]


def test_predict_prints_the_rows_asked_for(folder):
    expect(train("--max-steps", 2, "--run-dir", "a"), 0)
    result = expect(lathe("predict", "--run-dir", "a", "--index", "3:7", "--json"), 0)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["index"] for row in rows] == [3, 4, 5, 6]
    for row in rows:
        assert 0.1 <= row["probability"] <= 1 and 0 <= row["predicted"] < 10 and 0 <= row["label"] < 10
    assert len(expect(lathe("predict", "--run-dir", "a", "--index", "5"), 0).stdout.splitlines()) == 2
    expect_one_line(lathe("predict", "--run-dir", "a", "--index", "7:3"), 2, "--index")
    expect_one_line(lathe("predict", "--run-dir", "a", "--index", "0:999"), 2, "--index")


def test_the_effective_config_gives_the_same_run_again(folder):
    expect(train("--max-steps", 3, "--lr", 0.07, "--augment", "crop,flip", "--run-dir", "a"), 0)
    expect(lathe("train", "--config", "a/config.toml", "--run-dir", "b"), 0)
    assert pathlib.Path("a/config.toml").read_text() == pathlib.Path("b/config.toml").read_text()
    pick = lambda run: [(r["loss"], r["accuracy"], r["lr"]) for r in rows_of(run)]
    assert pick("a") == pick("b")
    assert pathlib.Path("a/last.safetensors").read_bytes() == pathlib.Path("b/last.safetensors").read_bytes()


def test_workers_do_not_change_the_result(folder):
    for workers in (0, 3):
        expect(train("--max-steps", 3, "--augment", "crop,flip", "--workers", workers, "--run-dir", f"w{workers}"), 0)
    assert pathlib.Path("w0/last.safetensors").read_bytes() == pathlib.Path("w3/last.safetensors").read_bytes()


def test_cifarnet_begins_with_a_layer_that_whitens_the_images(folder):
    """The second half of its filters are the first half's negatives, which random ones would not be."""
    flags = ["--model", "cifarnet", "--dataset", "synthetic", "--synthetic-size", 48, "--batch-size", 16, "--epochs", 2, "--augment", "shift,alternating-flip"]
    expect(lathe("train", *flags, "--run-dir", "a"), 0)
    expect(lathe("train", *flags, "--run-dir", "b", "--stop-after", 1), 0)
    expect(lathe("train", "--resume", "b"), 0)
    assert pathlib.Path("a/last.safetensors").read_bytes() == pathlib.Path("b/last.safetensors").read_bytes()
    data = pathlib.Path("a/last.safetensors").read_bytes()
    begin, end = safetensors_header("a/last.safetensors")["whiten.weight"]["data_offsets"]
    start = 8 + int.from_bytes(data[:8], "little")
    filters = struct.unpack("<288f", data[start + begin:start + end])
    assert any(filters) and all(a == -b for a, b in zip(filters[:144], filters[144:], strict=True)), filters


def test_seeds_make_a_run_each_and_print_the_mean(folder):
    flags = ["--epochs", 1, "--val-split", 0]
    expect(train(*flags, "--seed", 4, "--run-dir", "alone"), 0)
    last = json.loads(expect(train(*flags, "--seed", 3, "--seeds", 3, "--run-dir", "s", "--json"), 0).stdout.splitlines()[-1])
    assert pathlib.Path("s/seed-4/last.safetensors").read_bytes() == pathlib.Path("alone/last.safetensors").read_bytes()
    reached = [rows_of(f"s/seed-{seed}", "val")[-1]["accuracy"] for seed in (3, 4, 5)]
    mean = sum(reached) / 3
    error = (sum((a - mean) ** 2 for a in reached) / 2 / 3) ** 0.5
    assert last["event"] == "seeds" and last["seeds"] == 3 and last["run_dir"] == "s", last
    assert abs(last["accuracy"] - mean) < 1e-9 and abs(last["accuracy_error"] - error) < 1e-9, (last, reached)

    # One that has ended is not made again, one that is not there is.
    subprocess.run(["rm", "-r", "s/seed-5"], check=True)
    kept = pathlib.Path("s/seed-3/last.safetensors").stat()
    again = expect(train(*flags, "--seed", 3, "--seeds", 3, "--run-dir", "s", "--resume", "auto"), 0)
    line = re.escape(f"3 seeds: accuracy {100 * mean:.2f} %, standard error {100 * error:.2f} (")
    assert re.search(line + r"\d+\.\d\d to \d+\.\d\d %\), \d+:\d\d a training: s\n", again.stdout), again.stdout
    assert pathlib.Path("s/seed-3/last.safetensors").stat().st_mtime_ns == kept.st_mtime_ns
    # The duration is of those that this call began: of one in the call above, of none when all have ended.
    done = expect(train(*flags, "--seed", 3, "--seeds", 3, "--run-dir", "s", "--resume", "auto"), 0)
    assert re.search(line + r"\d+\.\d\d to \d+\.\d\d %\): s\n", done.stdout), done.stdout
    rows = [json.loads(text) for text in expect(train(*flags, "--seed", 3, "--seeds", 3, "--run-dir", "s", "--resume", "auto", "--json"), 0).stdout.splitlines()]
    assert rows[-1]["seconds"] is None, rows

    expect_one_line(train("--seeds", 2), 2, "--seeds 2 needs --run-dir")
    expect_one_line(train("--seeds", 2, "--run-dir", "s", "--resume", "s/seed-3"), 2, "--resume auto")
    expect(train("--seeds", 2, "--run-dir", "t", "--dry-run"), 0)
    assert not pathlib.Path("t").exists()


def test_default_run_folder_and_a_folder_in_use(folder):
    expect(train("--max-steps", 1), 0)
    (run,) = pathlib.Path("runs").iterdir()
    assert run.name.startswith("synthetic-resnet8-") and run.name.endswith("-1")
    expect_one_line(train("--max-steps", 1, "--run-dir", run), 2, "already holds a run")


def test_dry_run_does_nothing(folder):
    expect_one_line(train("--nesterov", "--momentum", 0, "--dry-run"), 2, "nesterov")
    expect_one_line(train("--weights", "missing", "--dry-run"), 3, "missing")
    result = expect(train("--epochs", 7, "--dry-run"), 0)
    assert f"# {7 * SIZE // 50} steps, 75290 parameters" in result.stdout and "epochs = 7" in result.stdout
    plan = json.loads(expect(train("--epochs", 7, "--dry-run", "--json"), 0).stdout)
    assert plan["steps"] == 7 * SIZE // 50 and plan["parameters"] == 75290
    assert not any(folder.iterdir())


def test_the_start_line_forecasts_the_peak(folder):
    """Within a tenth: buffers of the CPU's convolutions do not grow in a straight line."""
    for run, flags in {"a": ["--batch-size", 64], "b": ["--batch-size", 100, "--optimizer", "adamw", "--ema", 0.9]}.items():
        run_flags = ["--synthetic-size", 200, "--image-size", 32, "--threads", 1, *flags, "--epochs", 2, "--run-dir", run]
        said = re.search(r", about ([\d.]+) MiB of memory at the peak; ", expect(train(*run_flags), 0).stderr)
        peak = max(row["memory_peak_bytes"] for row in rows_of(run, "train") if row["epoch"] == 2) / 2**20
        assert said and abs(float(said[1]) - peak) < 0.1 * peak, (said, peak)
    assert "at the peak" not in train("--max-steps", 1, "--quiet", "--run-dir", "c").stderr


def test_memory_that_runs_out_exits_5(folder):
    if SANITIZED:
        raise Skip("sanitizers take more addresses than any limit")
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, resource.RLIM_INFINITY))
    threads = ["--threads", 1, "--workers", 1]  # each takes 72 MB of addresses: stack and arena
    result = train("--synthetic-size", 4000, "--batch-size", 4000, "--image-size", 32, *threads, "--run-dir", "a", "--quiet", preexec_fn=limit)
    expect_one_line(result, 5, "cannot allocate")


def test_flags_that_do_not_fit_each_other(folder):
    expect_one_line(train("--scheduler", "multistep"), 2, "--milestones")
    expect_one_line(train("--nesterov", "--momentum", 0), 2, "nesterov")
    expect_one_line(train("--augment", "rotate"), 2, "--augment")
    expect_one_line(train("--device", "tpu"), 2, '--device: expected "cpu", "cuda" or "cuda:N", got "tpu"')
    expect_one_line(train("--prefetch-factor", 1025), 2, "--prefetch-factor")
    expect_one_line(train("--drop-last", "--batch-size", SIZE + 1), 2, "--drop-last")
    expect_one_line(lathe("eval"), 2, "--run-dir")
    assert not any(folder.iterdir())


def test_a_device_that_is_not_there_exits_4(folder):
    expect_one_line(train("--device", "cuda:99"), 4, "--device cuda:99")


def test_a_data_set_that_cannot_be_fetched_exits_3(folder):
    nowhere = {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
    (folder / "root").mkdir()
    result = lathe("train", "--dataset", "cifar10", "--model", "resnet8", "--data-root", "root", "--download", env=nowhere)
    expect_one_line(result, 3)
    expect_one_line(lathe("data", "fetch", "mnist", "--data-root", "root", env=nowhere), 3)
    expect(lathe("train", "--data-root", "root", "--download", env=nowhere), 3, "warning: ", "no data set found")


def test_weights_that_are_wrong_exit_3(folder):
    expect(train("--max-steps", 1, "--run-dir", "a"), 0)
    whole = pathlib.Path("a/last.safetensors").read_bytes()
    for name, data in (("cut", whole[:-1]), ("long", whole + b"x"), ("short", whole[:100]), ("empty", b""), ("text", b"hello" * 100)):
        pathlib.Path(name).write_bytes(data)
        expect_one_line(lathe("eval", "--run-dir", "a", "--weights", name), 3, name)
    expect_one_line(lathe("eval", "--run-dir", "a", "--weights", "missing"), 3, "missing")
    expect_one_line(lathe("eval", "--run-dir", "a", "--model", "resnet20"), 3, "best.safetensors")


def test_loaded_weights_are_where_training_starts(folder):
    expect(train("--max-steps", 6, "--run-dir", "a"), 0)
    expect(train("--max-steps", 1, "--lr", 0, "--weights", "a/last.safetensors", "--run-dir", "b"), 0)
    before, after = rows_of("a", "val")[-1], rows_of("b", "val")[-1]
    assert abs(before["loss"] - after["loss"]) < 0.5 and before["loss"] != after["loss"]  # batch norms moved by a step
    # eval of a run never takes the weights that the run started from
    row = json.loads(expect(lathe("eval", "--run-dir", "b", "--json"), 0).stdout.splitlines()[0])
    assert abs(row["loss"] - after["loss"]) <= 1e-6 * row["loss"]


def test_a_loss_that_is_not_finite_exits_6_and_keeps_the_last_good_state(folder):
    result = train("--lr", "1e30", "--weight-decay", 0, "--scheduler", "none", "--epochs", 2, "--run-dir", "a", "--quiet")
    expect_one_line(result, 6, "loss is", "in step", "a/last.safetensors")
    assert "-nan" not in result.stderr, result.stderr
    expect(lathe("eval", "--run-dir", "a", "--json"), 0)
    assert "lathe.step" in safetensors_header("a/last.safetensors")["__metadata__"]


def test_weights_that_are_not_numbers_exit_6(folder):
    expect(train("--max-steps", 1, "--run-dir", "a"), 0)
    data = bytearray(pathlib.Path("a/last.safetensors").read_bytes())
    start_of_values = 8 + struct.unpack("<Q", data[:8])[0]
    header = safetensors_header("a/last.safetensors")
    del header["__metadata__"]  # with it the checksum
    at = start_of_values + header["fc.bias"]["data_offsets"][0]
    data[at:at + 4] = struct.pack("<f", float("nan"))
    text = json.dumps(header).encode()
    pathlib.Path("nan.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data[start_of_values:])
    result = expect_one_line(lathe("eval", "--run-dir", "a", "--weights", "nan.safetensors", "--quiet", "--json"), 6, "the loss is nan")
    row = json.loads(result.stdout.splitlines()[0])
    assert row["loss"] is None and row["accuracy"] == 0, row
    expect_one_line(lathe("predict", "--run-dir", "a", "--weights", "nan.safetensors", "--index", "3"), 6, "image 3: the highest probability is nan")
    assert "loss nan," in lathe("eval", "--run-dir", "a", "--weights", "nan.safetensors").stdout


def test_a_missed_target_exits_7(folder):
    expect(train("--max-steps", 1, "--target-acc", 0.99, "--run-dir", "a"), 7, "--target-acc", "below 99.00 %")
    assert "stopped in step" not in pathlib.Path("a/log.txt").read_text()  # it came to its end
    expect(train("--max-steps", 1, "--target-acc", 0.001, "--run-dir", "b"), 0)


@same_on_any_processor
def test_time_limit_evaluates_and_saves(folder):
    expect(train("--epochs", 100000, "--time-limit", 1, "--run-dir", "a"), 0, "time limit")
    assert rows_of("a", "val") and safetensors_header("a/last.safetensors")


def test_every_optimizer_and_scheduler_runs(folder):
    for optimizer, scheduler in (("adam", "step"), ("adamw", "cosine"), ("rmsprop", "none"), ("sgd", "linear"), ("adagrad", "none"),
                                 ("adadelta", "none"), ("adamax", "none"), ("nadam", "none"), ("radam", "none"), ("lion", "none"), ("muon", "exponential"), ("adafactor", "none"), ("sgd", "restarts")):
        expect(train("--optimizer", optimizer, "--scheduler", scheduler, "--no-decay-norm", "--max-steps", 2, "--warmup-epochs", 0.1,
                     "--label-smoothing", 0.1, "--clip-grad-norm", 1, "--layout", "nhwc", "--conv-exact", "--run-dir", f"{optimizer}-{scheduler}"), 0)


def test_bf16_learns_as_f32_does(folder):
    accuracy = {}
    for amp in ("off", "bf16", "fp16"):
        expect(train("--synthetic-size", 750, "--image-size", 8, "--batch-size", 25, "--epochs", 3, "--lr", 0.05, "--log-every", 1, "--amp", amp, "--run-dir", amp), 0)
        accuracy[amp] = rows_of(amp, "val")[-1]["accuracy"]
        assert f'amp = "{amp}"' in pathlib.Path(amp, "config.toml").read_text()
    assert accuracy["off"] > 0.5, accuracy
    assert abs(accuracy["bf16"] - accuracy["off"]) < 0.15 and abs(accuracy["fp16"] - accuracy["off"]) < 0.15, accuracy
    first = {amp: rows_of(amp, "train")[0]["loss"] for amp in accuracy}
    assert abs(first["bf16"] - first["off"]) < 0.01 and abs(first["fp16"] - first["off"]) < 0.01, first
    assert "loss_scale" not in rows_of("bf16")[0]
    last = rows_of("fp16", "train")[-1]
    assert last["loss_scale"] == 65536 / 2 ** last["skipped_steps"] and last["skipped_steps"] < 5, last
    saved = safetensors_header("fp16/last.safetensors")
    weights = [entry for name, entry in saved.items() if name.split(".")[0] not in ("__metadata__", "scheduler", "scaler", "trainer", "optimizer")]
    assert {entry["dtype"] for entry in weights} <= {"F32", "I64"}
    rows = [json.loads(lathe("eval", "--run-dir", "bf16", "--amp", amp, "--json").stdout.splitlines()[0]) for amp in ("off", "bf16")]
    assert abs(rows[0]["loss"] - rows[1]["loss"]) < 0.05, rows


def test_an_overflow_skips_the_step_and_halves_the_scale(folder):
    # The first gradients of a loss times 1e38 are beyond f16; the weights of the first step are those of the seed.
    steps = ["--image-size", 8, "--log-every", 1, "--eval-every", 0, "--scheduler", "none", "--amp", "fp16"]
    expect(train(*steps, "--max-steps", 5, "--init-scale", 1e38, "--clip-grad-norm", 1, "--run-dir", "a"), 6)
    rows = rows_of("a", "train")
    assert [row["skipped_steps"] for row in rows] == [1, 2, 3, 4, 5], rows
    halved = [rows[0]["loss_scale"] / 2 ** i for i in range(5)]
    assert [row["loss_scale"] for row in rows] == halved and abs(halved[0] - 5e37) < 1e33, rows
    expect(train(*steps, "--max-steps", 4, "--growth-interval", 2, "--init-scale", 8, "--run-dir", "b"), 0)
    assert [row["loss_scale"] for row in rows_of("b", "train")] == [8, 16, 16, 32]
    expect(train(*steps, "--max-steps", 2, "--loss-scale", 1024, "--run-dir", "c"), 0)
    assert [row["loss_scale"] for row in rows_of("c")] == [1024] * 3
    expect_one_line(train("--loss-scale", 1024), 2, "--loss-scale 1024 needs --amp fp16")
    expect_one_line(train("--loss-scale", "much", "--amp", "fp16"), 2, "--loss-scale")
    expect_one_line(train("--amp", "fp8"), 2, "--amp", "bf16")
    expect_one_line(train("--amp", "fp16", "--init-scale", 0), 2, "--init-scale")


@same_on_any_processor
def test_a_run_whose_every_step_was_skipped_exits_6(folder):
    small = ["--image-size", 8]
    half = ["--amp", "fp16", "--loss-scale", "1e30", *small]
    why = "nothing was learned: with --loss-scale 1e30 the gradients of all 3 steps were inf or nan, so every step was skipped"
    expect_one_line(train(*half, "--max-steps", 3, "--run-dir", "a", "--quiet"), 6, why)
    expect_one_line(lathe("train", "--resume", "a", "--quiet"), 6, why)
    assert rows_of("a", "val") and safetensors_header("a/last.safetensors")
    expect_one_line(train(*half, "--max-steps", 3, "--run-dir", "b", "--quiet", "--target-acc", 0.99), 6, why)
    expect(train("--amp", "fp16", "--init-scale", 1e12, *small, "--max-steps", 3, "--run-dir", "c"), 6, "the gradients of all 3 steps were inf or nan, so every step was skipped", "--init-scale 1")
    expect(lathe("train", "--resume", "c", "--max-steps", 40), 0)  # the scale has come down
    expect(train(*half, "--stop-after", 2, "--run-dir", "d"), 0)  # not at its end yet
    expect_one_line(lathe("find-lr", *TINY, *half, "--sweep-steps", 3, "--quiet"), 6, why)


def test_accumulated_gradients_equal_the_large_batch_nearly(folder):
    expect(train("--batch-size", 100, "--max-steps", 1, "--run-dir", "a"), 0)
    expect(train("--accumulate", 2, "--max-steps", 1, "--run-dir", "b"), 0)
    assert rows_of("b", "train")[0]["step"] == 1
    # Batch norms see half batches, so the two are near and not equal.
    assert abs(rows_of("a", "train")[0]["loss"] - rows_of("b", "train")[0]["loss"]) < 0.3


def test_a_run_overwrites_nothing(folder):
    for name in ("config.toml", "env.json", "log.txt", "metrics.jsonl", "metrics.csv", "last.safetensors", "best.safetensors"):
        run = folder / name.replace(".", "-")
        run.mkdir()
        (run / name).write_text("mine")
        way_on = f"; --resume {run} goes on with it" if name.endswith(".safetensors") else " that saved no checkpoint; choose another folder"
        expect_one_line(train("--max-steps", 1, "--run-dir", run), 2, f"already holds a run ({name}){way_on}")
        assert (run / name).read_text() == "mine" and len(list(run.iterdir())) == 1


def test_of_several_runs_in_one_folder_one_gets_it(folder):
    rates = ["0.01", "0.02", "0.03"]
    processes = [start("train", *TINY, "--max-steps", 1, "--lr", rate, "--run-dir", "a") for rate in rates]
    ends = [process.communicate(timeout=120) + (process.returncode,) for process in processes]
    assert sorted(code for _, _, code in ends) == [0, 2, 2], ends
    winner = [code for _, _, code in ends].index(0)
    assert f"lr = {rates[winner]}\n" in pathlib.Path("a/config.toml").read_text()
    # A loser that looks before the winner writes its config finds an empty folder, and learns of the winner when it claims it.
    refusals = ("--run-dir: a already holds a run", "--run-dir: another process has just begun a run in a")
    assert all(any(why in errors for why in refusals) for _, errors, code in ends if code == 2), ends


def test_progress_lines_are_plain_where_there_is_no_terminal(folder):
    result = expect(train("--max-steps", 3, "--run-dir", "a"), 0)
    assert "\r" not in result.stderr and "\033" not in result.stderr
    quiet = expect(train("--max-steps", 3, "--run-dir", "b", "--quiet"), 0)
    assert quiet.stderr == "" and quiet.stdout.count("\n") == 1


@same_on_any_processor
def test_a_terminal_gets_a_bar_and_no_color_is_respected(folder):
    def on_terminal(run, **env):
        primary, secondary = os.openpty()
        command = [LATHE, "train", *map(str, TINY), "--epochs", "2", "--run-dir", run]
        command += [] if SANITIZED else ["--synthetic-size", "5000"]  # an epoch takes longer than the 100 ms between bars
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=secondary, env=environment(TERM="xterm", **env))
        os.close(secondary)
        seen = b""
        while True:
            try:
                seen += os.read(primary, 4096)
            except OSError:  # the other end is closed
                break
        os.close(primary)
        assert process.wait(timeout=60) == 0
        return seen
    coloured = on_terminal("a")
    assert b"\r\033[K" in coloured and b"epoch 1/2 [" in coloured and b"\033[32m" in coloured, coloured
    assert b"\033[32m" not in on_terminal("b", NO_COLOR="1")


def test_out_of_memory_says_who_holds_it_and_what_to_do(folder):
    """A limit on addresses (ulimit -v) stands for a small machine."""
    if SANITIZED:
        raise Skip("sanitizers take more addresses than any limit")
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (3 << 29, resource.RLIM_INFINITY))
    result = lathe("train", "--dataset", "synthetic", "--synthetic-size", 8192, "--model", "resnet8", "--batch-size", 8192, "--threads", 1,
                   "--workers", 0, "--quiet", "--run-dir", "a", "--device", "cpu", preexec_fn=limit)
    expect(result, 5, "host memory: cannot allocate", "tensors hold: activations ", "; try --batch-size ", "images should fit", "--recompute, --amp bf16")
    advised = int(result.stderr.partition("--batch-size ")[2].split()[0])
    fits = int(re.search(r"\((\d+) images should fit", result.stderr).group(1))
    assert advised <= fits < 2 * advised and 256 <= fits < 8192, result.stderr  # half a MiB an image


def test_other_commands(folder):
    assert "75,290" in expect(lathe("summary", "--model", "resnet8"), 0).stdout
    assert json.loads(expect(lathe("summary", "--model", "resnet18", "--json"), 0).stdout)["parameters"] == 11173962
    step = json.loads(expect(lathe("bench", "step", "--model", "resnet8", "--batch-size", 8, "--seconds", 0.5, "--json"), 0).stdout)
    compiled = expect(lathe("bench", "step", "--model", "resnet8", "--batch-size", 2, "--image-size", 16, "--seconds", 0.05, "--compile"), 0).stdout
    def peak(*flags):
        row = json.loads(expect(lathe("bench", "step", "--model", "resnet8", "--batch-size", 8, "--seconds", 0.02, "--threads", 1, "--json", *flags), 0).stdout)
        assert row["recompute"] == ("--recompute" in flags), row
        return row["memory_peak_bytes"]
    assert peak("--recompute") < 0.85 * peak()
    expect_one_line(lathe("bench", "step", "--compile", "--recompute"), 2, "--recompute has no effect in the graph of --compile")
    assert ", training\n" in compiled and "  alone: cross_entropy" in compiled and ": trace: " not in compiled, compiled
    assert step["images_per_second"] > 0 and step["seconds_low"] <= step["seconds"] <= step["seconds_high"]
    conv = ["bench", "conv", "--model", "resnet8", "--batch-size", 2, "--peak-gbytes", 40, "--seconds", 0.1, "--json"]
    rows = [json.loads(line) for line in expect(lathe(*conv), 0).stdout.splitlines()]
    assert {row["pass"] for row in rows[:-1]} == {"forward", "backward_input", "backward_weight"}
    assert [row["pass"] for row in rows if row["layer"] == "conv1"] == ["forward", "backward_weight"]
    assert all(row["of_roofline"] > 0 and row["operations_per_second"] > 0 for row in rows)
    assert rows[-1]["layer"] == "all" and rows[-1]["roofline_bytes_per_second"] == 40e9
    total = sum(row["count"] * row["seconds"] for row in rows[:-1])
    assert abs(rows[-1]["seconds"] - total) < 1e-9 * total
    rows = [json.loads(line) for line in expect(lathe("bench", "kernels", "copy", "relu", "--json"), 0).stdout.splitlines()]
    assert [row["kernel"] for row in rows] == ["copy", "relu"] and rows[0]["of_copy"] == 1 and rows[1]["of_copy"] > 0
    expect_one_line(lathe("bench", "kernels", "relo"), 2, "relo: no such kernel benchmark; did you mean relu?")
    rows = [json.loads(line) for line in
            expect(lathe("bench", "infer", "--model", "resnet8", "--batch-size", 2, "--seconds", 0.1, "--threads", 1, "--clients", 3, "--json"), 0)
            .stdout.splitlines()]
    assert [(row["form"], row["batch_size"], row["clients"]) for row in rows] == [
        ("eager", 1, 1), ("graph", 1, 1), ("graph", 1, 3), ("eager", 2, 1), ("graph", 2, 1), ("graph", 2, 3)]
    for row in rows:
        assert 0 < row["seconds_p50"] <= row["seconds_p99"] and row["threads"] == 1 and row["calls"] >= row["clients"]
        if row["clients"] > 1:
            assert row["inputs_per_second"] > 0
            continue
        assert abs(row["inputs_per_second"] * row["seconds_p50"] / row["batch_size"] - 1) < 1e-9
    (folder / "text.lathe").write_text("no graph")
    expect_one_line(lathe("bench", "infer", "--weights", "text.lathe"), 3, "text.lathe")
    expect_one_line(lathe("bench", "infer", "--weights", "none.lathe"), 3, "none.lathe")
    expect_one_line(lathe("bench", "infer", "--weights", "text.lathe", "--classes", 3), 2, "--classes: leave it out, because the graph in --weights determines it")
    assert json.loads(expect(lathe("bench", "loader", "--synthetic-size", 500, "--seconds", 0.5, "--json"), 0).stdout)["images_per_second"] > 0


main(globals())
