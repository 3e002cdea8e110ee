#!/usr/bin/env python3
"""Prediction of image files with nothing but a checkpoint, and the worst mistakes of an evaluation.

    predict_test.py LATHE [--sanitized]
"""
import csv
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess

from driver import LATHE, SANITIZED, Skip, check_shown, environment, expect, expect_one_line, lathe, main
from runs import safetensors_header, write_png, write_safetensors
from short_run import train

CLASSES = ["blue", "red,\"dark\"", "yell\now"]
COLOURS = [(20, 30, 180), (180, 30, 20), (200, 190, 40)]


def image(path, colour, size=20):
    write_png(pathlib.Path(path), size, [b"".join(bytes(min(c + x + y, 255) for c in colour) for x in range(size)) for y in range(size)])


def trained(folder, *flags):
    """A run of images in folders, whose data set is gone afterwards."""
    for part, count in (("train", 8), ("test", 4)):
        for name, colour in zip(CLASSES, COLOURS):
            for k in range(count):
                image(folder / "images" / part / name / f"{k}.png", colour, 18 + k)
    arguments = ["--dataset", "folder", "--data-root", "images", "--model", "resnet8", "--image-size", 16, "--batch-size", 8, "--epochs", 3, "--lr", 0.05]
    result = lathe("train", *arguments, "--run-dir", "a", "--quiet", *flags)
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    expect(result, 0)


def predictions(result):
    return {row["file"]: row["predictions"] for row in map(json.loads, result.stdout.splitlines())}


def check_weights_alone(seen):
    """Weights without the rest of the checkpoint still say what they are for; ONNX files too. `seen`: what the checkpoint predicts."""
    expect(lathe("ckpt", "convert", "alone.safetensors", "w.safetensors"), 0)
    again = expect(lathe("predict", "--weights", "w.safetensors", "pictures", "--json"), 0)
    for file, classes in predictions(again).items():
        assert all(abs(a["probability"] - b["probability"]) < 1e-5 for a, b in zip(classes, seen[file], strict=True)), (classes, seen[file])
    expect(lathe("ckpt", "convert", "alone.safetensors", "w.onnx"), 0)
    onnx = pathlib.Path("w.onnx").read_bytes()
    assert b"lathe.class_names" in onnx and b"lathe.image_mean" in onnx and b"0.485,0.456,0.406" in onnx
    again = expect(lathe("predict", "--weights", "w.onnx", "pictures", "--json", "--batch-size", 5), 0)
    for file, classes in predictions(again).items():
        assert all(abs(a["probability"] - b["probability"]) < 1e-5 for a, b in zip(classes, seen[file], strict=True)), (classes, seen[file])
    # A file that says nothing of its images: 3 planes to classes with numbers, as torchvision's.
    pathlib.Path("plain.onnx").write_bytes(onnx.replace(b"lathe.class_names", b"other.class_names").replace(b"lathe.image_", b"other.image_"))
    plain = expect(lathe("predict", "--weights", "plain.onnx", "pictures", "--json", "--batch-size", 5), 0)
    for file, classes in predictions(plain).items():  # this run's images are prepared in the same way
        assert all(a["name"] == str(a["class"]) and abs(a["probability"] - b["probability"]) < 1e-5 for a, b in zip(classes, seen[file], strict=True))
    expect(lathe("ckpt", "convert", "plain.onnx", "plain.lathe"), 0)
    assert expect(lathe("predict", "--weights", "plain.lathe", "pictures", "--json", "--batch-size", 5), 0).stdout == plain.stdout
    expect(lathe("ckpt", "convert", "plain.lathe", "back.onnx"), 0)
    expect(lathe("ckpt", "convert", "back.onnx", "back.safetensors"), 0)
    differences = expect(lathe("ckpt", "diff", "w.safetensors", "back.safetensors"), 7).stdout.splitlines()
    assert differences and all("num_batches_tracked" in line for line in differences), differences
    # Weights that come from ONNX are as good as those that went there.
    expect(lathe("ckpt", "convert", "w.onnx", "back.safetensors"), 0)
    assert predictions(expect(lathe("predict", "--weights", "back.safetensors", "pictures", "--json", "--batch-size", 5), 0)) == seen


