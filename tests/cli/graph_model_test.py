#!/usr/bin/env python3
"""--model FILE.onnx and FILE.lathe: a graph is trained, resumed, evaluated and used like a model of the library.

    graph_model_test.py LATHE --golden=FOLDER [--sanitized]       (tests/graph/golden_pt2, by make_pt2_golden.py)

The graphs are made of classifier.pt2, and the oracle is the training of that program itself.
"""
import json
import pathlib
import sys
import time
import zipfile

from driver import expect, expect_one_line, lathe, main, start
from runs import rows_of, safetensors_header, write_png

GOLDEN = pathlib.Path(next(word.partition("=")[2] for word in sys.argv if word.startswith("--golden="))).resolve()
DATA = ["--dataset", "synthetic", "--synthetic-size", 60, "--batch-size", 20]
RUN = ["train", *DATA, "--max-steps", 8, "--epochs", 3, "--log-every", 1, "--quiet", "--model"]


def take(*endings):
    """classifier.pt2 without its dropout, which a graph in evaluation has not."""
    with zipfile.ZipFile(GOLDEN / "classifier.pt2") as given, zipfile.ZipFile("net.pt2", "w") as changed:
        for entry in given.namelist():
            content = given.read(entry)
            if entry.endswith("models/model.json"):
                model = json.loads(content)
                dropout = next(node for node in model["graph_module"]["graph"]["nodes"] if "dropout" in node["target"])
                next(one for one in dropout["inputs"] if one["name"] == "p")["arg"] = {"as_float": 0.0}
                content = json.dumps(model).encode()
            changed.writestr(entry, content)
    for ending in endings:
        expect(lathe("ckpt", "convert", "net.pt2", "net" + ending), 0)


def test_it_learns_as_the_program_does(folder):
    take(".onnx", ".lathe")
    expect(lathe(*RUN, "net.pt2", "--run-dir", "program"), 0)
    losses = [row["loss"] for row in rows_of("program", "train")]
    assert len(losses) == 8 and losses[-1] != losses[0], losses
    for ending in ("onnx", "lathe"):
        constant = ["--freeze", "c0"] if ending == "onnx" else []  # an ONNX file has it as a weight
        expect(lathe(*RUN, f"net.{ending}", *constant, "--run-dir", ending), 0)
        assert "these train, too" not in pathlib.Path(ending, "log.txt").read_text()
        own = [row["loss"] for row in rows_of(ending, "train")]
        assert len(own) == 8 and all(abs(a - b) < 1e-4 for a, b in zip(own, losses)), (own, losses)
        assert abs(rows_of(ending, "val")[-1]["loss"] - rows_of("program", "val")[-1]["loss"]) < 1e-3
        assert safetensors_header(f"{ending}/last.safetensors")["fc.weight"]["shape"] == [10, 8]


def test_its_run_needs_the_file_no_more(folder):
    take(".onnx", ".lathe")
    for ending in ("onnx", "lathe"):
        run = [*RUN, f"net.{ending}", "--run-dir"]
        expect(lathe(*run, f"whole-{ending}"), 0)
        said = pathlib.Path(f"whole-{ending}", "log.txt").read_text()
        assert ("does not tell weights from constants: c0 f32[1,8]; --freeze NAME keeps one as it is" in said) == (ending == "onnx"), said
        expect(lathe(*run, ending, "--stop-after", 4), 0)
        pathlib.Path(f"net.{ending}").unlink()
        expect(lathe("train", "--resume", ending, "--quiet"), 0)
        assert (folder / f"whole-{ending}/last.safetensors").read_bytes() == (folder / f"{ending}/last.safetensors").read_bytes()
        said = json.loads(expect(lathe("eval", "--run-dir", ending, "--json"), 0).stdout.splitlines()[0])
        assert said["accuracy"] == max(row["accuracy"] for row in rows_of(ending, "val")), said
        write_png(folder / "a.png", 20, [bytes([9, 200, 30] * 20)] * 20)
        assert "a.png: " in expect(lathe("predict", "--run-dir", ending, "a.png"), 0).stdout
        expect(lathe("report", ending, "--output", "r.html"), 0)
        shown = []
        for made in ("w.safetensors", "w.onnx", "w.lathe"):
            expect(lathe("ckpt", "convert", f"{ending}/best.safetensors", made), 0)
            shown.append(expect(lathe("predict", "--weights", made, "a.png"), 0).stdout)
        assert len(set(shown)) == 1, shown
        expect_one_line(lathe("ckpt", "convert", f"{ending}/best.safetensors", "w.pt2"), 2, "its model is a graph; only a program that PyTorch exported")


