#!/usr/bin/env python3
"""`lathe ckpt` and programs that PyTorch exported: .pt2 files to every other format, and back.

    program_file_test.py LATHE --golden=FOLDER [--sanitized]       (tests/graph/golden_pt2, by make_pt2_golden.py)
"""
import json
import pathlib
import shutil
import sys
import zipfile

from driver import expect, expect_one_line, lathe, main
from short_run import train

GOLDEN = pathlib.Path(next(word.partition("=")[2] for word in sys.argv if word.startswith("--golden="))).resolve()


def entries(path):
    """The archive's entries without their root."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def test_a_program_becomes_weights_graphs_and_a_program(folder):
    shutil.copy(GOLDEN / "conv_net.pt2", "net.pt2")
    assert "norm.running_var" in expect(lathe("ckpt", "show", "net.pt2"), 0).stdout
    for to in ("w.safetensors", "w.npz", "net.lathe", "again.pt2"):
        said = expect(lathe("ckpt", "convert", "net.pt2", to), 0).stdout
        assert "entries of the model" in said, said
    for other in ("w.safetensors", "w.npz", "again.pt2"):
        assert "bit by bit" in expect(lathe("ckpt", "diff", "net.pt2", other), 0).stdout
    before, after = entries("net.pt2"), entries("again.pt2")
    assert after["models/model.json"] == before["models/model.json"]
    table = json.loads(after["data/weights/model_weights_config.json"])["config"]
    assert set(table) == set(json.loads(before["data/weights/model_weights_config.json"])["config"])
    assert all(f"data/weights/{row['path_name']}" in after for row in table.values())
    expect(lathe("bench", "infer", "--weights", "net.lathe", "--batch-size", 2, "--seconds", 0.05), 0)


def test_programs_become_graphs_in_evaluation(folder):
    for name in ("tied", "depth", "under"):  # tokens; stochastic depth; a part under autocast
        for to in ("out.onnx", "out.lathe"):
            expect(lathe("ckpt", "convert", GOLDEN / f"{name}.pt2", to), 0)
    said = expect(lathe("ckpt", "convert", GOLDEN / "scopes.pt2", "out.lathe"), 0).stdout
    assert said.startswith("only for inputs of [1,4]: trace: the program is not the same for another batch"), said


def test_a_run_gives_its_program_back(folder):
    shutil.copy(GOLDEN / "classifier.pt2", "net.pt2")
    expect(lathe("train", "--dataset", "synthetic", "--synthetic-size", 60, "--batch-size", 20, "--model", "net.pt2", "--max-steps", 3, "--quiet", "--run-dir", "a"), 0)
    shutil.move("net.pt2", "moved.pt2")
    for source in ("a/last.safetensors", "w.safetensors"):
        if source.startswith("w"):
            expect(lathe("ckpt", "convert", "a/last.safetensors", source), 0)
        expect(lathe("ckpt", "convert", source, "back.pt2"), 0)
        before, after = entries("moved.pt2"), entries("back.pt2")
        assert after["models/model.json"] == before["models/model.json"]
        expect(lathe("ckpt", "convert", "back.pt2", "b.npz"), 0)
        expect(lathe("ckpt", "convert", "a/last.safetensors", "a.npz"), 0)
        assert "bit by bit" in expect(lathe("ckpt", "diff", "a.npz", "b.npz"), 0).stdout
        assert "differs" in expect_one_line(lathe("ckpt", "diff", "back.pt2", "moved.pt2"), 7).stdout


def test_weights_go_into_the_program_that_is_named(folder):
    shutil.copy(GOLDEN / "conv_net.pt2", "net.pt2")
    expect(lathe("ckpt", "convert", "net.pt2", "same.npz"), 0)
    with zipfile.ZipFile("same.npz") as source, zipfile.ZipFile("other.npz", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, content[:-4] + b"\0\0\x80\x3f" if name == "stem.weight.npy" else content)  # 1 in f32
    for to in ("new.pt2", "new.lathe"):
        expect(lathe("ckpt", "convert", "other.npz", to, "--model", "net.pt2"), 0)
    assert "bit by bit" in expect(lathe("ckpt", "diff", "new.pt2", "other.npz"), 0).stdout
    assert expect_one_line(lathe("ckpt", "diff", "new.pt2", "net.pt2"), 7).stdout.startswith("stem.weight ")
    shutil.copy(GOLDEN / "tied.pt2", "tied.pt2")
    expect_one_line(lathe("ckpt", "convert", "same.npz", "x.pt2", "--model", "tied.pt2"), 3, "same.npz")
    expect_one_line(lathe("ckpt", "convert", "same.npz", "x.pt2", "--model", "resnet18"), 2, "--model resnet18: expected a .pt2 file")
    expect_one_line(lathe("ckpt", "convert", "net.pt2", "x.pt2", "--model", "net.pt2"), 2, "leave out --model")
    expect_one_line(lathe("ckpt", "convert", "same.npz", "x.npz", "--model", "net.pt2"), 2, "weights need no program")
    expect_one_line(lathe("ckpt", "convert", "same.npz", "net.pt2", "--model", "net.pt2"), 2, "net.pt2 is the program that is read")
    expect_one_line(lathe("ckpt", "convert", "same.npz", "x.pt2"), 2, "this file does not say which model it is of, which a .pt2 file needs to know")


def test_what_does_not_go(folder):
    shutil.copy(GOLDEN / "conv_net.pt2", "net.pt2")
    expect_one_line(lathe("ckpt", "convert", "net.pt2", "net.pt2"), 2, "net.pt2 is the file that is converted")
    pathlib.Path("other.pt2").write_bytes(b"precious")
    expect_one_line(lathe("ckpt", "convert", "net.pt2", "other.pt2"), 2, "other.pt2 may be something else")
    assert pathlib.Path("other.pt2").read_bytes() == b"precious"
    expect_one_line(lathe("ckpt", "convert", "other.pt2", "w.npz"), 3, "other.pt2")
    expect_one_line(lathe("ckpt", "convert", "none.pt2", "w.npz"), 3, "none.pt2")
    expect(train("a", "--stop-after", 1), 0)
    expect_one_line(lathe("ckpt", "convert", "a/last.safetensors", "w.pt2"), 2, "its model is one of the library")
    assert not pathlib.Path("w.pt2").exists()


main(globals())