def check_graph_file(printed):
    """A graph needs no --model, and gives the model's bits. `printed`: what predict prints with the checkpoint, as JSON."""
    expect(lathe("ckpt", "convert", "alone.safetensors", "g.lathe"), 0)
    metadata = safetensors_header("g.lathe")["__metadata__"]
    assert metadata["lathe.graph"].startswith("lathe graph 1\ninput %x: f32[N,3,16,16]\n") and metadata["lathe.model"] == "resnet8"
    graph = expect(lathe("predict", "--weights", "g.lathe", "pictures", "--format", "json", "--batch-size", 5), 0)
    assert graph.stdout == printed
    expect_one_line(lathe("predict", "--weights", "g.lathe", "--amp", "bf16", "pictures"), 2, "--amp bf16: leave it out, because the graph g.lathe determines")
    for flag, value in (("--model", "resnet8"), ("--image-size", 24)):
        expect_one_line(lathe("predict", "--weights", "g.lathe", flag, value, "pictures"), 2, f"{flag}: leave it out, because the graph g.lathe determines it")
    assert expect(lathe("predict", "--weights", "g.lathe", "--model", "auto", "pictures", "--format", "json", "--batch-size", 5), 0).stdout == printed
    rows = expect(lathe("bench", "infer", "--weights", "g.lathe", "--model", "auto", "--batch-size", 3, "--seconds", 0.05, "--json"), 0).stdout.splitlines()
    assert [(row["model"], row["form"], row["batch_size"]) for row in map(json.loads, rows)] == [("g.lathe", "graph", 1), ("g.lathe", "graph", 3)]
    header, data = safetensors_header("g.lathe"), pathlib.Path("g.lathe").read_bytes()
    header["__metadata__"]["lathe.class_names"] = json.dumps([*CLASSES, "a fourth"])
    text = json.dumps(header).encode()
    pathlib.Path("more.lathe").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + struct.unpack("<Q", data[:8])[0]:])
    expect_one_line(lathe("predict", "--weights", "more.lathe", "pictures"), 3, "more.lathe: the graph's result must be [", ",4], images and classes (got: f32[")
    # A program that does not do what its types say.
    header = safetensors_header("g.lathe")
    header["__metadata__"]["lathe.graph"] = header["__metadata__"]["lathe.graph"].replace("f32[N,3,16,16]\n", "f32[N,3,15,15]\n", 1)
    text = json.dumps(header).encode()
    pathlib.Path("wrong.lathe").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + struct.unpack("<Q", data[:8])[0]:])
    expect_one_line(lathe("predict", "--weights", "wrong.lathe", "pictures"), 3, "wrong.lathe: graph: input %x must be f32[N,3,15,15]")


def test_a_file_is_predicted_as_in_the_data_set(folder):
    trained(folder)
    rows = [json.loads(line) for line in expect(lathe("predict", "--run-dir", "a", "--index", "0:12", "--json"), 0).stdout.splitlines()]
    shutil.move("images/test", "pictures")
    shutil.rmtree("images")
    os.rename("a/best.safetensors", "alone.safetensors")
    result = expect(lathe("predict", "--weights", "alone.safetensors", "pictures", "--format", "json", "--batch-size", 5), 0)
    seen = predictions(result)
    assert list(seen) == [f"pictures/{name}/{k}.png" for name in CLASSES for k in range(4)], list(seen)
    for row, classes in zip(rows, seen.values()):
        assert [c["name"] for c in classes] != [] and len(classes) == 3 and classes[0]["name"] == row["predicted_name"]
        assert abs(classes[0]["probability"] - row["probability"]) < 1e-5, (row, classes)
        assert abs(sum(c["probability"] for c in classes) - 1) < 1e-5
        assert [c["probability"] for c in classes] == sorted((c["probability"] for c in classes), reverse=True)
        assert all(CLASSES[c["class"]] == c["name"] for c in classes)
    metadata = safetensors_header("alone.safetensors")["__metadata__"]
    assert json.loads(metadata["lathe.class_names"]) == CLASSES
    expected = {"lathe.image_size": "16", "lathe.image_resize": "18", "lathe.image_channels": "3", "lathe.image_mean": "0.485,0.456,0.406", "lathe.image_std": "0.229,0.224,0.225"}
    assert {key: metadata[key] for key in expected} == expected

    table = list(csv.reader(io.StringIO(expect(lathe("predict", "--weights", "alone.safetensors", "pictures", "--format", "csv", "--top", 2), 0).stdout)))
    assert table[0] == ["file", "rank", "class", "name", "probability"] and len(table) == 1 + 12 * 2
    assert table[2][:2] == ["pictures/blue/0.png", "2"] and {row[3] for row in table[1:]} <= set(CLASSES)
    text = check_shown(expect(lathe("predict", "--weights", "alone.safetensors", "pictures/blue/0.png", "--top", 1), 0)).stdout
    assert text.startswith("pictures/blue/0.png: ") and text.count("\n") == 1 and text.endswith(" %\n") and "," not in text, text
    check_weights_alone(seen)
    check_graph_file(result.stdout)


