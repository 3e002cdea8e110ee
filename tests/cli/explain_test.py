#!/usr/bin/env python3
"""Model views: `explain`, `graph` and `summary`, seen from outside.

    explain_test.py LATHE [--sanitized]
"""
import json
import math
import os
import pathlib
import re
import shutil
import sys
import xml.etree.ElementTree

from driver import Skip, expect, expect_one_line, lathe, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tree_files import paths_below  # noqa: E402

SMALL = ["--model", "resnet8", "--batch-size", 4, "--image-size", 16, "--threads", 1]
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def rows_of(*arguments):
    return [json.loads(line) for line in expect(lathe(*arguments, "--json"), 0).stdout.splitlines()]


def test_explain_names_each_op_of_a_step(folder):
    *ops, done = rows_of("explain", *SMALL)
    assert done["event"] == "done" and done["ops"] == len(ops) and done["parameters"] == 75290, done
    assert [op["number"] for op in ops] == list(range(1, len(ops) + 1))
    first = ops[0]
    assert first["op"] == "conv2d" and first["layer"] == "CifarResNet.conv1" and first["output"] == "f32[4,16,16,16]", first
    assert "x f32[4,3,16,16]  the batch; w f32[16,3,3,3]  conv1.weight" in first["inputs"], first
    assert first["saved_bytes"] == 4 * 4 * 3 * 16 * 16 and first["saved"].endswith("; w (there anyway)"), first
    assert "b[k]" not in first["formula"] and first["gradient"] == "dw = x slid over dy", "what there is no gradient of"
    assert ops[-1]["gradient_norm"] == 1 and ops[-1]["output"] == "f32[]"
    assert all(op["formula"] and op["gradient"] and op["gradient_norm"] > 0 for op in ops), ops
    assert sum(op["saved_bytes"] for op in ops) == done["saved_bytes"]
    # The gradients of the parameters, of which each belongs to one op, make up the whole.
    norms = [float(n) for op in ops for n in re.findall(r"\|gradient\| (\S+?)(?:;|$)", op["inputs"])]
    assert len(norms) == len(set(re.findall(r"\S+\.(?:weight|bias)\b", " ".join(op["inputs"] for op in ops))))
    assert math.isclose(math.hypot(*norms), done["gradient_norm"], rel_tol=0.01), (norms, done)


def test_explain_reads_well(folder):
    text = expect(lathe("explain", *SMALL), 0).stdout
    assert text.startswith("One training step of resnet8 on a batch of random numbers, [4,3,16,16], op by op.\n\n")
    assert max(map(len, text.splitlines())) <= 100
    assert "\n  1  conv2d  conv1\n     y[n,k,p,q] = sum over c,r,s" in text, text[:2000]
    assert re.search(r"\n     x  f32\[4,16,16,16\]  from 1 \(conv2d\)\n     w  f32\[16\]  bn1.weight   \|gradient\| \d", text), text[:2000]
    assert re.search(r"\nThe loss is \d.* are kept between the two passes", text), text[-500:]


def test_explain_takes_a_data_set(folder):
    *ops, done = rows_of("explain", "--dataset", "synthetic", "--synthetic-size", 20, "--batch-size", 10, "--model", "resnet8",
                         "--image-size", 16, "--seed", 3)
    assert done["input"] == "[10,3,16,16]" and len(ops) == done["ops"]
    text = expect(lathe("explain", "--dataset", "synthetic", "--synthetic-size", 20, "--batch-size", 10, "--model", "resnet8",
                        "--image-size", 16, "--amp", "bf16"), 0).stdout
    assert "on the first batch of synthetic, [10,3,16,16]" in text and "  cast, a part of conv2d  conv1\n" in text, text[:3000]


