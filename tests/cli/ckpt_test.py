#!/usr/bin/env python3
"""`lathe ckpt`: what it shows of checkpoints, compares, converts, and tries by itself.

    ckpt_test.py LATHE [--sanitized]
"""
import hashlib
import io
import json
import os
import pathlib
import pickle
import re
import shutil
import signal
import struct
import sys
import time
import types
import zipfile

from driver import expect, expect_one_line, lathe, main, start
from short_run import TINY, last_of, train


def check_ways_between_formats():
    """Every way between the formats ends with the weights that it began with, and they go on training."""
    expect(lathe("ckpt", "convert", "two.safetensors", "w.lathe"), 0)
    for way in ("w.lathe v.safetensors", "w.onnx v.safetensors v.npz", "w.safetensors v.onnx v.lathe v.npz", "w.onnx v.lathe v.safetensors v.onnx v.npz"):
        files = way.split()
        for source, to in zip(files, files[1:]):
            expect(lathe("ckpt", "convert", source, to), 0)
        differences = lathe("ckpt", "diff", "w.npz", files[-1])  # a graph does not count batches
        assert all("num_batches_tracked" in line and "only in" not in line for line in differences.stdout.splitlines()), (way, differences)
        pathlib.Path(files[-1]).unlink() if files[-1].endswith(".npz") else None
    differences = lathe("ckpt", "diff", "w.npz", "w.onnx").stdout.splitlines()
    assert all("num_batches_tracked" in line and "only in" not in line for line in differences), differences
    assert "layer3.0.bn2.running_var" in expect(lathe("ckpt", "show", "w.onnx"), 0).stdout
    results = [expect(lathe("eval", "--run-dir", "a", "--weights", name), 0).stdout.rpartition(",")[0]  # without the speed
               for name in ("w.safetensors", "v.safetensors", "w.onnx", "w.lathe")]
    assert "top-1" in results[0] and len(set(results)) == 1, results
    expect(train("b", "--weights", "w.onnx", "--stop-after", 1), 0)
    expect_one_line(lathe("bench", "infer", "--weights", "w.npz"), 3, "w.npz: this file holds weights alone, and bench infer --weights takes a graph")
    assert "w.onnx" in expect(lathe("bench", "infer", "--weights", "w.onnx", "--batch-size", 2, "--seconds", 0.05), 0).stdout
    expect(lathe("ckpt", "convert", "w.lathe", "again.lathe"), 0)


def check_what_is_replaced():
    """Nothing that holds more than weights."""
    saved, run = pathlib.Path("two.safetensors").read_bytes(), last_of("a")
    pathlib.Path("link.safetensors").symlink_to("two.safetensors")
    for to in ("two.safetensors", "link.safetensors"):
        expect_one_line(lathe("ckpt", "convert", "two.safetensors", to), 2, f"{to} is the file that is converted")
    expect_one_line(lathe("ckpt", "convert", "two.safetensors", "a/last.safetensors"), 2, "a/last.safetensors is a checkpoint")
    assert pathlib.Path("two.safetensors").read_bytes() == saved and last_of("a") == run
    damaged = run[:-1] + bytes([run[-1] ^ 1])
    pathlib.Path("damaged.safetensors").write_bytes(damaged)
    expect_one_line(lathe("ckpt", "convert", "two.safetensors", "damaged.safetensors"), 2, "damaged.safetensors may be a checkpoint")
    assert pathlib.Path("damaged.safetensors").read_bytes() == damaged
    for to in ("w.safetensors", "w.npz", "w.onnx", "w.lathe"):  # weights are
        expect(lathe("ckpt", "convert", "a/last.safetensors", to), 0)