def test_a_model_of_integers(folder):
    trained(folder)
    seen = predictions(expect(lathe("predict", "--run-dir", "a", "images/test", "--json"), 0))

    def check(file):
        for name, classes in predictions(expect(lathe("predict", "--weights", file, "images/test", "--json"), 0)).items():
            probability = {c["name"]: c["probability"] for c in seen[name]}
            assert all(abs(c["probability"] - probability[c["name"]]) < 0.1 for c in classes), (file, name, classes, seen[name])

    # The training images of the run show how large numbers get, or a folder does.
    table = expect(lathe("ckpt", "convert", "a/best.safetensors", "q.lathe", "--int8"), 0).stdout.splitlines()
    assert table[0].startswith("layer ") and sum(" i8 " in line or " u8 " in line for line in table) == 8, table
    check("q.lathe")
    text = safetensors_header("q.lathe")["__metadata__"]["lathe.graph"]
    assert text.count("= quantized_conv2d(") == 7 and text.count("= quantized_linear(") == 1 and text.count("= quantize(") == 2, text
    assert {entry["dtype"] for key, entry in safetensors_header("q.lathe").items() if key.endswith(".int8")} == {"I8"}
    more = ["--calibration", "images/test", "--calibration-images", 5, "--keep-f32", "first,last"]
    rows = [json.loads(line) for line in expect(lathe("ckpt", "convert", "a/best.safetensors", "q.onnx", "--int8", *more, "--json"), 0).stdout.splitlines()]
    layers = [row for row in rows if row["event"] == "layer"]
    assert [row["quantized"] for row in layers] == [False] + [True] * 6 + [False] and min(row["alone_db"] for row in layers[1:-1]) > 15, layers
    check("q.onnx")
    rows = expect(lathe("bench", "infer", "--weights", "q.lathe", "--batch-size", 3, "--seconds", 0.05, "--json"), 0).stdout.splitlines()
    assert [(row["form"], row["batch_size"]) for row in map(json.loads, rows)] == [("graph", 1), ("graph", 3)]
    clients = [] if SANITIZED else ["--clients", 2]
    rows = expect(lathe("bench", "infer", "--model", "resnet8", "--int8", "--batch-size", 1, "--seconds", 0.05, *clients, "--json"), 0).stdout.splitlines()
    forms = [(row["form"], row["clients"]) for row in map(json.loads, rows)]
    assert forms == [("eager", 1), ("graph", 1), ("int8", 1), *([] if SANITIZED else [("graph", 2), ("int8", 2)])], forms
    if SANITIZED:  # mistakes in the call are the same there, and take seconds
        return
    expect_one_line(lathe("ckpt", "convert", "a/best.safetensors", "w.safetensors", "--int8"), 2, "--int8 makes a graph")
    expect_one_line(lathe("ckpt", "convert", "a/best.safetensors", "w.lathe", "--calibration", "images"), 2, "--calibration has no effect without --int8")
    expect_one_line(lathe("ckpt", "convert", "a/best.safetensors", "w.lathe", "--int8", "--keep-f32", "conv9"), 3, "has the name conv9; the layers are ")
    expect_one_line(lathe("ckpt", "convert", "a/best.safetensors", "w.lathe", "--int8", "--calibration", "nowhere"), 3, "--calibration nowhere: this is not a folder")
    expect_one_line(lathe("ckpt", "convert", "q.lathe", "w.lathe", "--int8"), 2, "q.lathe is not a checkpoint of a run")
    expect_one_line(lathe("ckpt", "convert", "q.lathe", "w.lathe", "--int8", "--calibration", "images"), 3, "--int8 found no convolution or linear layer in f32")
    pathlib.Path("empty").mkdir()
    expect_one_line(lathe("ckpt", "convert", "a/best.safetensors", "w.lathe", "--int8", "--calibration", "empty"), 3, "no image for the calibration can be read")
    expect_one_line(lathe("ckpt", "convert", "a/best.safetensors", "w.lathe", "--int8", "--calibration", "images", "--data-root", "images"), 2, "--data-root and --calibration both name the images")
    for file in ("q.lathe", "q.onnx"):
        expect_one_line(lathe("ckpt", "convert", file, "w.safetensors"), 3, f"{file}: ", "no model loads the weights of a graph of 8-bit integers")
    assert not pathlib.Path("w.safetensors").exists()
    assert not pathlib.Path("w.lathe").exists()
    pathlib.Path("some").mkdir()
    pathlib.Path("some/broken.png").write_bytes(b"no image")
    pathlib.Path("some/one.png").write_bytes(next(pathlib.Path("images/test").rglob("*.png")).read_bytes())
    seen = expect(lathe("ckpt", "convert", "a/best.safetensors", "w.lathe", "--int8", "--calibration", "some"), 0).stderr
    assert seen.startswith("lathe: --calibration: 1 of 2 images cannot be read, such as some/broken.png: "), seen
    # A graph for batches of four looks at whole batches alone.
    expect(lathe("ckpt", "convert", "a/best.safetensors", "g.lathe"), 0)
    header, data = safetensors_header("g.lathe"), pathlib.Path("g.lathe").read_bytes()
    header["__metadata__"]["lathe.graph"] = header["__metadata__"]["lathe.graph"].replace("[N,", "[4,")
    text = json.dumps(header).encode()
    pathlib.Path("four.lathe").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + struct.unpack("<Q", data[:8])[0]:])
    few = ["ckpt", "convert", "four.lathe", "q4.lathe", "--int8", "--calibration"]
    expect(lathe(*few, "images/test", "--calibration-images", 5), 0)
    assert "= quantized_conv2d(" in safetensors_header("q4.lathe")["__metadata__"]["lathe.graph"]
    expect_one_line(lathe(*few, "images/test", "--calibration-images", 3), 3, "the graph in four.lathe computes batches of 4 images, and the calibration has no batch of that many readable images")


