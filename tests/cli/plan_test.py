#!/usr/bin/env python3
"""`lathe plan`, seen from outside.

    plan_test.py LATHE [--sanitized]
"""
import json
import pathlib

from driver import SANITIZED, Skip, expect, expect_one_line, lathe, main

MODEL = ["--model", "resnet8", "--image-size", 8, "--device", "cpu"]  # what a GPU adds: device_test.py
SMALL = [*MODEL, "--batch-size", 64]


def rows_of(*arguments):
    return [json.loads(line) for line in expect(lathe("plan", *arguments, "--json"), 0).stdout.splitlines()]


def test_plan_lists_every_launch(folder):
    rows = rows_of("--gpu", "h200", *SMALL, "--amp", "fp16")
    launches = [row for row in rows if "launch" in row]
    kinds = [row for row in rows if "kind" in row and "launch" not in row]
    step, = [row for row in rows if "plan" in row]
    memory, = [row for row in rows if "largest_batch" in row]
    assert step["gpu"] == "NVIDIA H200" and step["launches"] == len(launches) == sum(kind["launches"] for kind in kinds)
    assert step["own_launches"] == sum(not row["library"] for row in launches)
    for name in ("seconds_fast", "seconds_slow"):
        assert abs(sum(row[name] for row in launches) / step[name] - 1) < 1e-9
        assert abs(sum(row[name] for row in kinds) / step[name] - 1) < 1e-9
    assert step["seconds_fast"] < step["seconds_slow"]
    assert abs(step["images_per_second_low"] * step["seconds_slow"] / 64 - 1) < 1e-9
    assert 0 < memory["peak_allocated_bytes"] <= memory["reserved_bytes"] and memory["fits"] and memory["largest_batch"] > 64
    norm = [row for row in launches if row["layer"] == "bn1" and row["op"] == "batch_norm_relu"]
    assert [row["launch"] for row in norm] == ["stats_kernel", "train_kernel"]
    x = 64 * 16 * 8 * 8 * 2
    assert [(row["read_bytes"], row["written_bytes"]) for row in norm] == [(x, 0), (x, x)], norm


def test_the_optimiser_is_chosen(folder):
    def numbers(*arguments):
        rows = rows_of("--gpu", "h200", *SMALL, *arguments)
        update, = [row for row in rows if row.get("launch") == "update_kernel"]
        return update["read_bytes"] / 75290, rows[-1]["peak_allocated_bytes"]
    momentum, plain, adam = numbers(), numbers("--momentum", 0), numbers("--optimizer", "adamw")
    assert (momentum[0], plain[0], adam[0]) == (12, 8, 16)  # 75,290 parameters: value, gradient, buffers
    assert plain[1] < momentum[1] < adam[1]


def test_a_recipe_is_planned_to_its_end(folder):
    """One layer of each kind and the products of the optimizer by hand, and the whole training by its steps."""
    if SANITIZED:
        raise Skip("the products of the optimizer take a minute there")
    rows = rows_of("--gpu", "h100", "--recipe", "cifar10-94-fast", "--device", "cpu")
    launches = [row for row in rows if "launch" in row]
    step, = [row for row in rows if "plan" in row]
    run, = [row for row in rows if "recipe" in row]
    assert (step["plan"], step["batch_size"], step["amp"], step["optimizer"]) == ("cifarnet", 2000, "fp16", "muon"), step
    assert (run["epochs"], run["steps"], run["evaluations"], run["views"]) == (8, 200, 1, 6), run
    backward = next(i for i, row in enumerate(launches) if row["op"] == "backward pass")
    for name in ("seconds_fast", "seconds_slow"):
        forward = sum(row[name] for row in launches[:backward])
        assert abs(run[f"evaluation_{name}"] / (6 * 10000 / 2000 * forward) - 1) < 1e-9
        assert abs(run[name] / (200 * step[name] + run[f"evaluation_{name}"]) - 1) < 1e-9
    layers = {row["layer"]: row for row in launches[:backward]}
    numbers = lambda layer: tuple(layers[layer][key] for key in ("read_bytes", "written_bytes", "flops"))
    pixels, pooled = 2000 * 31 * 31, 2000 * 15 * 15
    assert numbers("groups.1") == (2 * (24 * pixels + 64 * 24 * 9), 2 * 64 * pixels, 2 * pixels * 64 * 24 * 9)
    assert numbers("groups.2") == (2 * 64 * pixels, (2 + 4) * 64 * pooled, 0)  # values, and i32 of where they were
    assert numbers("groups.4") == (2 * 64 * pooled, 2 * 64 * pooled, 0)
    filters = {(64, 24 * 9): 1, (64, 64 * 9): 1, (256, 64 * 9): 1, (256, 256 * 9): 3}
    orthogonal = 3 * sum(count * (2 * 2 * m * m * n + 2 * m ** 3) for (m, n), count in filters.items())
    head = 3 * 2 * 2000 * 256 * 10
    assert sum(row["flops"] for row in launches if row["kind"] == "matrix products") == orthogonal + head
    wide = rows_of("--gpu", "a100", "--recipe", "cifar10-94-fast", "--device", "cpu", "--model", "resnet8", "--batch-size", 1000)
    other, = [row for row in wide if "recipe" in row]
    assert other["steps"] == 400 and other["seconds_fast"] < other["seconds_slow"], other