def test_explain_and_graph_of_a_run_have_its_settings_and_weights(folder):
    trained = ["--dataset", "synthetic", "--synthetic-size", 20, "--seed", 3]
    expect(lathe("train", *trained, "--augment", "none", "--model", "resnet20", "--batch-size", 10, "--image-size", 16, "--amp", "bf16", "--max-steps", 1, "--threads", 1, "--quiet",
                 "--run-dir", "a"), 0)
    *ops, done = rows_of("explain", "--run-dir", "a", "--threads", 1)
    assert (done["model"], done["input"]) == ("resnet20", "[10,3,16,16]") and any(op["op"] == "cast" for op in ops), done
    *_, same = rows_of("explain", *trained, "--model", "resnet20", "--batch-size", 10, "--image-size", 16, "--amp", "bf16", "--threads", 1, "--stem", "cifar",
                       "--weights", "a/best.safetensors")
    *_, fresh = rows_of("explain", "--config", "a/config.toml", "--threads", 1)
    assert done["loss"] == same["loss"] != fresh["loss"], (done, same, fresh)
    other = rows_of("explain", "--run-dir", "a", "--threads", 1, "--batch-size", 5)[-1]
    assert other["input"] == "[5,3,16,16]", other
    assert "-> bf16[10,16,16,16]" in expect(lathe("graph", "--run-dir", "a", "--threads", 1), 0).stdout
    for command in ("explain", "graph"):
        expect_one_line(lathe(command, "a"), 2, 'unexpected argument "a"; did you mean --run-dir a?')
        expect_one_line(lathe(command, "--run-dir", "nowhere"), 3, "--run-dir: there is no nowhere")
    for command in ("summary", "find-lr"):  # they have no --run-dir
        expect_one_line(lathe(command, "a"), 2, 'unexpected argument "a"; did you mean --config a/config.toml?')
    (folder / "begun").mkdir()  # a run that has saved nothing yet
    config = (folder / "a/config.toml").read_text()
    (folder / "begun/config.toml").write_text(config)
    assert "-> bf16[10,16,16,16]" in expect(lathe("graph", "--run-dir", "begun", "--threads", 1), 0).stdout
    expect_one_line(lathe("explain", "--run-dir", "begun"), 3, "begun holds neither best.safetensors nor last.safetensors")
    (folder / "begun/config.toml").write_text(re.sub(r"^model = .*\n", "", config, flags=re.MULTILINE))  # so a checkpoint has to
    expect_one_line(lathe("graph", "--run-dir", "begun"), 3, "begun holds neither best.safetensors nor last.safetensors")
    (folder / "a/config.toml").unlink()  # as a program's run, of a model of the library
    *_, bare = rows_of("explain", "--run-dir", "a", "--threads", 1)
    assert (bare["model"], bare["input"]) == ("resnet20", "[128,3,32,32]"), bare


def test_ranges_say_what_f16_cannot_hold(folder):
    *rows, done = rows_of("explain", *SMALL, "--ranges")
    first, last = rows[0], rows[-1]
    assert first["layer"] == "CifarResNet.conv1" and first["op"] == "conv2d" and first["output_values"] == 4 * 16 * 16 * 16, first
    assert last["gradient_min"] == last["gradient_max"] == 1, "the loss itself"
    for row in rows:
        assert row["output_min"] <= row["output_max"] and row["output_mean_abs"] <= max(-row["output_min"], row["output_max"]), row
    relus = [row for row in rows if row["op"].endswith("relu")]
    assert relus and all(row["output_min"] == 0 < row["output_zeros"] for row in relus)
    assert done["largest_loss_scale"] == 2 ** 15 and done["event"] == "done", "with a gradient of 1, 2 ** 16 would be infinite"
    text = expect(lathe("explain", *SMALL, "--ranges"), 0).stdout
    assert re.search(r"\nCifarResNet.conv1 +conv2d +y +-\d", text) and "Gradients 2^15 times as large would be finite in f16." in text, text
    assert max(map(len, text.splitlines())) <= 130, text
    # A step with a far too high learning rate makes weights whose scores f16 cannot hold.
    expect(lathe("train", "--dataset", "synthetic", "--synthetic-size", 20, *SMALL, "--max-steps", 1, "--lr", 1e6, "--freeze", "backbone", "--quiet", "--run-dir", "a"), 0)
    large, *_ = [row for row in rows_of("explain", *SMALL, "--ranges", "--weights", "a/last.safetensors") if row.get("op") == "linear"]
    assert large["output_f16_infinite"] > 0, large
    expect_one_line(lathe("explain", *SMALL, "--weights", "missing"), 3, "missing")


def test_every_recorded_op_has_a_formula(folder):
    table = set(re.findall(r'^  \{"(\w+)", "', (SOURCE / "train/report/op_formulas.cpp").read_text(), re.MULTILINE))
    makers = "record|from_input|from_output|step_function|rounding|make_view|make_part|view_as|extremum|rest_of|extreme|open_clamp|row_norm"
    recorded = set()
    for path in paths_below(SOURCE, ["ops"], {".cpp"}):
        recorded |= set(re.findall(rf'\b(?:{makers})\(\s*"(\w+)"', path.read_text()))
    # Gradients are recorded only if they shall have gradients themselves, and vmap's has its own functions' formulas.
    missing = {name for name in recorded - table if not re.search(r"_grad$|_(gather|scatter)$|^jacobian$", name)}
    assert len(recorded) > 90 and not missing, sorted(missing)