def test_ckpt_commands(folder):
    expect(train("a", "--stop-after", 2), 0)
    rows = [json.loads(line) for line in expect(lathe("ckpt", "show", "a/last.safetensors", "--json"), 0).stdout.splitlines()]
    parts = {row["part"]: row for row in rows if row["event"] == "part"}
    assert set(parts) == {"model", "optimizer", "scheduler", "trainer", "rng"}, parts  # f32 has no loss scale
    assert sum(row["event"] == "entry" for row in rows) == sum(part["entries"] for part in parts.values())
    assert rows[-1]["lathe.step"] == "2" and rows[-1]["checksum"] and 'model = "resnet8"' in rows[-1]["lathe.config"]
    (weight,) = [row for row in rows if row.get("name") == "fc.bias"]
    data = last_of("a")
    length = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:8 + length])["fc.bias"]["data_offsets"]
    assert weight["sha256"] == hashlib.sha256(data[8 + length + begin:8 + length + end]).hexdigest() and weight["type"] == "f32[10]"

    assert "same" in expect(lathe("ckpt", "diff", "a/last.safetensors", "a/last.safetensors"), 0).stdout
    shutil.copy("a/last.safetensors", "two.safetensors")
    expect(lathe("train", "--resume", "a", "--stop-after", 3, "--quiet"), 0)
    result = expect_one_line(lathe("ckpt", "diff", "two.safetensors", "a/last.safetensors"), 7, "entries differ")
    assert "conv1.weight" in result.stdout and "differs by up to" in result.stdout and "trainer.step" in result.stdout
    expect(lathe("ckpt", "convert", "two.safetensors", "w.safetensors"), 0)
    result = expect_one_line(lathe("ckpt", "diff", "two.safetensors", "w.safetensors"), 7)
    assert all("only in two.safetensors" in line for line in result.stdout.splitlines()) and "conv1" not in result.stdout
    expect(lathe("eval", "--run-dir", "a", "--weights", "w.safetensors"), 0)
    expect(lathe("ckpt", "convert", "two.safetensors", "w.npz"), 0)
    expect(lathe("ckpt", "diff", "w.safetensors", "w.npz"), 0)
    expect(lathe("eval", "--run-dir", "a", "--weights", "w.npz"), 0)
    expect_one_line(lathe("train", "--resume", "w.safetensors"), 3, "w.safetensors is a file of weights", "--weights w.safetensors")
    expect_one_line(lathe("ckpt", "convert", "two.safetensors", "w.txt"), 2, "w.txt")
    said = expect(lathe("ckpt", "convert", "two.safetensors", "w.onnx"), 0).stdout
    entries = re.fullmatch(r"w\.onnx: (\d+) bytes, (\d+) entries of the model\n", said)
    assert entries and int(entries[1]) == os.path.getsize("w.onnx") and int(entries[2]) > 0, said
    graph = pathlib.Path("w.onnx").read_bytes()
    assert b"resnet8" in graph and b"layer3.0.bn2.running_var" in graph
    expect_one_line(lathe("ckpt", "convert", "w.npz", "v.onnx"), 2, "w.npz: this file does not say which model it is of")
    expect_one_line(lathe("ckpt", "convert", "w.npz", "v.lathe"), 2, "w.npz: this file does not say which model it is of")
    check_ways_between_formats()
    shutil.copy("w.safetensors", "weights.lathe")
    expect_one_line(lathe("ckpt", "convert", "two.safetensors", "weights.lathe"), 2, "weights.lathe holds something else than a graph")
    expect_one_line(lathe("ckpt", "show", "missing"), 3, "missing")
    pathlib.Path("p.pack").write_bytes(b"\x89LPK\r\n\x1a\n" + bytes(56))
    expect_one_line(lathe("ckpt", "show", "p.pack"), 3, "p.pack: is a packed file of images")
    expect_one_line(lathe("ckpt", "show"), 2, "one file")
    check_what_is_replaced()


def write_npz(path, rows, columns, values, fortran=False, kind="f4"):
    """One array "w" (f32; i64 for "i8") whose values lie in the file as given."""
    about = f"{{'descr': '<{kind}', 'fortran_order': {fortran}, 'shape': ({rows}, {columns}), }}"
    about += " " * (-(len(about) + 11) % 64) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(about)) + about.encode() + struct.pack(f"<{len(values)}{dict(f4='f', i8='q')[kind]}", *values))


