#!/usr/bin/env python3
"""Files that hold a whole model as a graph, .lathe and .onnx: their probabilities, sizes and weights.

    graph_file_test.py LATHE [--sanitized]
"""
import json
import math
import pathlib
import struct

from driver import Skip, expect, expect_one_line, lathe, main
from runs import safetensors_header, write_png


def write_graph(path, program, tensors):
    """A .lathe file of these lines; `tensors`: name → (shape, numbers)."""
    header, values = {"__metadata__": {"lathe.graph": "lathe graph 1\n" + program}}, b""
    for name, (shape, numbers) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(values), len(values) + 4 * len(numbers)]}
        values += struct.pack(f"<{len(numbers)}f", *numbers)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + values)


COLOUR = (120, 118, 104)
# The scores are 0.5, 1 and -2 times the sum of an image's normalised numbers.
SCORES = "input %x: f32[N,3,4,4]\nparam @w: f32[3,48]\n%0: f32[N,48] = flatten(%x, first=1, last=3)\n%1: f32[N,3] = linear(%0, @w, none)\n"
FACTORS = {"w": ([3, 48], [f for f in (0.5, 1, -2) for _ in range(48)])}


def test_a_graph_that_gives_probabilities_gets_no_softmax(folder):
    write_png(pathlib.Path("plain.png"), 8, [bytes(COLOUR) * 8] * 8)
    write_png(pathlib.Path("x.png"), 8, [bytes(c + x for x in range(8) for c in COLOUR)] * 8)
    total = 16 * sum((c / 255 - mean) / std for c, mean, std in zip(COLOUR, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    exps = [math.exp(f * total) for f in (0.5, 1, -2)]
    soft, sigmoid = [e / sum(exps) for e in exps], [1 / (1 + 1 / e) for e in exps]
    softmax = "%2: f32[N,3] = softmax(%1, dim=1)\n"
    log = "%2: f32[N,3] = log_softmax(%1, dim=-1)\n"
    shaped = "%3: f32[N,3,1,1] = reshape(%1, shape=[N,3,1,1])\n%4: f32[N,3,1,1] = softmax(%3, dim=1)\n%5: f64[N,3,1,1] = cast(%4, dtype=\"f64\")\n%2: f64[N,3] = flatten(%5, first=1, last=3)\n"
    over_images = "%4: f32[N,3] = softmax(%1, dim=0)\n%2: f32[N,3] = mul(%4, %1)\n"
    for program, expected in (("output %1\n", soft), (softmax + "output %2\n", soft), (log + "output %2\n", soft), (log + "%3: f32[N,3] = exp(%2)\noutput %3\n", soft),
                              (shaped + "output %2\n", soft), ("%2: f32[N,3] = sigmoid(%1)\noutput %2\n", sigmoid), (over_images + "output %2\n", soft)):
        write_graph("g.lathe", SCORES + program, FACTORS)
        result = lathe("predict", "--weights", "g.lathe", "plain.png", "--format", "json")
        if "this build has no libpng" in result.stderr:
            raise Skip("no libpng")
        found = {c["class"]: c["probability"] for c in json.loads(expect(result, 0).stdout)["predictions"]}
        assert all(abs(found[k] - expected[k]) < 1e-5 for k in range(3)), (program, found, expected)
    # One score for each image, as two classes often have, is no 100 %.
    write_graph("one.lathe", SCORES.replace("3,48", "1,48").replace("f32[N,3] = linear", "f32[N,1] = linear") + "%2: f32[N,1] = sigmoid(%1)\noutput %2\n", {"w": ([1, 48], [0.5] * 48)})
    assert abs(json.loads(expect(lathe("predict", "--weights", "one.lathe", "plain.png", "--format", "json"), 0).stdout)["predictions"][0]["probability"] - sigmoid[0]) < 1e-5
    # The same in ONNX, of which the op comes back.
    write_graph("g.lathe", SCORES + softmax + "output %2\n", FACTORS)
    expect(lathe("ckpt", "convert", "g.lathe", "g.onnx"), 0)
    printed = expect(lathe("predict", "--weights", "g.onnx", "plain.png", "x.png", "plain.png", "--format", "json"), 0).stdout
    assert printed == expect(lathe("predict", "--weights", "g.lathe", "plain.png", "x.png", "plain.png", "--format", "json"), 0).stdout
    # Graphs of one size of batch: as many images at a time, whatever --batch-size says.
    for size in (1, 2, 5):
        write_graph("fixed.lathe", (SCORES + softmax + "output %2\n").replace("[N,", f"[{size},"), FACTORS)
        for more in ([], ["--batch-size", 2]):
            assert expect(lathe("predict", "--weights", "fixed.lathe", "plain.png", "x.png", "plain.png", "--format", "json", *more), 0).stdout == printed


def test_sizes_that_only_a_graph_says_are_bounded(folder):
    write_png(pathlib.Path("x.png"), 8, [bytes(COLOUR) * 8] * 8)
    for sizes, why in (("N,3,9000,9000", "its images have 9000 pixels a side, which is more than 8750"), ("100000000,3,4,4", "this graph computes batches of 100000000 images of 4 x 4: together more than 100000000 pixels"),
                       ("0,3,4,4", "this file does not say how images are prepared")):
        batch = sizes.split(",")[0]
        write_graph("g.lathe", f"input %x: f32[{sizes}]\n%0: f32[{batch},3] = mean(%x, dims=[2,3], keepdim=false)\noutput %0\n", {})
        expect_one_line(lathe("predict", "--weights", "g.lathe", "x.png"), 3, f"g.lathe: {why}")
    write_graph("g.lathe", "input %x: f32[N,1099511627776]\n%0: f32[N,1099511627776] = relu(%x)\noutput %0\n", {})
    expect_one_line(lathe("bench", "infer", "--weights", "g.lathe", "--seconds", 0.05), 3, "g.lathe: the input of the graph is f32[N,1099511627776]: more than 3e+08 numbers for each image")


def test_weights_of_a_graph_that_has_integers_of_its_own(folder):
    text = "lathe graph 1\ninput %x: f32[N,3]\nbuffer @mask: u8[3]\n%0: f32[N,3] = mul(%x, @mask)\noutput %0\n"
    header = json.dumps({"__metadata__": {"lathe.graph": text}, "mask": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}).encode()
    pathlib.Path("masked.lathe").write_bytes(struct.pack("<Q", len(header)) + header + b"\1\0\1")
    expect(lathe("ckpt", "convert", "masked.lathe", "mask.safetensors"), 0)
    assert safetensors_header("mask.safetensors")["mask"]["dtype"] == "U8"
    # A matrix of i8 that masks weights, while another op rounds the input to 8 bits.
    text = ("lathe graph 1\ninput %x: f32[N,2]\nparam @w: f32[3,2]\nbuffer @mask: i8[3,2]\n%0: f32[3,2] = cast(@mask, dtype=\"f32\")\n%1: f32[3,2] = mul(@w, %0)\n"
            "%2: i8[N,2] = quantize(%x, scale=0.5, dtype=\"i8\")\n%3: f32[N,2] = dequantize(%2, scale=0.5)\n%4: f32[N,3] = linear(%3, %1, none)\noutput %4\n")
    header = json.dumps({"__metadata__": {"lathe.graph": text}, "w": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]},
                         "mask": {"dtype": "I8", "shape": [3, 2], "data_offsets": [24, 30]}}).encode()
    pathlib.Path("pruned.lathe").write_bytes(struct.pack("<Q", len(header)) + header + bytes(24) + b"\1\0\1\1\0\1")
    expect(lathe("ckpt", "convert", "pruned.lathe", "pruned.safetensors"), 0)
    assert safetensors_header("pruned.safetensors")["mask"]["dtype"] == "I8"
    # One weight for each class, so that there are as many scales: numbers other than 0 and 1 are no mask.
    text = ("lathe graph 1\ninput %x: f32[N,1]\nparam @scale: f32[3,1]\nbuffer @w: i8[3,1]\n%0: f32[3,1] = cast(@w, dtype=\"f32\")\n%1: f32[3,1] = mul(%0, @scale)\n"
            "%2: f32[N,3] = linear(%x, %1, none)\noutput %2\n")
    header = json.dumps({"__metadata__": {"lathe.graph": text}, "scale": {"dtype": "F32", "shape": [3, 1], "data_offsets": [0, 12]},
                         "w": {"dtype": "I8", "shape": [3, 1], "data_offsets": [12, 15]}}).encode()
    pathlib.Path("narrow.lathe").write_bytes(struct.pack("<Q", len(header)) + header + bytes(12) + b"\x7f\1\xff")
    expect_one_line(lathe("ckpt", "convert", "narrow.lathe", "narrow.safetensors"), 3, "narrow.lathe: it has a linear with weights of 8 bits")


def test_models_are_timed_in_the_precision_that_amp_names(folder):
    infer = ["bench", "infer", "--model", "resnet8", "--image-size", 8, "--batch-size", 1, "--seconds", 0.02, "--threads", 1]
    for amp in ("off", "bf16"):
        rows = [json.loads(line) for line in expect(lathe(*infer, "--device", "cpu", "--int8", "--amp", amp, "--json"), 0).stdout.splitlines()]
        assert [(row["form"], row["amp"]) for row in rows] == [("eager", amp), ("graph", amp), ("int8", "off")], rows
    assert ", inputs [3,8,8], bf16, 1 thread" in expect(lathe(*infer, "--device", "cpu", "--amp", "bf16"), 0).stdout
    write_graph("scores.lathe", SCORES + "output %1\n", FACTORS)
    expect_one_line(lathe("bench", "infer", "--weights", "scores.lathe", "--amp", "bf16"), 2, "--amp: leave it out, because the graph in --weights determines it")


main(globals())