def test_a_list_on_stdin_and_files_that_are_none(folder):
    trained(folder)
    image("one.png", COLOURS[0])
    (folder / "text.png").write_bytes(b"no image")
    cut = (folder / "one.png").read_bytes()[:50]
    (folder / "cut.png").write_bytes(cut)
    (folder / "empty").mkdir()
    write_png(folder / "thin.png", 1, [bytes(3)] * 5000)  # no transform makes it so much wider
    (folder / "loop.png").symlink_to("loop.png")
    names = b"one.png\n\ntext.png\nmissing.png\ncut.png\nempty\nthin.png\nloop.png\none.png\n"
    result = subprocess.run([LATHE, "predict", "--run-dir", "a", "-", "--format", "json", "--batch-size", "2"], input=names, env=environment(), capture_output=True)
    errors = result.stderr.decode()
    assert result.returncode == 3, errors
    assert [json.loads(line)["file"] for line in result.stdout.decode().splitlines()] == ["one.png", "one.png"]
    lines = errors.splitlines()
    assert len(lines) == 7 and lines[-1] == "lathe: predict: 6 of the inputs could not be read", errors
    for name in ("text.png", "missing.png", "cut.png", "thin.png", "empty: holds no images", "loop.png: cannot look at: Too many levels of symbolic links"):
        assert sum(line.startswith(f"lathe: skipped {name}") for line in lines) == 1, (name, errors)
    expect_one_line(lathe("predict", "--weights", "a.onnx", "one.png"), 3, "a.onnx: cannot open: No such file")
    expect_one_line(lathe("predict", "--weights", "a.onnx", "--model", "resnet8", "--dataset", "synthetic"), 3, "a.onnx: cannot open: No such file")
    expect_one_line(lathe("eval", "a"), 2, 'unexpected argument "a"; did you mean --run-dir a?')
    expect(lathe("predict", "--run-dir", "a", "empty"), 3, "skipped empty: holds no images", "1 of the inputs")
    # A name that is no UTF-8, and one that would command the terminal.
    odd = os.fsencode(folder) + b"/\xff\x1b[31m.png"
    shutil.copy(b"one.png", odd)
    for form in ("text", "csv", "json"):
        result = subprocess.run([LATHE, "predict", "--run-dir", "a", odd, "--format", form], env=environment(), capture_output=True)
        assert result.returncode == 0, result
        assert b"\x1b" not in result.stdout, result.stdout
        if form == "json":
            json.loads(result.stdout.decode())
    with open("/dev/full", "w") as full:
        expect_one_line(lathe("predict", "--run-dir", "a", "one.png", stdout=full), 1, "stdout")