def write_pth(path, value):
    """What torch.save writes of dictionaries and lists of f32, which become tensors (torch/serialization.py, torch/_utils.py)."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2():
        """Only its name is written."""
    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__, utils._rebuild_tensor_v2 = "torch._utils", "_rebuild_tensor_v2", _rebuild_tensor_v2
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})

    class Vector:
        def __init__(self, numbers):
            self.numbers = numbers

        def __reduce__(self):
            return _rebuild_tensor_v2, (Storage(self.numbers), 0, (len(self.numbers),), (1,), False, None)

    class Storage(list):
        pass

    class Pickler(pickle.Pickler):
        def persistent_id(self, o):
            if not isinstance(o, Storage):
                return None
            storages.append(o)
            return "storage", torch.FloatStorage, str(len(storages) - 1), "cpu", len(o)

    def of(o):
        return {k: of(v) for k, v in o.items()} if isinstance(o, dict) else Vector(o) if isinstance(o, list) else o

    storages, out = [], io.BytesIO()
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        Pickler(out, 2).dump(of(value))
    finally:
        del sys.modules["torch"], sys.modules["torch._utils"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", out.getvalue())
        for i, numbers in enumerate(storages):
            archive.writestr(f"x/data/{i}", struct.pack(f"<{len(numbers)}f", *numbers))


def test_a_section_of_a_pth_file_is_found_or_named(folder):
    write_pth("net.pth", {"net": {"w": [1.0, 2.0]}, "acc": 90.5, "epoch": 3, "rng": 7})
    assert re.search(r"\bw +f32\[2\]", expect(lathe("ckpt", "show", "net.pth"), 0).stdout)
    write_pth("two.pth", {"params": {"w": [1.0]}, "params_ema": {"w": [1.0, 3.0]}, "deep": {"model": {"w": [1.0, 3.0]}}})
    expect_one_line(lathe("ckpt", "show", "two.pth"), 3, 'two.pth: holds 2 dictionaries of tensors, of which one must be named as the section to read: "params", "params_ema"; --weights-section NAME names it')
    for section, shape in (("params", 1), ("params_ema", 2), ("deep.model", 2)):
        assert f"f32[{shape}]" in expect(lathe("ckpt", "show", "two.pth", "--weights-section", section), 0).stdout
    expect(lathe("ckpt", "convert", "two.pth", "ema.npz", "--weights-section", "params_ema"), 0)
    expect(lathe("ckpt", "diff", "two.pth", "two.pth", "--weights-section", "params_ema"), 0)
    assert "f32[2]" in expect(lathe("ckpt", "show", "ema.npz"), 0).stdout
    for command in (["predict", "x.png"], ["eval", "--dataset", "synthetic"], ["train", "--dataset", "synthetic"], ["explain"]):
        more = ["--model", "resnet8", "--weights", "two.pth"]
        expect_one_line(lathe(*command, *more), 3, "--weights-section NAME names it")
        expect_one_line(lathe(*command, *more, "--weights-section", "none"), 3, 'has no dictionary "none"; there is: "params", "params_ema", "deep"')
        result = lathe(*command, *more, "--weights-section", "params_ema")
        assert result.returncode == 3 and "--weights-section" not in result.stderr, result
    expect_one_line(lathe("ckpt", "show", "ema.npz", "--weights-section", "ema"), 3, 'ema.npz: a section ("ema") is named, but a file in the format npz has none')


def test_files_that_are_no_weights_are_named(folder):
    pathlib.Path("lfs.pth").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 44807000\n")
    pathlib.Path("page.onnx").write_text("<!DOCTYPE html><html>Sign in</html>")
    for words in (["ckpt", "show"], ["predict", "x.png", "--model", "resnet8", "--weights"], ["train", "--dataset", "synthetic", "--model", "resnet8", "--weights"], ["train", "--resume"]):
        expect_one_line(lathe(*words, "lfs.pth"), 3, "lfs.pth: is a pointer of Git LFS, which stands for the file; `git lfs pull` fetches it")
    for words in (["ckpt", "show"], ["predict", "x.png", "--weights"], ["bench", "infer", "--weights"]):
        expect_one_line(lathe(*words, "page.onnx"), 3, "page.onnx: is a web page (HTML)")


def test_ckpt_diff_compares_values_wherever_they_lie(folder):
    write_npz("c.npz", 2, 3, [1, 2, 3, 4, 5, 6], fortran=False)
    write_npz("f.npz", 2, 3, [1, 4, 2, 5, 3, 6], fortran=True)  # the same matrix
    write_npz("other.npz", 2, 3, [1, 2, 3, 4, 5, 6], fortran=True)  # the same bytes
    for a, b in (("c", "f"), ("f", "c"), ("f", "f")):
        assert "same" in expect(lathe("ckpt", "diff", f"{a}.npz", f"{b}.npz"), 0).stdout
    for a, b in (("c", "other"), ("other", "c")):
        assert "differs by up to 2" in expect_one_line(lathe("ckpt", "diff", f"{a}.npz", f"{b}.npz"), 7).stdout


def test_ckpt_diff_says_how_much_where_a_double_does_not(folder):
    def said(a, b):
        return expect_one_line(lathe("ckpt", "diff", a, b), 7).stdout
    write_npz("a.npz", 1, 2, [2 ** 53, -2 ** 63], kind="i8")
    write_npz("b.npz", 1, 2, [2 ** 53 + 1, -2 ** 63], kind="i8")
    write_npz("c.npz", 1, 2, [2 ** 53, 2 ** 63 - 1], kind="i8")
    assert "differs by up to 1\n" in said("a.npz", "b.npz") and "differs by up to 1.84e+19" in said("a.npz", "c.npz")
    write_npz("plus.npz", 1, 1, [0.0])
    write_npz("minus.npz", 1, 1, [-0.0])
    assert "differs only in the sign of zeros or in the bits of NaNs" in said("plus.npz", "minus.npz")


def test_verify_resume(folder):
    expect(train("a", "--stop-after", 1), 0)
    result = expect(lathe("ckpt", "verify-resume", "--run-dir", "a", "--steps", 9, "--interrupt-at", 8), 0)
    assert "identical after 9 steps" in result.stdout and result.stdout.count("identical ") == 7, result.stdout
    result = expect(lathe("ckpt", "verify-resume", *TINY, "--steps", 4, "--json"), 0)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["part"] for row in rows] == ["model", "optimizer", "scheduler", "trainer", "rng", "losses"] and all(row["identical"] for row in rows)
    expect_one_line(lathe("ckpt", "verify-resume", *TINY, "--steps", 4, "--interrupt-at", 4), 2, "--interrupt-at")
    # Both trainings are those of the flags, whatever the environment says; what no flag says is taken from there.
    def rows_in(env, *flags):
        result = expect(lathe("ckpt", "verify-resume", *TINY, *flags, "--steps", 4, "--json", env=env), 0)
        return [row["sha256"] for row in map(json.loads, result.stdout.splitlines()) if row["part"] in ("model", "losses")]
    disturbing = {"LATHE_LR": "0.5", "LATHE_MAX_STEPS": "2", "LATHE_TARGET_ACC": "0.99", "LATHE_RESUME": "nothing", "LATHE_STOP_AFTER": "1"}
    assert rows_in(disturbing, "--lr", 0.1) == rows_in({}, "--lr", 0.1) != rows_in(disturbing) == rows_in({}, "--lr", 0.5)
    for flags in (["--scheduler", "plateau", "--warmup-epochs", 0.5, "--optimizer", "rmsprop"],
                  ["--ema", 0.9, "--optimizer", "adamw"],
                  ["--scheduler", "onecycle", "--optimizer", "lamb", "--clip-grad-norm", 1, "--no-decay-norm"],
                  *(["--optimizer", name] for name in ("adagrad", "adadelta", "adamax", "nadam", "radam", "lion", "muon", "adafactor"))):
        expect(lathe("ckpt", "verify-resume", *TINY, *flags, "--steps", 18, "--interrupt-at", 11), 0)


def test_verify_resume_without_a_place_for_its_files(folder):
    expect_one_line(lathe("ckpt", "verify-resume", *TINY, "--steps", 2, env={"TMPDIR": "/nowhere"}), 1,
                    "verify-resume: there is no folder for temporary files (TMPDIR): No such file or directory")


def test_verify_resume_that_is_stopped_leaves_nothing(folder):
    verify = ["ckpt", "verify-resume", *TINY, "--epochs", 100000, "--steps", 1000000]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process = start(*verify, env={"TMPDIR": str(folder)})
        while not any(path.stat().st_size > 0 for path in folder.glob("lathe-verify-*/whole/metrics.jsonl")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        child = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code, (process.returncode, errors)
        if number != signal.SIGKILL:  # after which nobody cleans up
            assert "lathe: verify-resume: stopped by" in errors and not list(folder.glob("lathe-verify-*")), errors
        for _ in range(3000):  # the child has ended; where nobody waits for orphans it stays as a zombie
            status = pathlib.Path(f"/proc/{child}/stat")
            try:
                if status.read_text().rpartition(")")[2].split()[0] == "Z":
                    break
            except OSError:
                break
            time.sleep(0.01)
        else:
            raise AssertionError("the training goes on alone")


main(globals())
