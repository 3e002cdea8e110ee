#!/usr/bin/env python3
"""`lathe ckpt` and programs that PyTorch exported: .pt2 files to every other format, and back.

    program_file_test.py LATHE [--sanitized]
"""
import json
import pathlib
import shutil
import zipfile

from driver import expect, expect_one_line, lathe, main
from short_run import train

GOLDEN = pathlib.Path(__file__).parents[1] / "graph/golden_pt2"


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


def test_what_does_not_go(folder):
    shutil.copy(GOLDEN / "conv_net.pt2", "net.pt2")
    expect_one_line(lathe("ckpt", "convert", "net.pt2", "net.pt2"), 2, "net.pt2 is the file that is read")
    pathlib.Path("other.pt2").write_bytes(b"precious")
    expect_one_line(lathe("ckpt", "convert", "net.pt2", "other.pt2"), 2, "other.pt2 may be something else")
    assert pathlib.Path("other.pt2").read_bytes() == b"precious"
    expect_one_line(lathe("ckpt", "convert", "other.pt2", "w.npz"), 3, "other.pt2")
    expect_one_line(lathe("ckpt", "convert", "none.pt2", "w.npz"), 3, "none.pt2")
    expect(train("a", "--stop-after", 1), 0)
    expect_one_line(lathe("ckpt", "convert", "a/last.safetensors", "w.pt2"), 2, "its model is one of the library")
    assert not pathlib.Path("w.pt2").exists()


main(globals())