def test_killed_it_goes_on_without_its_file_to_the_same_bits(folder):
    take(".onnx")
    long = ["train", "--dataset", "synthetic", "--synthetic-size", 300, "--batch-size", 20, "--model", "net.onnx", "--epochs", 3, "--save-every", 2, "--quiet", "--run-dir"]
    expect(lathe(*long, "whole"), 0)
    process = start(*long, "a", "--resume", "auto")
    while process.poll() is None and not pathlib.Path("a/last.safetensors").exists():
        time.sleep(0.001)
    process.kill()
    process.communicate()
    pathlib.Path("net.onnx").unlink()
    expect(lathe(*long, "a", "--resume", "auto"), 0)
    assert (folder / "whole/last.safetensors").read_bytes() == (folder / "a/last.safetensors").read_bytes()


def test_a_new_last_layer_has_the_classes_of_the_data(folder):
    take(".onnx")
    for part in ("train", "test"):
        for kind, shade in (("dark", 20), ("light", 230), ("grey", 120)):
            for i in range(4):
                write_png(folder / "pets" / part / kind / f"{i}.png", 20, [bytes([shade, i, 9] * 20)] * 20)
    images = ["--dataset", "folder", "--data-root", "pets", "--batch-size", 4, "--epochs", 2]
    expect_one_line(lathe("train", *images, "--model", "net.onnx", "--quiet", "--run-dir", "x"), 3, "--model net.onnx: it tells 10 classes apart, and the data has 3; --new-head begins")
    tuned = ["train", *images, "--model", "net.onnx", "--new-head", "--freeze", "backbone", "--head-lr", 0.1, "--run-dir"]
    result = expect(lathe(*tuned, "a"), 0)
    assert "frozen: 7 of 9 parameter tensors" in result.stderr and "2 batch norms" in result.stderr, result.stderr
    header = safetensors_header("a/last.safetensors")
    assert header["fc.weight"]["shape"] == [3, 8] and header["stem.weight"]["shape"] == [8, 3, 3, 3], header
    expect(lathe(*tuned, "b", "--stop-after", 3, "--quiet"), 0)
    pathlib.Path("net.onnx").unlink()
    expect(lathe("train", "--resume", "b", "--quiet"), 0)
    assert (folder / "a/last.safetensors").read_bytes() == (folder / "b/last.safetensors").read_bytes()
    assert "dark" in expect(lathe("predict", "--run-dir", "a", "pets/test/dark/0.png"), 0).stdout


def test_other_commands_take_a_graph(folder):
    take(".onnx", ".lathe")
    for file in ("net.onnx", "net.lathe"):
        few = ["--model", file, "--batch-size", 8]
        rows = {name: expect(lathe(*words, "--json"), 0).stdout for name, words in {
            "summary": ["summary", "--model", file],
            "explain": ["explain", *few],
            "graph": ["graph", *few, "--output", "g.dot"],
            "bench step": ["bench", "step", *few, "--seconds", 0.1],
            "bench infer": ["bench", "infer", *few, "--seconds", 0.1],
            "find-batch": ["find-batch", "--model", file, "--max-batch", 8],
            "find-lr": ["find-lr", *DATA, "--model", file, "--sweep-steps", 12],
            "eval": ["eval", *DATA, "--model", file],
        }.items()}
        assert json.loads(rows["summary"].splitlines()[-1])["parameters"] == 8 * 27 + 16 + 8 * 72 + 16 + 90 + (8 if file == "net.onnx" else 0), rows["summary"]
        losses = {json.loads(text.splitlines()[0])["loss"] for text in (rows["eval"], expect(lathe("eval", *DATA, "--weights", file, "--json"), 0).stdout)}
        assert len(losses) == 1, losses
        result = lathe("doctor", *DATA, "--model", file, "--steps", 3, "--device", "cpu")
        assert result.returncode in (0, 7), result
        write_png(folder / "a.png", 20, [bytes([9, 200, 30] * 20)] * 20)
        assert "a.png: " in expect(lathe("predict", "--model", file, "a.png"), 0).stdout


def test_what_cannot_be_trained_is_said(folder):
    take(".onnx")
    run = ["train", *DATA, "--quiet", "--run-dir", "x", "--model"]
    expect_one_line(lathe(*run, "nets.onnx"), 3, "--model nets.onnx: there is no such file; did you mean net.onnx?")
    expect_one_line(lathe(*run, "net.onnx", "--lora-rank", 2), 2, "--lora-rank: --model net.onnx is a graph, whose layers take no adapters; a .pt2 file")
    pathlib.Path("empty.onnx").write_bytes(b"")
    expect_one_line(lathe(*run, "empty.onnx"), 3, "empty.onnx")
    expect(lathe(*RUN, "net.onnx", "--run-dir", "a"), 0)
    expect(lathe("ckpt", "convert", "a/best.safetensors", "int8.lathe", "--int8"), 0)
    expect_one_line(lathe(*run, "int8.lathe"), 3, "lathe: int8.lathe: ", "but a graph that is trained or evaluated must be f32; lathe predict takes any")
    assert not pathlib.Path("x").exists()


main(globals())
