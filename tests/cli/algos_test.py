#!/usr/bin/env python3
"""`lathe algos`: what the convolution search kept, and what cuDNN would plan for a GPU that is not there.

    algos_test.py LATHE [--sanitized]
"""
import json
import os
import pathlib
import shutil

from driver import Skip, expect, expect_one_line, lathe, main
from runs import info_rows

EXAMPLE_CACHE = pathlib.Path(__file__).resolve().parent.parent / "ops/conv_search/example_cache.json"


def test_algos_shows_every_candidate_without_a_gpu(folder):
    shown = expect(lathe("algos", "show", "--algo-cache", EXAMPLE_CACHE), 0).stdout
    assert "1 convolution, found by cudnn 9.19.0, CUDA 13.0, driver for 13.0" in shown
    assert "backward_weight none benchmark x=f16[128,64,32,32]" in shown
    assert "7 engines, searched in 46.5 ms; last used 2026-01-31" in shown
    lines = [line for line in shown.splitlines() if line.startswith("* ")]
    assert len(lines) == 1 and lines[0].split()[1:3] == ["34:2=4,24=8", "0.0880"], lines
    rows = [json.loads(line) for line in
            expect(lathe("algos", "show", "--json", env={"LATHE_ALGO_CACHE": str(EXAMPLE_CACHE)}), 0).stdout.splitlines()]
    assert len(rows) == 7 and [row["engine"] for row in rows if row["chosen"]] == ["34:2=4,24=8"]
    assert [row["outcome"] for row in rows] == ["timed"] * 4 + ["failed", "too_large", "filtered"]
    assert rows[4]["ms"] is None and rows[4]["note"] == "not supported on this device"
    assert rows[0]["workspace_bytes"] == 4718592 and rows[0]["tensor_cores"] and rows[0]["deterministic"]


def test_algos_clear_removes_the_file_and_nothing_else(folder):
    shutil.copy(EXAMPLE_CACHE, "algos.json")
    assert "algos.json: removed" in expect(lathe("algos", "clear", "--algo-cache", "algos.json"), 0).stdout
    assert not os.path.exists("algos.json")
    assert "no such file" in expect(lathe("algos", "clear", "--algo-cache", "algos.json"), 0).stdout
    (folder / "notes.txt").write_text("notes")
    expect_one_line(lathe("algos", "clear", "--algo-cache", "notes.txt"), 3, "notes.txt holds something else and is left as it is")
    assert (folder / "notes.txt").read_text() == "notes"


def test_algos_say_what_is_wrong_with_a_file(folder):
    expect_one_line(lathe("algos", "show"), 2, "algos: no file is named; give --algo-cache FILE or set LATHE_ALGO_CACHE")
    expect_one_line(lathe("algos", "show", "--algo-cache", "nowhere"), 3, "nowhere: cannot open: No such file or directory")
    text = EXAMPLE_CACHE.read_text()
    (folder / "cut").write_text(text[:500])
    os.mkfifo("fifo")
    for command in ("show", "clear"):
        expect_one_line(lathe("algos", command, "--algo-cache", "fifo"), 3, "fifo is a pipe and no file")
    expect_one_line(lathe("algos", "show", "--algo-cache", "cut"), 3, "cut: convolution cache: ")
    (folder / "changed").write_text(text.replace('"34:2=4,24=8"', '"35:2=4,24=8"'))
    expect_one_line(lathe("algos", "show", "--algo-cache", "changed"), 3, "damaged, its checksum does not fit")


SMALL_PLAN = ["algos", "plan", "--model", "resnet8", "--batch-size", 4, "--amp", "fp16"]
DESCRIPTION = {
    "deviceVer": 900, "multiProcessorCount": 7, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "regsPerBlock": 65536,
    "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000, "l2CacheSize": 62914560, "maxBlockSize": [1024, 1024, 64],
    "memClockRateKHz": 3201000, "maxGridSize": [2147483647, 65535, 65535], "supportCoopLaunch": 1, "pciDeviceId": 0,
    "isTccDriver": 0, "cudaDeviceId": 0, "driverVer": 13000, "deviceName": "a GPU of our own"}


def test_algos_plan_says_what_is_wrong_with_a_gpu(folder):
    expect_one_line(lathe("algos", "plan"), 2, "algos plan: no GPU is named; give --gpu h200, say, or a file")
    expect_one_line(lathe("algos", "plan", "--gpu", "h300"), 2,
                    '--gpu: no GPU is called "h300", and no file: h200, h100, a100, l4, rtx4090 are known')
    text = json.dumps(DESCRIPTION)
    for damaged, message in ((text[:90], "GPU description: is not valid JSON at its byte 91"),
                             (text.replace('"warpSize": 32, ', ""), 'GPU description: has no "warpSize"'),
                             (text.replace("[1024, 1024, 64]", "64"), '"maxBlockSize" is 64, not 3 numbers')):
        (folder / "gpu.json").write_text(damaged)
        expect_one_line(lathe("algos", "plan", "--gpu", "gpu.json"), 3, message)
    expect_one_line(lathe("algos", "plan", "--gpu", folder), 3, "Is a directory")
    os.mkfifo("fifo")
    expect_one_line(lathe("algos", "plan", "--gpu", "fifo"), 3, "fifo is a pipe and no file")


def test_algos_plan_needs_no_gpu(folder):
    (folder / "gpu.json").write_text(json.dumps(DESCRIPTION))
    for gpu, device in (("h200", "NVIDIA H200"), ("gpu.json", "a GPU of our own")):
        plan = lathe(*SMALL_PLAN, "--gpu", gpu, "--json")
        if info_rows()[0]["cuda"] != "on":
            expect_one_line(plan, 4, f"plans for {device}: this build was made without cuDNN; configure with -DLATHE_CUDA=ON")
            continue
        if plan.returncode == 4 and "cannot be loaded" in plan.stderr:
            raise Skip("there is no cuDNN here")
        *rows, last = [json.loads(line) for line in expect(plan, 0).stdout.splitlines()]
        assert {row["pass"] for row in rows} == {"forward", "backward_input", "backward_weight"}
        assert rows[0]["layer"] == "conv1" and rows[1]["pass"] == "backward_weight", "an image needs no gradient"
        assert all(row["engine"] and row["tensor_cores"] and 0 < row["usable"] <= row["engines"] for row in rows)
        assert last["passes"] == sum(row["count"] for row in rows) == 3 * 7 - 1 and last["without_engine"] == 0
        assert last["gpu"] == device and last["library"].startswith("cudnn 9.")
        assert last["largest_workspace_bytes"] == max(row["workspace_bytes"] for row in rows)
        shown = expect(lathe(*SMALL_PLAN, "--gpu", gpu), 0).stdout
        assert f"resnet8 batch 4 f16 nhwc on {device}" in shown and "20 convolutions in a step" in shown
        same_bits = expect(lathe(*SMALL_PLAN, "--gpu", gpu, "--deterministic", "--json"), 0).stdout.splitlines()[:-1]
        assert all(json.loads(row)["deterministic"] for row in same_bits)


main(globals())