def test_a_list_that_cannot_be_read_to_its_end_is_an_error(folder):
    trained(folder)
    image("one.png", COLOURS[0])

    def predict(**options):
        return subprocess.run([LATHE, "predict", "--run-dir", "a", "-", "--format", "csv"], env=environment(), capture_output=True, timeout=60, **options)
    listed = predict(input=b"\xef\xbb\xbfone.png\r\n\r\none.png")  # of Windows, without an end of the last line
    assert listed.returncode == 0 and listed.stdout.count(b"\none.png,1,") == 2, listed
    directory = os.open(folder, os.O_RDONLY)
    for options, why in (({"stdin": directory}, b"Is a directory in line 1 of the list"),
                         ({"preexec_fn": lambda: os.close(0)}, b"closed in line 1"),
                         ({"input": b"one.png\n" + b"x" * 5000}, b"more than 4096 bytes in line 2"),
                         ({"input": b"one.png\0one.png\0"}, b"a NUL byte in line 1")):
        result = predict(**options)
        assert result.returncode == 3 and result.stderr == b"lathe: stdin: " + why + (b"" if b"list" in why else b" of the list") + b"\n" and not result.stdout, result
    os.close(directory)
    with open("/dev/zero", "rb") as endless:
        assert predict(stdin=endless).returncode == 3


def rewritten(source, to, **changes):
    """A checkpoint's weights with other metadata; None takes an entry away."""
    data = pathlib.Path(source).read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = safetensors_header(source)
    metadata = {key: value for key, value in header["__metadata__"].items() if key not in ("lathe.crc32c", "lathe.parts")}
    header["__metadata__"] = {key: value for key, value in {**metadata, **{"lathe." + k: v for k, v in changes.items()}}.items() if value is not None}
    text = json.dumps(header).encode()
    pathlib.Path(to).write_bytes(struct.pack("<Q", len(text)) + text + data[begin:])


def test_metadata_that_cannot_be_is_refused(folder):
    trained(folder, "--max-steps", 1)
    expect(lathe("ckpt", "convert", "a/best.safetensors", "w.safetensors"), 0)
    wrong = {"image_std": ("0.2,0,0.2", "0.2,-1,0.2", "0.2,nan,0.2", "0.2,0.2"), "image_mean": ("1,inf,1", ""), "image_size": ("0", "x", "10001"),
             "image_resize": ("16x17", "-1", "65536", "10001x10001"), "image_channels": ("2",), "class_names": ("[]", "[1,2,3]", "{")}
    for key, values in wrong.items():
        for value in values:
            rewritten("w.safetensors", "bad.safetensors", **{key: value})
            expect_one_line(lathe("predict", "--weights", "bad.safetensors", "images/test"), 3, f"bad.safetensors: lathe.{key}: expected ")
    # Weights that an earlier version made of a checkpoint say their model, and not what their images are.
    write_safetensors("old.safetensors", {"fc.bias": [0.0]}, {"lathe.model": "resnet8"})
    expect_one_line(lathe("predict", "--weights", "old.safetensors", "images/test"), 3, "old.safetensors", "lathe.class_names")


def test_settings_of_the_machine_that_trained_do_not_count(folder):
    """Its GPU, its threads and its workers may not be here."""
    trained(folder, "--threads", 1, "--max-steps", 1)
    other = {"threads": 97, "workers": 31, "device": '"cuda:7"', "data-cache": '"gpu"'}

    def elsewhere(config):
        lines = [line for line in config.splitlines() if line.split(" = ")[0] not in other]
        return "\n".join([*lines, *(f"{key} = {value}" for key, value in other.items())]) + "\n"
    metadata = safetensors_header("a/best.safetensors")["__metadata__"]
    expect(lathe("ckpt", "convert", "a/best.safetensors", "plain.safetensors"), 0)
    rewritten("plain.safetensors", "w.safetensors", config=elsewhere(metadata["lathe.config"]), model="resnet8")
    expect(lathe("predict", "--weights", "w.safetensors", "images/test"), 0)
    expect(lathe("predict", "--weights", "w.safetensors", "images/test", "--device", "cuda:97"), 4)  # a flag counts
    config = pathlib.Path("a/config.toml")
    config.write_text(elsewhere(config.read_text()))
    expect(lathe("eval", "--run-dir", "a"), 0)
    expect(lathe("predict", "--run-dir", "a", "--index", "0:2"), 0)
    expect(lathe("predict", "--run-dir", "a", "images/test"), 0)


