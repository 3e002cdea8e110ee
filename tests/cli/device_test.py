#!/usr/bin/env python3
"""The command on a GPU, seen from outside: a real one, or the emulated one of a build with LATHE_CUDA=EMULATE.

    device_test.py LATHE [--sanitized]
"""
import json
import pathlib
import random
import struct

from driver import SANITIZED, Skip, expect, expect_one_line, lathe, main
from runs import safetensors_header

# Small enough for an emulated GPU, which takes microseconds for every element.
TALKING = ["--dataset", "synthetic", "--synthetic-size", 40, "--model", "resnet8", "--batch-size", 8, "--image-size", 4, "--seed", 3]
TINY = [*TALKING, "--quiet"]  # without the forecast of memory, which takes three steps


def on_gpu(*arguments, devices=1, memory=1 << 28, life=0, libraries=None, capabilities=None, fusion=True, **options):
    """Runs the command where it can see a GPU. The settings are those of the emulated runtime; a real GPU ignores them."""
    env = {"LATHE_EMULATED_DEVICES": str(devices), "LATHE_EMULATED_MEMORY": str(memory), "LATHE_EMULATED_LIFE": str(life),
           "LATHE_EMULATED_WATCH": "0"}  # what kernels read and write is looked at in tests/cuda
    if not fusion:
        env["LATHE_CONV_FUSION"] = "0"
    if libraries is not None:
        env["LATHE_EMULATED_LIBRARIES"] = libraries
    if capabilities is not None:
        env["LATHE_EMULATED_CAPABILITIES"] = capabilities
    return lathe(*arguments, env=env, **options)


def gpus(**options):
    rows = [json.loads(line) for line in on_gpu("info", "--json", **options).stdout.splitlines()]
    return [row for row in rows if str(row.get("device", "")).startswith("cuda:")]


def need_gpu(emulated=False):
    found = gpus()
    if not found:
        raise Skip("no CUDA device")
    if emulated and "emulated" not in found[0]["name"]:
        raise Skip("for the emulated GPU only")


def metrics(run):
    return [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]


def losses(run):
    return [row["loss"] for row in metrics(run) if row["split"] == "train"]


def test_training_follows_the_cpu(folder):
    need_gpu()
    steps = ["--max-steps", 4, "--log-every", 1, "--lr", 0.01, "--no-tf32"]
    expect(on_gpu("train", *TINY, *steps, "--device", "cpu", "--run-dir", "cpu"), 0)
    for layout in ("nchw", "nhwc"):
        expect(on_gpu("train", *TINY, *steps, "--device", "cuda", "--no-cudnn-benchmark", "--layout", layout, "--run-dir", layout), 0)
        for step, (got, want) in enumerate(zip(losses(layout), losses("cpu"), strict=True)):
            assert abs(got - want) <= 1e-4 * want, (layout, step, got, want)


def test_mixed_precision_trains(folder):
    need_gpu()
    steps = ["--max-steps", 3, "--log-every", 1, "--lr", 0.01, "--device", "cuda", *(["--no-cudnn-benchmark"] if SANITIZED else [])]
    for amp in ("off", "fp16", "bf16"):
        expect(on_gpu("train", *TINY, *steps, "--amp", amp, "--run-dir", amp), 0)
        for step, (got, want) in enumerate(zip(losses(amp), losses("off"), strict=True)):
            assert abs(got - want) <= 2e-2 * want, (amp, step, got, want)
    if SANITIZED:  # without the search there is no graph
        return
    # eval and predict run the model as a graph, or layer by layer: what people see is the same, but for a few roundings of f16 in scores around 1.
    seen = []
    for fusion in (True, False):
        result = expect(on_gpu("eval", "--run-dir", "fp16", "--worst", 8, "--json", fusion=fusion), 0)
        assert "one by one" not in result.stderr, result.stderr
        rows = map(json.loads, result.stdout.splitlines())
        seen.append({(row["event"], row.get("index"), row.get("class")): row for row in rows})
    assert seen[0].keys() == seen[1].keys() and len(seen[0]) > 3, seen
    for key, row in seen[0].items():
        for name, value in row.items():
            other = seen[1][key][name]
            assert value == other or name == "images_per_second" or name in ("loss", "probability") and abs(value - other) <= 5e-3, (key, name, value, other)
    assert any(row.get("loss") != seen[1][key].get("loss") for key, row in seen[0].items()), "nothing was rounded in another way: no graph"
    rows = map(json.loads, expect(on_gpu("predict", "--run-dir", "fp16", "--index", "0:8", "--json"), 0).stdout.splitlines())
    for row in rows:
        wrong = seen[0].get(("mistake", row["index"], None))
        assert (wrong is None) == (row["label"] == row["predicted"]), row
        assert wrong is None or wrong["predicted"] == row["predicted"] and abs(wrong["probability"] - row["probability"]) <= 5e-3, (wrong, row)


