#!/usr/bin/env python3
"""What --profile leaves of a training, and that it changes nothing else.

    profile_test.py LATHE [--sanitized]
"""
import json
import pathlib

from driver import expect, lathe, main
from short_run import rows_of, train


def names_in(table):
    """The first words of the rows between the second and the third rule."""
    lines = table.splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("---")]
    return [line.split("  ")[0].strip() for line in lines[rules[1] + 1 : rules[2]]]


def test_train_writes_a_table_and_a_trace(folder):
    expect(train("plain"), 0)
    expect(train("profiled", "--profile", "--profile-steps", "3:5"), 0)
    assert rows_of("profiled") == rows_of("plain")
    expect(lathe("ckpt", "diff", "plain/last.safetensors", "profiled/last.safetensors"), 0)  # the same bits
    table = pathlib.Path("profiled/op_table.txt").read_text()
    names = names_in(table)
    assert {"step", "conv2d", "conv2d backward", "SGD.step", "DataLoader.next"} <= set(names), table
    assert "CPU Mem" in table and "GFLOPs" in table, table
    events = json.loads(pathlib.Path("profiled/trace.json").read_text())["traceEvents"]
    memory = table.partition("\nmemory ")[2]
    assert {"weights", "activations", "data"} <= {line.split("  ")[0] for line in memory.splitlines()}, table
    steps = [event for event in events if event["name"] == "step"]
    assert len(steps) == 2, steps
    assert "\nprofile = false\n" in pathlib.Path("profiled/config.toml").read_text()  # --config must not profile again
    log = pathlib.Path("profiled/log.txt").read_text()
    assert "profile of steps 3 to 4: profiled/op_table.txt, profiled/trace.json" in log, log


def test_a_run_that_ends_early_leaves_what_there_is(folder):
    expect(train("a", "--profile", "--profile-steps", "1:1000", "--max-steps", 4), 0)
    assert "profile of steps 1 to 3" in pathlib.Path("a/log.txt").read_text()


def test_a_run_without_the_steps_that_were_asked_for_says_so(folder):
    for run, flags, steps in (("a", ["--max-steps", 4], "1 to 3"), ("b", ["--stop-after", 5, "--profile-steps", "7:9"], "3 to 4"),
                              ("c", ["--max-steps", 1], "0 to 0")):
        expect(train(run, "--profile", *flags), 0)
        log = pathlib.Path(run, "log.txt").read_text()
        assert "begins after the last of " in log and f"profile of steps {steps}: {run}/op_table.txt, {run}/trace.json" in log, log
        assert len(json.loads(pathlib.Path(run, "trace.json").read_text())["traceEvents"]) > 9
    still = ["--lr", 1e-12, "--freeze", "backbone", "--augment", "none", "--early-stopping", 1]  # two epochs of 7 steps
    for run, flags, made, asked in (("d", ["--time-limit", 1e-9], "0 steps", "10:20"), ("e", [*still, "--profile-steps", "14:20"], "14 steps", "14:20")):
        expect(train(run, "--profile", *flags), 0)
        log = pathlib.Path(run, "log.txt").read_text()
        assert f"warning: --profile: nothing was profiled, because this process made {made} and --profile-steps is {asked}\n" in log, log
        assert not pathlib.Path(run, "op_table.txt").exists()


def test_what_cannot_be_written_does_not_end_the_training(folder):
    pathlib.Path("a/trace.json").mkdir(parents=True)
    pathlib.Path("a/op_table.txt").mkdir()
    expect(train("a", "--profile", "--profile-steps", "1:2", "--max-steps", 3), 0)
    log = pathlib.Path("a/log.txt").read_text()
    assert "the trace was not written: " in log and "the table of ops was not written: " in log, log


def test_steps_that_make_no_sense_are_refused(folder):
    for steps in ("3", "3:3", "5:3", "a:b", "-1:2", "1:2:3"):
        result = expect(train("a", "--profile", "--profile-steps", steps), 2, "--profile-steps")
        assert not pathlib.Path("a").exists(), result.stderr


def test_bench_step_prints_the_table(folder):
    result = expect(lathe("bench", "step", "--model", "resnet8", "--batch-size", 2, "--image-size", 16, "--seconds", 0.3, "--profile",
                          "--peak-gflops", 50, "--peak-gbytes", 10), 0)
    assert {"conv2d", "conv2d backward", "SGD.step"} <= set(names_in(result.stdout)), result.stdout
    assert "% of peak" in result.stdout and "peaks 50.0 GFLOP/s, 10.0 GB/s" in result.stdout, result.stdout


def test_bench_step_prints_rows_for_programs(folder):
    result = expect(lathe("bench", "step", "--model", "resnet8", "--batch-size", 2, "--image-size", 16, "--seconds", 0.3, "--profile", "--json",
                          "--peak-gflops", 50, "--peak-gbytes", 10), 0)
    rows = [row for row in map(json.loads, result.stdout.splitlines()) if row["bench"] == "profile"]
    conv = next(row for row in rows if row["name"] == "conv2d")
    assert conv["calls"] > 0 and conv["operations"] > 0 and 0 < conv["of_peak"] and conv["self_cpu_seconds"] > 0, conv


def test_bench_step_prints_layers(folder):
    command = ["bench", "step", "--model", "resnet8", "--batch-size", 2, "--image-size", 16, "--seconds", 0.3, "--layers"]
    result = expect(lathe(*command, "--json", "--peak-gflops", 50, "--peak-gbytes", 10), 0)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    layers = [row for row in rows if row["bench"] == "layers"]
    assert sum(row["count"] for row in layers if row["pass"] == "forward") == 7, layers
    first = next(row for row in layers if row["layer"] == "layer1.0.conv1")
    operations = 2 * 2 * 16 * 16 * 16 * 16 * 9
    assert first["x"] == "[2,16,16,16]" and abs(first["roofline_seconds"] - operations / 50e9) < 1e-12, first
    least = first["count"] * first["roofline_seconds"]
    assert abs(first["of_roofline"] * first["seconds"] - least) < 1e-6 * least, first
    assert 0 <= first["reorder_seconds"] < first["seconds"], first
    parts = {row["part"]: row for row in rows if row["bench"] == "part"}
    assert abs(sum(row["share"] for row in parts.values()) - 1) < 1e-9, parts
    assert parts["convolution"]["seconds"] > 0 and parts["batch norm"]["seconds"] > 0, parts
    text = expect(lathe(*command), 0).stdout
    assert "roofline" in text and "layer1.0.conv1" in text and "sum of gradients" in text, text


def test_bench_step_says_who_holds_the_memory(folder):
    command = ["bench", "step", "--model", "resnet8", "--batch-size", 2, "--image-size", 16, "--seconds", 0.3]
    row = json.loads(expect(lathe(*command, "--json"), 0).stdout)
    parts = [row[key] for key in row if key.startswith("memory_peak_") and key != "memory_peak_bytes"]
    assert sum(parts) == row["memory_peak_bytes"], row
    assert 4 * 75_290 <= row["memory_peak_weights"] <= 4.2 * 75_290, row  # and the buffers of batch norms
    assert row["memory_peak_optimiser_state"] == 4 * 75_290, row  # momentum
    text = expect(lathe(*command), 0).stdout
    assert "\nactivations " in text and "\nallocated " in text, text


main(globals())