def test_plan_says_what_it_assumes(folder):
    text = expect(lathe("plan", "--gpu", "h100", *SMALL), 0).stdout
    for part in ("predicted without that GPU", "data sheet", "fitted to one run of ResNet-18 on an H100", "img/s", "largest batch"):
        assert part in text.replace("\n", " "), (part, text)


def test_faster_memory_and_a_batch_that_does_not_fit(folder):
    def seconds(*arguments):
        return [row for row in rows_of(*arguments, *MODEL, "--batch-size", 4096) if "plan" in row][0]["seconds_fast"]
    assert seconds("--gpu", "h200") < seconds("--gpu", "h100") < seconds("--gpu", "l4")
    assert seconds("--gpu", "l4", "--peak-gbytes", 4800, "--peak-gflops", 989400) < seconds("--gpu", "l4")
    memory = rows_of("--gpu", "l4", *MODEL, "--batch-size", 1000000)[-1]
    assert not memory["fits"] and "peak_allocated_bytes" not in memory and 0 < memory["largest_batch"] < 1000000, memory


def test_a_picture_of_the_memory(folder):
    expect(lathe("plan", "--gpu", "h200", *SMALL, "--svg", "m.svg"), 0)
    svg = pathlib.Path("m.svg").read_text()
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg" class="chart"') and ">peak " in svg and "resnet8, batch 64" in svg, svg[:500]
    expect(lathe("plan", "--gpu", "h200", *SMALL, "--svg", "m.svg"), 0)  # an earlier picture is replaced
    pathlib.Path("mine.svg").write_text("<svg/>")
    expect_one_line(lathe("plan", "--gpu", "h200", *SMALL, "--svg", "mine.svg"), 2, "--svg mine.svg: this file does not begin with")
    large = lathe("plan", "--gpu", "l4", *MODEL, "--batch-size", 1000000, "--svg", "large.svg")
    expect(large, 1)
    assert "does not fit into the GPU's memory" in large.stderr and not pathlib.Path("large.svg").exists(), large.stderr


def test_mistakes_are_named_in_one_line(folder):
    expect_one_line(lathe("plan"), 2, "plan: no GPU is named; give --gpu h200, say, or a file")
    expect_one_line(lathe("plan", "--gpu", "h300"), 2, 'no GPU is called "h300"')
    expect_one_line(lathe("plan", "--gpu", "h200", "--model", "resnet19"), 2, "--model")
    pathlib.Path("cut.json").write_text('{"deviceVer":900,')
    expect_one_line(lathe("plan", "--gpu", "cut.json"), 3, "cut.json: GPU description: is not valid JSON")
    pathlib.Path("few.json").write_text('{"deviceVer":900}')
    expect_one_line(lathe("plan", "--gpu", "few.json"), 3, 'few.json: GPU description: has no "multiProcessorCount"')


def test_a_described_gpu_takes_its_rates_from_flags(folder):
    keys = {"deviceVer": 900, "multiProcessorCount": 100, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
            "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
            "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "regsPerBlock": 65536,
            "totalGlobalMem": 1 << 33, "smClockRateKHz": 1980000, "l2CacheSize": 1 << 25, "maxBlockSize": [1024, 1024, 64],
            "memClockRateKHz": 3201000, "maxGridSize": [2147483647, 65535, 65535], "supportCoopLaunch": 1, "pciDeviceId": 0,
            "isTccDriver": 0, "cudaDeviceId": 0, "driverVer": 13000, "deviceName": "NVIDIA Z1"}
    pathlib.Path("z1.json").write_text(json.dumps(keys))
    expect_one_line(lathe("plan", "--gpu", "z1.json", *SMALL), 2, "plan: no data sheet of NVIDIA Z1 is known; give --peak-gflops and --peak-gbytes")
    rows = rows_of("--gpu", "z1.json", *SMALL, "--peak-gflops", 1e5, "--peak-gbytes", 1000)
    assert rows[-1]["memory_bytes"] == (1 << 33) - (1 << 30), rows[-1]
    assert [row["gpu"] for row in rows if "gpu" in row] == ["NVIDIA Z1"], rows
    text = expect(lathe("plan", "--gpu", "z1.json", *SMALL, "--peak-gflops", 1e5, "--peak-gbytes", 1000), 0).stdout
    assert "(given)" in text.replace("\n", " ") and "data sheet" not in text, text
    pathlib.Path("h200.json").write_text(json.dumps(keys | {"deviceName": "NVIDIA H200"}))
    assert [row for row in rows_of("--gpu", "h200.json", *SMALL) if "plan" in row][0]["images_per_second_low"] > 0


main(globals())