def test_graph_is_drawn_by_dot(folder):
    """A program called dot stands in for graphviz's: it draws what it reads."""
    begin = ('<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"\n'
             ' "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">\n<!-- Generated by graphviz')
    programs = folder / "programs"
    programs.mkdir()
    program, path = programs / "dot", {"PATH": f"{programs}:{os.environ['PATH']}"}
    program.write_text(f"#!/bin/sh\n[ \"$*\" = -Tsvg ] || exit 9\necho noise >&2\nprintf '%s' '{begin}'\ncat\n")
    program.chmod(0o755)
    drawn = expect(lathe("graph", *SMALL, "--output", "g.svg", env=path), 0)
    assert pathlib.Path("g.svg").read_text() == begin + pathlib.Path("g.dot").read_text() and drawn.stderr == "", drawn
    expect(lathe("graph", *SMALL, "--output", "g.svg", env=path), 0)  # its own files are replaced
    pathlib.Path("other.svg").write_text("<svg>mine</svg>")
    expect_one_line(lathe("graph", *SMALL, "--output", "other.svg"), 2, "--output other.svg: this file does not begin with")
    expect_one_line(lathe("graph", *SMALL, "--output", "g.png"), 2, "must end in .dot or .svg")
    expect_one_line(lathe("graph", *SMALL, "--output", "no/g.svg"), 1, "no/g.svg")
    expect_one_line(lathe("graph", *SMALL, "--output", "h.svg", env={"PATH": str(folder)}), 1,
                    "dot cannot be started: No such file or directory; install graphviz, or draw the graph in h.dot elsewhere")
    assert pathlib.Path("h.dot").read_text() == pathlib.Path("g.dot").read_text() and not pathlib.Path("h.svg").exists()
    program.write_text("#!/bin/sh\nexit 1\n")
    expect_one_line(lathe("graph", *SMALL, "--output", "h.svg", env=path), 1, "dot failed; the graph is in h.dot")


def test_graph_as_a_picture(folder):
    if shutil.which("dot") is None:
        raise Skip("graphviz's dot is not installed")
    done = rows_of("graph", *SMALL, "--output", "g.svg")[0]
    svg = xml.etree.ElementTree.fromstring(pathlib.Path("g.svg").read_text())
    groups = [group.get("class") for group in svg.iter("{http://www.w3.org/2000/svg}g")]
    assert groups.count("node") == done["ops"] + 1 and groups.count("edge") == done["lines"]
    text = "\n".join(svg.itertext()).replace("\xa0", " ")
    assert "layer1.0.conv1" in text and "weight f32[16,16,3,3]" in text and "keeps x 64.0 KiB, w" in text, text[:1500]


def test_graph_as_dot(folder):
    dot = expect(lathe("graph", *SMALL), 0).stdout
    expect(lathe("graph", *SMALL, "--output", "g.dot"), 0)
    assert pathlib.Path("g.dot").read_text() == dot
    nodes = re.findall(r'^  n(\d+) \[label="((?:[^"\\]|\\.)*)", fillcolor="#0072b2[\da-f]{2}"\];$', dot, re.MULTILINE)
    lines = re.findall(r"^  n(\d+) -> n(\d+);$", dot, re.MULTILINE)
    assert dot.startswith("digraph lathe_graph {\n") and dot.endswith("}\n")
    assert len(nodes) + len(lines) + 4 == len(dot.splitlines()), "nothing else"
    assert all(int(a) < int(b) < len(nodes) for a, b in lines)
    assert nodes[1][1].startswith("conv2d\\lconv1\\lweight f32[16,3,3,3]\\l-> f32[4,16,16,16]\\lkeeps x 12.0 KiB, w\\l"), nodes[1]
    # Every box but the last leads on, and every box but the batch is led to.
    assert {int(a) for a, _ in lines} == set(range(len(nodes) - 1)) and {int(b) for _, b in lines} == set(range(1, len(nodes)))


def test_summary_of_any_input(folder):
    row = rows_of("summary", "--model", "resnet50", "--classes", 1000, "--stem", "imagenet", "--input-size", "2,3,224,224")[0]
    # What torchinfo publishes for it (tests/test_output/resnet50.out of its repository), in 10^6 bytes.
    published = {"input_bytes": 1.20, "pass_bytes": 355.66, "parameter_bytes": 102.23, "total_bytes": 459.10}
    assert {key: round(row[key] / 1e6, 2) for key in published} == published and row["trainable"] == 25557032, row
    wide = expect(lathe("summary", "--model", "resnet8", "--input-size", " 2,1, 20,36"), 0).stdout
    header, model, first = wide.splitlines()[:3]
    assert header.split() == ["module", "kernel", "input", "output", "parameters", "share", "multiply-adds", "trainable"]
    assert first.split()[:5] == ["Conv2d", "(conv1)", "[3,3]", "[2,1,20,36]", "[2,16,20,36]"], first
    for size in ("2,3,224", "2,3,4,5,6", "0,3,8,8", "a,3,8,8", "1,3,8,9999999"):
        expect_one_line(lathe("summary", "--model", "resnet8", "--input-size", size), 2, "--input-size")


main(globals())