def saved_tensors(run):
    """The bytes of every tensor in the run's last.safetensors."""
    path = pathlib.Path(run) / "last.safetensors"
    header, data = safetensors_header(path), path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    return {name: data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


def test_a_captured_step_keeps_the_bits(folder):
    """Beside steps queued one by one: overflows, changing rates, averages, clipping, a smaller last batch, a pause and its resume."""
    need_gpu()
    run = ["train", *TALKING, "--synthetic-size", 20, "--epochs", 2, "--log-every", 1, "--device", "cuda", "--deterministic",
           "--ema", 0.9, "--clip-grad-norm", 1, "--scheduler", "cosine", "--warmup-epochs", 1]
    for amp in (["--amp", "fp16", "--init-scale", 2.0 ** 19], ["--amp", "off", "--accumulate", 2, "--epochs", 4]):
        name = amp[1]
        expect(on_gpu(*run, *amp, "--no-capture", "--quiet", "--run-dir", f"{name}-queued"), 0)
        result = on_gpu(*run, *amp, "--run-dir", f"{name}-captured")
        expect(result, 0)
        assert "kernel by kernel" not in result.stdout + result.stderr, result.stderr
        others = ["captured"]
        if name == "fp16":
            assert metrics(f"{name}-queued")[-1]["skipped_steps"] > 0
            expect(on_gpu(*run, *amp, "--stop-after", 4, "--quiet", "--run-dir", f"{name}-paused"), 0)
            expect(on_gpu(*run, *amp, "--resume", "auto", "--quiet", "--run-dir", f"{name}-paused"), 0)
            others.append("paused")
        for other in others:
            assert losses(f"{name}-queued") == losses(f"{name}-{other}"), (amp, other)
            queued, captured = saved_tensors(f"{name}-queued"), saved_tensors(f"{name}-{other}")
            assert queued.keys() == captured.keys()
            assert [k for k in queued if queued[k] != captured[k]] == [], (amp, other)


def write_mnist(root, part, count):
    """A few images of noise in MNIST's files (http://yann.lecun.com/exdb/mnist: big endian)."""
    pixels = random.Random(count).randbytes(count * 28 * 28)
    (root / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + pixels)
    (root / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + bytes(k % 10 for k in range(count)))


def test_images_on_the_gpu_give_the_losses_of_images_on_the_host(folder):
    need_gpu()
    write_mnist(folder, "train", 6)
    write_mnist(folder, "t10k", 2)
    data = ["--dataset", "mnist", "--data-root", folder, "--image-size", 28, "--augment", "flip", "--model", "resnet8",
            "--batch-size", 2, "--epochs", 1, "--log-every", 1, "--lr", 0.01, "--deterministic", "--quiet"]
    for name, more in {"ram": [], "gpu": ["--data-cache", "gpu"], "unpinned": ["--no-pin-memory", "--workers", 0]}.items():
        done = json.loads(expect(on_gpu("train", *data, *more, "--device", "cuda", "--run-dir", name, "--json"), 0).stdout.splitlines()[-1])
        assert 0 <= done["data_wait"] <= 1 and 0 < done["save_wait"] <= 1
    assert len(losses("ram")) == 3 and losses("ram") == losses("gpu") == losses("unpinned")
    expect_one_line(on_gpu("train", *data, "--device", "cpu", "--data-cache", "gpu", "--run-dir", "c"), 2, "--data-cache gpu needs a GPU")
    expect_one_line(on_gpu("train", *TINY, "--device", "cuda", "--data-cache", "gpu", "--run-dir", "d"), 2, "--data-cache gpu: synthetic images")


def test_auto_chooses_the_gpu(folder):
    need_gpu()
    started = json.loads(expect(on_gpu("train", *TINY, "--max-steps", 1, "--run-dir", "a", "--json"), 0).stdout.splitlines()[0])
    assert started["device"] == "cuda:0", started


def speed_settings(folder):
    """What config.toml of a run says of the GPU's ways to compute."""
    lines = (pathlib.Path(folder) / "config.toml").read_text().splitlines()
    values = dict(line.split(" = ") for line in lines if " = " in line)
    return {key: values[key] for key in ("layout", "tf32", "cudnn-benchmark", "deterministic")}


def test_what_a_gpu_does_by_default(folder):
    need_gpu()
    step = ["train", *TINY, "--max-steps", 1]
    expect(on_gpu(*step, "--run-dir", "auto"), 0)
    assert speed_settings("auto") == {"layout": '"nhwc"', "tf32": "true", "cudnn-benchmark": "true", "deterministic": "false"}
    expect(on_gpu(*step, "--deterministic", "--run-dir", "deterministic"), 0)
    assert speed_settings("deterministic")["cudnn-benchmark"] == "false"
    expect(on_gpu(*step, "--no-tf32", "--no-cudnn-benchmark", "--layout", "nchw", "--run-dir", "flags"), 0)
    assert speed_settings("flags") == {"layout": '"nchw"', "tf32": "false", "cudnn-benchmark": "false", "deterministic": "false"}
    pathlib.Path("own.toml").write_text("tf32 = false\n")
    expect(on_gpu(*step, "--config", "own.toml", "--run-dir", "file"), 0)
    assert speed_settings("file")["tf32"] == "false"
    expect(on_gpu(*step, "--device", "cpu", "--run-dir", "cpu"), 0)
    assert speed_settings("cpu")["tf32"] == '"auto"', "a config file from a CPU leaves the choice to a GPU"


def test_a_training_has_no_hidden_waits(folder):
    need_gpu()
    run = ["train", *TINY, "--device", "cuda", "--no-cudnn-benchmark", "--deterministic", "--max-steps", 3, "--log-every", 1]
    for mode in ("off", "error"):
        expect(on_gpu(*run, "--sync", mode, "--run-dir", mode), 0)
    assert losses("off") == losses("error") and len(losses("off")) == 3, (losses("off"), losses("error"))
    expect(on_gpu(*run, "--amp", "fp16", "--clip-grad-norm", 1, "--ema", 0.9, "--optimizer", "lars", "--save-every", 2, "--tensorboard",
                  "--sync", "error", "--run-dir", "fp16"), 0)


def test_weights_trained_on_the_gpu_serve_the_cpu(folder):
    need_gpu()
    expect(on_gpu("train", *TINY, "--max-steps", 2, "--device", "cuda", "--no-tf32", "--no-cudnn-benchmark", "--run-dir", "a"), 0)
    rows = [json.loads(on_gpu("eval", "--run-dir", "a", "--device", device, "--json").stdout.splitlines()[0])
            for device in ("cpu", "cuda")]
    assert abs(rows[0]["loss"] - rows[1]["loss"]) <= 1e-4 * rows[0]["loss"], rows


def test_a_second_gpu(folder):
    need_gpu(emulated=True)
    assert len(gpus(devices=2)) == 2
    expect(on_gpu("train", *TINY, "--max-steps", 1, "--device", "cuda:1", "--no-cudnn-benchmark", "--run-dir", "a", devices=2), 0)
    expect_one_line(on_gpu("train", *TINY, "--device", "cuda:2", "--run-dir", "b", devices=2), 4, "cuda:2")
    assert not pathlib.Path("b").exists(), "a run that never began leaves nothing"


def test_a_gpu_that_is_too_small(folder):
    need_gpu(emulated=True)
    result = expect(on_gpu("train", *TINY, "--device", "cuda", "--run-dir", "a", memory=1 << 20), 5, "out of memory")
    assert "requested" in result.stderr, result.stderr


def test_a_gpu_that_fails_for_good_leaves_a_checkpoint(folder):
    need_gpu(emulated=True)
    for kernels in range(150, 1500, 150):  # the forecast of memory has some hundred, a step about 120
        run = f"after-{kernels}"
        result = expect(on_gpu("train", *TALKING, "--device", "cuda", "--no-cudnn-benchmark", "--run-dir", run, life=kernels),
                        4, "cudaErrorLaunchFailure")
        if "holds the weights of" in result.stderr:
            break
        assert not pathlib.Path(run, "last.safetensors").exists(), "a file that the error does not name"
    expect(result, 4, f"{run}/last.safetensors holds the weights of step 0")
    assert safetensors_header(f"{run}/last.safetensors")["__metadata__"]["lathe.step"] == "0"


def test_a_gpu_whose_libraries_are_missing_is_not_used(folder):
    need_gpu(emulated=True)
    for name, file, others in (("cuDNN", "libcudnn.so.9", "libcublasLt.so.13"), ("cuBLASLt", "libcublasLt.so.13", "libcudnn.so.9")):
        reason = f"{name} cannot be loaded: {file}: cannot open shared object file: No such file or directory; "
        result = expect(on_gpu("train", *TALKING, "--max-steps", 1, "--run-dir", name, libraries=others), 0, f"device: cpu, because {reason}")
        assert result.stderr.count("cannot be loaded") == 1, result.stderr
        expect_one_line(on_gpu("train", *TINY, "--device", "cuda", "--run-dir", "a", libraries=others), 4, f"--device cuda: {reason}")
        rows = [json.loads(line) for line in expect(on_gpu("info", "--json", libraries=others), 0).stdout.splitlines()]
        assert rows[0][name] == "not found" and not [row for row in rows if "device" in row], rows
        assert f"devices        cpu ({reason}" in on_gpu("info", libraries=others).stdout


def test_a_gpu_for_which_no_kernels_are_compiled_is_not_used(folder):
    need_gpu(emulated=True)
    problem = ("cuda:0 has compute capability 8.0, but this build's kernels are compiled for 90; "
               "configure with -DCMAKE_CUDA_ARCHITECTURES=80")
    mixed = {"devices": 2, "capabilities": "80 90"}
    expect(on_gpu("train", *TALKING, "--max-steps", 1, "--run-dir", "a", capabilities="80"), 0, f"device: cpu, because {problem}")
    expect_one_line(on_gpu("train", *TINY, "--device", "cuda", "--run-dir", "b", capabilities="80"), 4, f"--device cuda: {problem}")
    rows = gpus(**mixed)  # the other GPU stays usable, and both are listed
    assert [row["problem"] for row in rows] == [problem, ""], rows
    expect_one_line(on_gpu("train", *TINY, "--device", "cuda:0", "--run-dir", "c", **mixed), 4, problem)
    expect(on_gpu("train", *TINY, "--device", "cuda:1", "--max-steps", 1, "--run-dir", "d", **mixed), 0)


def test_without_a_gpu(folder):
    none = {"LATHE_EMULATED_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""}
    expect_one_line(lathe("train", *TINY, "--device", "cuda", "--run-dir", "a", env=none), 4, "cuda")
    expect(lathe("train", *TALKING, "--max-steps", 1, "--run-dir", "b", env=none), 0, "device: cpu, because")
    known = json.loads(pathlib.Path("b/env.json").read_text())
    assert known["cuda"] == "off" or known["cuDNN"] == known["cuBLASLt"] == "not loaded", known


PLAN = ["plan", "--gpu", "h200", "--model", "resnet8", "--image-size", 4, "--batch-size", 2]


def test_a_plan_has_a_measured_column(folder):
    need_gpu()
    for amp in ("fp16",) if SANITIZED else ("off", "fp16"):  # the plan for people measures the other one, too
        rows = [json.loads(line) for line in expect(on_gpu(*PLAN, "--amp", amp, "--json"), 0).stdout.splitlines()]
        launches, (step,) = [row for row in rows if "launch" in row], [row for row in rows if "measured" in row]
        timed = [row for row in launches if "op_seconds_measured" in row]
        assert step["measured"] == "cuda:0" and step["gpu"] == gpus()[0]["name"] and step["seconds"] > 0, step
        assert abs(step["images_per_second"] * step["seconds"] / 2 - 1) < 1e-9, step
        total = sum(row["op_seconds_measured"] for row in timed)
        assert total > 0 and abs(total + step["seconds_beside_no_launch"] - step["seconds_of_ops"]) < 1e-9, step
        assert all(row["op_seconds_measured"] >= 0 for row in timed), timed
        ops = {row["op"] for row in timed}
        assert {"conv2d", "batch_norm_relu", "conv2d_input_grad", "conv2d_weight_grad", "batch_norm_relu backward"} <= ops, (amp, ops)
        assert all(row["launch"] not in ("train_kernel", "input_kernel") for row in timed), "not an op's first launch"


def test_a_plan_for_people_says_what_was_measured(folder):
    need_gpu()
    text = " ".join(expect(on_gpu(*PLAN), 0).stdout.split())
    assert "slow op took" in text and "measured on cuda:0 (" in text and "belong to no launch above" in text, text
    text = expect(on_gpu(*PLAN, "--device", "cpu"), 0).stdout
    assert "op took" not in text and "measured on" not in text, text


def test_a_plan_of_a_batch_that_this_gpu_has_no_memory_for(folder):
    need_gpu(emulated=True)
    text = expect(on_gpu(*PLAN, memory=1 << 20), 0).stdout
    assert "not measured on cuda:0 (" in text and "out of memory" in text and "largest batch" in text, text
    assert "op took" not in text, text


def test_convolutions_and_what_is_fused_with_them(folder):
    need_gpu(emulated=True)  # whose engines take all of these layers
    conv = ["bench", "conv", "--device", "cuda", "--model", "resnet8", "--batch-size", 2, "--image-size", 4, "--dtype", "f16", "--seconds", 0.01,
            "--peak-gflops", 1, "--peak-gbytes", 1, "--search-per-engine", 1, "--json"]
    rows = [json.loads(line) for line in expect(on_gpu(*conv, memory=1 << 31), 0).stdout.splitlines()]
    plain, fused = [row for row in rows[:-1] if "fusion" not in row], [row for row in rows if "fusion" in row]
    patterns = {(row["pass"], row["fusion"]) for row in fused}
    assert patterns == {("forward", "statistics"), ("forward", "norm_relu"), ("backward_input", "relu_norm"), ("backward_weight", "norm_relu")}, rows
    assert {row["layer"] for row in fused} == {row["layer"] for row in plain} - {"conv1"}, "the stem's 3 channels cannot be fused"
    assert all(row["seconds"] > 0 and row["split_seconds"] > 0 and row["search_seconds"] > 0 for row in fused), fused
    assert all(row["settings_timed"] == row["settings"] for row in fused), "all of a pattern are timed"
    assert {(row["settings"], row["settings_timed"]) for row in plain} == {(5, 3)}, "7:0=2 but not 7:0=1, 3, 4; 5 is filtered"
    assert abs(rows[-1]["seconds"] - sum(row["count"] * row["seconds"] for row in plain)) < 1e-9, "of the plain ones alone"


main(globals())