def test_a_vit_predicts_images_of_the_size_that_it_was_made_for(folder):
    for part in ("train", "test"):
        for name, colour in zip(CLASSES, COLOURS):
            image(folder / "images" / part / name / "0.png", colour, 20)
    once = ["--image-size", 48, "--batch-size", 3, "--max-steps", 1, "--momentum", 0, "--keep", 1, "--run-dir", "a", "--quiet"]
    result = lathe("train", "--dataset", "folder", "--data-root", "images", "--model", "vit_s_16", *once)
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    expect(result, 0)
    rows = [json.loads(line) for line in expect(lathe("predict", "--run-dir", "a", "--index", "0:3", "--json"), 0).stdout.splitlines()]
    shutil.move("a/best.safetensors", "alone.safetensors")
    shutil.rmtree("a")
    seen = predictions(expect(lathe("predict", "--weights", "alone.safetensors", "images/test", "--json"), 0))
    for row, classes in zip(rows, seen.values(), strict=True):
        assert classes[0]["name"] == row["predicted_name"] and abs(classes[0]["probability"] - row["probability"]) < 1e-5, (row, classes)


def test_tta_averages_over_mirror_images(folder):
    trained(folder, "--max-steps", 1)
    for name, row in (("left", range(20)), ("right", reversed(range(20)))):
        line = b"".join(bytes((10 * x, 90, 200)) for x in row)
        write_png(pathlib.Path(f"{name}.png"), 20, [line] * 20)
    for views in ("mirror", "shift"):
        left, right = predictions(expect(lathe("predict", "--run-dir", "a", "--tta", views, "left.png", "right.png", "--json"), 0)).values()
        for a in left:
            (b,) = (b for b in right if b["class"] == a["class"])
            assert abs(a["probability"] - b["probability"]) < 1e-5, (a, b)
    losses = [json.loads(expect(lathe("eval", "--run-dir", "a", "--split", "train", "--tta", views, "--json"), 0).stdout.splitlines()[-1])["loss"]
              for views in ("none", "mirror", "shift")]
    assert len(set(losses)) == 3, losses
    for run, views, other in (("b", "mirror", "none"), ("c", "shift", "mirror")):  # a training's evaluations, too
        flags = ["--dataset", "folder", "--data-root", "images", "--model", "resnet8", "--image-size", 16, "--batch-size", 8, "--epochs", 1, "--tta", views]
        assert f"evaluations average the scores over {6 if views == 'shift' else 2} views" in expect(lathe("train", *flags, "--run-dir", run), 0).stderr
        (reached,) = (row["loss"] for row in map(json.loads, pathlib.Path(run, "metrics.jsonl").read_text().splitlines()) if row["split"] == "val")
        of_run, of_other = (next(row["loss"] for row in map(json.loads, expect(lathe("eval", "--run-dir", run, "--json", *more), 0).stdout.splitlines()) if row["event"] == "eval")
                            for more in ((), ("--tta", other)))
        assert abs(of_run - reached) < 1e-5 < abs(of_other - reached), (views, reached, of_run, of_other)
    expect_one_line(lathe("train", *flags, "--epochs", 2, "--tta", "none", "--resume", "c"), 2, "tta shift → none")
    expect_one_line(lathe("eval", "--run-dir", "a", "--tta", "flip"), 2, "--tta")


def test_eval_shows_the_worst_mistakes(folder):
    trained(folder, "--max-steps", 1)
    result = expect(lathe("eval", "--run-dir", "a", "--split", "train", "--worst", 5, "--worst-dir", "worst", "--json", "--confusion", "c.csv"), 0)
    worst = [row for row in map(json.loads, result.stdout.splitlines()) if row["event"] == "mistake"]
    table = [[int(n) for n in line[1:]] for line in list(csv.reader(open("c.csv", newline="")))[1:]]
    wrong = sum(map(sum, table)) - sum(table[i][i] for i in range(3))
    assert wrong > 5 == len(worst), (wrong, worst)
    losses = [row["loss"] for row in worst]
    assert losses == sorted(losses, reverse=True) and all(row["label"] != row["predicted"] for row in worst)
    rows = {r["index"]: r for r in map(json.loads, lathe("predict", "--run-dir", "a", "--split", "train", "--index", "0:24", "--json").stdout.splitlines())}
    for row in worst:
        assert rows[row["index"]]["predicted"] == row["predicted"] and rows[row["index"]]["label"] == row["label"]
        assert abs(rows[row["index"]]["probability"] - row["probability"]) < 1e-5
        file = folder / "images" / "train" / CLASSES[row["index"] // 8] / f"{row['index'] % 8}.png"  # 8 of each, in the order of ImageFolder
        assert row["file"] == rows[row["index"]]["file"] == str(file), (row, rows[row["index"]])
    names = sorted(path.name for path in pathlib.Path("worst").iterdir())
    plain = ["blue", "red__dark_", "yell_ow"]
    assert names == sorted(f"{k + 1:03}-{plain[row['label']]}-taken-for-{plain[row['predicted']]}.png" for k, row in enumerate(worst)), names
    # The file is the image: 18 + k rows of the image k of its class.
    first = pathlib.Path("worst", names[0]).read_bytes()
    assert int.from_bytes(first[20:24], "big") == 18 + worst[0]["index"] % 8
    expect_one_line(lathe("eval", "--run-dir", "a", "--worst-dir", "worst", "--no-quiet"), 2, "--worst-dir worst: expected a new folder or an empty one")
    expect(lathe("eval", "--run-dir", "a", "--worst-dir", "more", "--split", "train"), 0)
    assert 5 < len(list(pathlib.Path("more").iterdir())) <= 16
    text = check_shown(expect(lathe("eval", "--run-dir", "a", "--worst", 1, "--no-quiet"), 0)).stdout
    assert text.count(" taken for ") == 1 and ", images/test/" in text, text
    expect(lathe("report", "a"), 0)
    assert pathlib.Path("a/report.html").read_text().count(f'>{folder / "images" / "test"}/') >= 4
    expect_one_line(lathe("eval", "--run-dir", "a", "--worst", -1), 2, "--worst")
    # The file that took the place of a broken one is named.
    pathlib.Path("images/test/blue/1.png").write_bytes(b"no image")
    rows = map(json.loads, expect(lathe("predict", "--run-dir", "a", "--index", "0:3", "--skip-broken", "--json"), 0).stdout.splitlines())
    assert [row["file"] for row in rows] == [str(folder / f"images/test/blue/{k}.png") for k in (0, 2, 2)]


def test_a_model_of_grey_images_with_a_border_gets_files_as_such(folder):
    """MNIST's 28 x 28 pixels with a border to 32 x 32."""
    def idx(name, shape, data):
        path = pathlib.Path("mnist", name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + data)

    def pixels(i):
        return bytes((i * 37 + k * (i + 3)) % 256 for k in range(784))
    for part, count in (("train", 20), ("t10k", 8)):
        idx(f"{part}-images-idx3-ubyte", [count, 28, 28], b"".join(map(pixels, range(count))))
        idx(f"{part}-labels-idx1-ubyte", [count], bytes(i % 10 for i in range(count)))
    expect(lathe("train", "--dataset", "mnist", "--data-root", "mnist", "--model", "resnet8", "--image-size", 32, "--max-steps", 1, "--run-dir", "a", "--quiet"), 0)
    rows = [json.loads(line) for line in expect(lathe("predict", "--run-dir", "a", "--index", "0:8", "--json"), 0).stdout.splitlines()]
    for i in range(8):
        grey = [pixels(i)[28 * y:28 * y + 28] for y in range(28)]
        write_png(folder / "files" / f"{i}.png", 28, [bytes(v for value in row for v in (value,) * 3) for row in grey])
    result = lathe("predict", "--run-dir", "a", "files", "--json")
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    seen = list(predictions(expect(result, 0)).values())
    assert len(seen) == 8
    for row, classes in zip(rows, seen):
        assert classes[0]["class"] == row["predicted"] and abs(classes[0]["probability"] - row["probability"]) < 1e-5, (row, classes)
        assert len(classes) == 5
    metadata = safetensors_header("a/best.safetensors")["__metadata__"]
    assert [metadata[f"lathe.image_{key}"] for key in ("channels", "resize", "size")] == ["1", "28x28", "32"]


def test_calls_that_make_no_sense(folder):
    expect(train("a", "--max-steps", 1), 0)
    expect_one_line(lathe("predict", "x.png"), 2, "--run-dir")
    expect_one_line(lathe("predict", "--run-dir", "a", "x.png", "--top", 0), 2, "--top")
    expect_one_line(lathe("predict", "--run-dir", "a", "x.png", "--format", "xml"), 2, '--format: expected one of text, csv, json, got "xml"')
    expect_one_line(lathe("predict", "--run-dir", "a", "x.png", "--index", "3"), 2, "--index chooses images of the data set: leave out the files")
    expect_one_line(lathe("predict", "--run-dir", "a", "--top", 3), 2, "--top is for image files")
    expect(lathe("ckpt", "convert", "a/last.safetensors", "w.npz"), 0)
    expect_one_line(lathe("predict", "--weights", "w.npz", "x.png"), 2, "w.npz does not say which model it is of; name that with --model")
    expect_one_line(lathe("predict", "--weights", "missing", "x.png"), 3, "missing")
    expect_one_line(lathe("predict", "a", "x.png"), 2, "which model? For that of the run, give --run-dir a")
    expect_one_line(lathe("predict", "--run-dir", "a/last.safetensors", "x.png"), 2, "did you mean --weights a/last.safetensors?")
    for words in (["predict", "x.png", "--weights", "a"], ["ckpt", "show", "a"], ["ckpt", "convert", "a", "a.onnx"], ["ckpt", "convert", "a", "a.npz"]):
        expect_one_line(lathe(*words), 3, "a: is a folder; a/best.safetensors is a checkpoint")
    pathlib.Path("x.jpg").write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF")
    expect_one_line(lathe("predict", "--weights", "x.jpg", "--model", "resnet8", "x.png"), 3, "x.jpg: is an image (JPEG), not a file of weights")
    write_safetensors("none.safetensors", {}, {})
    expect_one_line(lathe("predict", "--weights", "none.safetensors", "--model", "resnet8", "x.png"), 3, "none.safetensors: holds no tensors")


def test_weights_of_other_programs_predict_files_and_checkpoints_say_their_model(folder):
    image(folder / "x.png", COLOURS[0])
    expect(train("a", "--max-steps", 1), 0)
    expect(lathe("ckpt", "convert", "a/last.safetensors", "w.npz"), 0)
    result = lathe("predict", "--weights", "w.npz", "--model", "resnet8", "--image-size", 16, "--format", "json", "x.png")
    if "this build has no libpng" in result.stderr:
        raise Skip("no libpng")
    expect_one_line(result, 0, "w.npz names neither its classes nor how images are prepared", "the classes 0 to 9", "the middle 16 x 16 (--image-size)")
    # Oracle: the same weights with the metadata written by hand.
    about = {"class_names": json.dumps([str(i) for i in range(10)]), "image_channels": "3", "image_resize": "18", "image_size": "16",
             "image_mean": "0.485,0.456,0.406", "image_std": "0.229,0.224,0.225", "model": "resnet8"}
    expect(lathe("ckpt", "convert", "a/last.safetensors", "w.safetensors"), 0)
    rewritten("w.safetensors", "says.safetensors", **about)
    says = expect(lathe("predict", "--weights", "says.safetensors", "--format", "json", "x.png"), 0)
    assert not says.stderr and says.stdout == result.stdout, (says, result)
    # Of a checkpoint eval asks for no more than predict; the part that is looked at is the run's.
    whole, alone = (json.loads(expect(lathe("eval", *words, "--batch-size", 8, "--json"), 0).stdout.splitlines()[0])
                    for words in (["--run-dir", "a"], ["--weights", "a/last.safetensors", "--synthetic-size", 50]))
    assert (alone["images"], alone["accuracy"], alone["loss"]) == (whole["images"], whole["accuracy"], whole["loss"])
    expect_one_line(lathe("eval", "--weights", "w.npz"), 2, "w.npz does not say which model it is of; name that with --model")
    other = ["eval", "--weights", "a/last.safetensors", "--dataset", "folder", "--data-root", folder / "images", "--quiet"]
    for part in ("train", "test"):
        for kind in "ab":
            image(folder / "images" / part / kind / "1.png", COLOURS[1])
    result = expect_one_line(lathe(*other), 3, "; all but fc fits: the file is of other classes")
    assert "--new-head" not in result.stderr


main(globals())
