#!/usr/bin/env python3
"""--model FILE.pt2: a program that PyTorch exported is trained, resumed, evaluated and used like a model of the library.

    model_file_test.py LATHE --golden=FOLDER [--sanitized]       (tests/graph/golden_pt2, by make_pt2_golden.py)
"""
import json
import pathlib
import re
import shutil
import struct
import sys
import time
import zipfile

from driver import expect, expect_one_line, lathe, main, start
from runs import rows_of, safetensors_header, values_of, write_png, write_safetensors

GOLDEN = pathlib.Path(next(word.partition("=")[2] for word in sys.argv if word.startswith("--golden="))).resolve()
DATA = ["--dataset", "synthetic", "--synthetic-size", 60, "--batch-size", 20]
RUN = ["train", *DATA, "--model", "net.pt2", "--max-steps", 8, "--epochs", 3, "--quiet", "--run-dir"]


def take(name="classifier", to="net.pt2"):
    shutil.copy(GOLDEN / f"{name}.pt2", to)


def edited(to, change):
    """classifier.pt2 with other entries: change(name, content) gives the new content."""
    with zipfile.ZipFile(GOLDEN / "classifier.pt2") as given, zipfile.ZipFile(to, "w") as changed:
        for entry in given.namelist():
            changed.writestr(entry, change(entry, given.read(entry)))


def ending_with(to, target, **integers):
    """The classifier, and an operator of "self" and these arguments behind it."""
    def change(name, content):
        if not name.endswith("models/model.json"):
            return content
        model = json.loads(content)
        graph = model["graph_module"]["graph"]
        made = [{"as_tensor": {"name": "last"}}]
        inputs = [{"name": "self", "arg": {"as_tensor": {"name": "view"}}, "kind": 1}]
        inputs += [{"name": key, "arg": {"as_int": value}, "kind": 1} for key, value in integers.items()]
        graph["nodes"].append({**graph["nodes"][-1], "target": f"torch.ops.aten.{target}", "name": "last", "inputs": inputs, "outputs": made})
        graph["tensor_values"]["last"] = graph["tensor_values"]["view"]
        graph["outputs"] = made
        model["graph_module"]["signature"]["output_specs"] = [{"user_output": {"arg": made[0]}}]
        return json.dumps(model).encode()
    edited(to, change)


def with_head_first(to):
    """The classifier of a class that makes its last layer before all others."""
    def change(name, content):
        if not name.endswith("models/model.json"):
            return content
        module = json.loads(content)
        inner = module["graph_module"]
        specs, inputs = inner["signature"]["input_specs"], inner["graph"]["inputs"]
        order = sorted(range(len(specs)), key=lambda i: not specs[i].get("parameter", {}).get("parameter_name", "").startswith("fc."))
        inner["signature"]["input_specs"], inner["graph"]["inputs"] = ([of[i] for i in order] for of in (specs, inputs))
        return json.dumps(module).encode()
    edited(to, change)


def in_f64(to):
    with zipfile.ZipFile(GOLDEN / "classifier.pt2") as given:
        values = {}
        for kind in ("weights", "constants"):
            config = json.loads(given.read(f"archive/data/{kind}/model_{kind}_config.json"))["config"]
            values |= {f"archive/data/{kind}/{one['path_name']}": one["tensor_meta"]["dtype"] for one in config.values()}

    def change(name, content):
        if values.get(name) == 7:
            numbers = struct.unpack(f"<{len(content) // 4}f", content)
            return struct.pack(f"<{len(numbers)}d", *numbers)
        return re.sub(rb'"dtype": ?7', b'"dtype": 8', content) if name.endswith(".json") else content
    edited(to, change)


def pets(folder):
    """Three classes of plain images.   → flags"""
    for part in ("train", "test"):
        for kind, shade in (("dark", 20), ("light", 230), ("grey", 120)):
            for i in range(4):
                write_png(folder / "pets" / part / kind / f"{i}.png", 20, [bytes([shade, i, 9] * 20)] * 20)
    return ["--dataset", "folder", "--data-root", "pets", "--batch-size", 4, "--epochs", 2]


def test_a_file_trains_and_its_run_needs_it_no_more(folder):
    take()
    expect(lathe(*RUN, "whole"), 0)
    assert safetensors_header("whole/last.safetensors")["fc.weight"]["shape"] == [10, 8]
    expect(lathe(*RUN, "a", "--stop-after", 4), 0)
    shutil.move("net.pt2", "moved.pt2")
    expect(lathe("train", "--resume", "a", "--quiet"), 0)
    assert (folder / "whole/last.safetensors").read_bytes() == (folder / "a/last.safetensors").read_bytes()
    assert rows_of("whole", "val")[-1]["accuracy"] == rows_of("a", "val")[-1]["accuracy"]

    said = [json.loads(line) for line in expect(lathe("eval", "--run-dir", "a", "--json"), 0).stdout.splitlines()]
    assert said[0]["accuracy"] == max(row["accuracy"] for row in rows_of("a", "val")), said
    write_png(folder / "a.png", 20, [bytes([9, 200, 30] * 20)] * 20)
    assert "a.png: " in expect(lathe("predict", "--run-dir", "a", "a.png"), 0).stdout
    assert "predicted" in expect(lathe("predict", "--run-dir", "a", "--index", 0), 0).stdout
    expect(lathe("report", "a", "--output", "r.html"), 0)
    shown = expect(lathe("ckpt", "show", "a/last.safetensors"), 0).stdout
    assert "digits of base64" in shown and max(map(len, shown.splitlines())) < 2000, shown[:3000]
    expect(lathe("ckpt", "convert", "a/best.safetensors", "w.safetensors"), 0)
    assert "a.png: " in expect(lathe("predict", "--weights", "w.safetensors", "a.png"), 0).stdout
    expect(lathe("ckpt", "convert", "a/best.safetensors", "m.onnx"), 0)
    assert "a.png: " in expect(lathe("predict", "--weights", "m.onnx", "a.png"), 0).stdout


def test_adapters_of_a_file_are_trained_resumed_and_merged(folder):
    take()
    lora = [*RUN[:-1], "--lora-rank", 2, "--new-head", "--run-dir"]
    expect(lathe(*lora, "whole"), 0)
    expect(lathe(*lora, "a", "--stop-after", 4), 0)
    shutil.move("net.pt2", "moved.pt2")
    expect(lathe("train", "--resume", "a", "--quiet"), 0)
    assert (folder / "whole/last.safetensors").read_bytes() == (folder / "a/last.safetensors").read_bytes()
    names = safetensors_header("a/last-adapter/adapter_model.safetensors").keys()
    assert "base_model.model.fc.weight" in names and any(name.endswith(".lora_A.weight") for name in names), names
    said = json.loads(expect(lathe("eval", "--weights", "a/last.safetensors", "--json"), 0).stdout.splitlines()[0])
    assert abs(said["loss"] - rows_of("a", "val")[-1]["loss"]) < 1e-4, said


def test_names_of_the_program_that_look_like_adapters_stay(folder):
    """A program that has LoRA layers of its own, under the names that --lora-rank gives."""
    with zipfile.ZipFile(GOLDEN / "classifier.pt2") as given, zipfile.ZipFile("net.pt2", "w") as changed:
        for entry in given.namelist():
            content = given.read(entry)
            if entry.endswith(".json"):
                content = content.replace(b'"block.0.weight"', b'"block.lora_A.weight"')
            changed.writestr(entry, content)
    expect(lathe(*RUN, "a", "--stop-after", 4), 0)
    assert "block.lora_A.weight" in safetensors_header("a/last.safetensors")
    expect(lathe("train", "--resume", "a", "--quiet"), 0)
    expect(lathe("eval", "--run-dir", "a"), 0)
    expect(lathe("ckpt", "convert", "a/last.safetensors", "w.safetensors"), 0)


def test_conversion_takes_its_program_from_a_flag_alone(folder):
    """LATHE_MODEL is for trainings. A file of adapters without a run is written as it is."""
    take()
    expect(lathe(*RUN[:-1], "--lora-rank", 2, "--run-dir", "a"), 0)
    for model in ("resnet18", "net.pt2"):
        expect(lathe("ckpt", "convert", "a/last.safetensors", "w.npz", env={"LATHE_MODEL": model}), 0)
    expect(lathe("ckpt", "convert", "a/best-adapter/adapter_model.safetensors", "adapters.npz"), 0)
    with zipfile.ZipFile("adapters.npz") as file:
        assert any(name.endswith(".lora_A.weight.npy") for name in file.namelist()), file.namelist()
    result = lathe("eval", "--model", "net.pt2", *DATA[:4], "--weights", "adapters.npz")
    assert result.returncode == 3 and "header length" not in result.stderr, result.stderr


def test_killed_it_goes_on_without_its_file_to_the_same_bits(folder):
    take()
    long = ["train", *DATA[:2], "--synthetic-size", 300, "--batch-size", 20, "--model", "net.pt2", "--epochs", 3, "--save-every", 2, "--quiet", "--run-dir"]
    expect(lathe(*long, "whole"), 0)
    process = start(*long, "a", "--resume", "auto")
    while process.poll() is None and len(list(pathlib.Path("a").glob("last.safetensors"))) == 0:
        time.sleep(0.001)
    process.kill()
    process.communicate()
    pathlib.Path("net.pt2").unlink()
    expect(lathe(*long, "a", "--resume", "auto"), 0)
    assert (folder / "whole/last.safetensors").read_bytes() == (folder / "a/last.safetensors").read_bytes()


def test_what_the_checkpoint_holds_counts(folder):
    take()
    expect(lathe(*RUN, "a", "--stop-after", 4), 0)
    expect(lathe(*RUN, "b", "--stop-after", 4), 0)
    take("conv_head", "other.pt2")
    result = expect(lathe("train", "--resume", "a", "--model", "other.pt2"), 0)
    assert "warning: --model other.pt2 is not read: the run continues with the program in a/last.safetensors" in result.stderr, result.stderr
    take("conv_head")  # in its place
    expect(lathe("train", "--resume", "b", "--quiet"), 0)
    assert (folder / "a/last.safetensors").read_bytes() == (folder / "b/last.safetensors").read_bytes()
    expect_one_line(lathe("train", "--resume", "a", "--model", "resnet8", "--epochs", 9, "--quiet"), 2, "model ", "→ resnet8")


def test_a_program_without_a_last_layer_says_so(folder):
    ending_with("net.pt2", "sin.default")
    for flag in (("--freeze", "backbone"), ("--head-lr", 0.1)):
        expect_one_line(lathe(*RUN, "a", *flag), 2, "--freeze backbone and --head-lr need a last layer; no linear layer or convolution makes the result of net.pt2")
    expect(lathe(*RUN, "a"), 0)


def test_a_new_last_layer_has_the_classes_of_the_data(folder):
    take()
    images = [*pets(folder), "--model", "net.pt2"]
    expect_one_line(lathe("train", *images, "--quiet", "--run-dir", "x"), 3, "--model net.pt2: it tells 10 classes apart, and the data has 3; --new-head begins")
    tuned = ["train", *images, "--new-head", "--freeze", "backbone", "--head-lr", 0.1, "--run-dir"]
    result = expect(lathe(*tuned, "a"), 0)
    assert "frozen: 6 of 8 parameter tensors" in result.stderr and "2 batch norms" in result.stderr, result.stderr
    header = safetensors_header("a/last.safetensors")
    assert header["fc.weight"]["shape"] == [3, 8] and header["stem.weight"]["shape"] == [8, 3, 3, 3], header
    expect(lathe(*tuned, "b", "--stop-after", 3, "--quiet"), 0)
    pathlib.Path("net.pt2").unlink()
    expect(lathe("train", "--resume", "b", "--quiet"), 0)
    assert (folder / "a/last.safetensors").read_bytes() == (folder / "b/last.safetensors").read_bytes()
    expect(lathe("eval", "--run-dir", "a"), 0)
    assert "dark" in expect(lathe("predict", "--run-dir", "a", "pets/test/dark/0.png"), 0).stdout


def test_the_last_layer_is_the_one_that_makes_the_result(folder):
    with_head_first("net.pt2")
    images = pets(folder)
    expect(lathe("ckpt", "convert", "net.pt2", "w.safetensors"), 0)
    assert list(values_of("w.safetensors", ""))[0].startswith("fc.")
    body = values_of("w.safetensors", "stem."), values_of("w.safetensors", "block.")
    tuned = ["train", *images, "--new-head", "--freeze", "backbone", "--head-lr", 0.1, "--run-dir"]
    result = expect(lathe(*tuned, "a", "--model", "net.pt2"), 0)
    assert "frozen: 6 of 8 parameter tensors" in result.stderr and "random values" not in result.stderr, result.stderr
    assert body[0] and body == tuple(values_of("a/last.safetensors", of) for of in ("stem.", "block."))
    few = ["train", *DATA, "--max-steps", 2, "--epochs", 1, "--weights", "a/best.safetensors", "--new-head", "--freeze", "backbone", "--quiet", "--run-dir", "b"]
    expect(lathe(*few), 0)
    assert safetensors_header("b/last.safetensors")["fc.weight"]["shape"] == [10, 8]
    assert body == tuple(values_of("b/last.safetensors", of) for of in ("stem.", "block."))


def test_a_file_can_be_evaluated_as_it_is(folder):
    take()
    write_png(folder / "a.png", 20, [bytes([9, 200, 30] * 20)] * 20)
    expect(lathe("eval", *DATA, "--model", "net.pt2"), 0)
    for flag in ("--model", "--weights"):
        result = expect(lathe("predict", flag, "net.pt2", "a.png"), 0)
        assert "a.png: " in result.stdout and "net.pt2 names neither its classes nor how images are prepared" in result.stderr, result
    # It has weights for a model of the same names, too.
    expect_one_line(lathe("eval", *DATA, "--model", "resnet8", "--weights", "net.pt2"), 3, "net.pt2 does not fit: ")


def test_weights_of_a_run_bring_their_program_along(folder):
    take()
    images = pets(folder)
    expect(lathe("train", *images, "--model", "net.pt2", "--new-head", "--run-dir", "a", "--quiet"), 0)
    begin = ["train", *images, "--weights", "a/best.safetensors", "--quiet", "--run-dir"]
    expect_one_line(lathe(*begin, "x", "--model", "net.pt2"), 3, "--new-head begins with a new last layer; without --model, a/best.safetensors keeps the last layer that it was trained with")
    pathlib.Path("net.pt2").unlink()
    expect(lathe(*begin, "b", "--lr", 1e-30, "--weight-decay", 0), 0)
    heads = [values_of(f"{run}.safetensors", "fc.") for run in ("a/best", "b/last")]
    assert heads[0] and heads[0] == heads[1], heads
    assert "chosen: --model a/best.safetensors/net.pt2 (a/best.safetensors carries this program)" in lathe("train", *images, "--weights", "a/best.safetensors", "--run-dir", "c").stderr
    expect(lathe("train", "--resume", "b", "--quiet", "--epochs", 3), 0)
    expect(lathe("ckpt", "convert", "a/best.safetensors", "w.safetensors"), 0)
    expect(lathe("train", *images, "--weights", "w.safetensors", "--quiet", "--run-dir", "d"), 0)
    few = ["train", *DATA, "--max-steps", 2, "--epochs", 1, "--weights", "a/best.safetensors", "--new-head", "--quiet", "--run-dir", "e"]
    expect(lathe(*few), 0)
    assert safetensors_header("e/last.safetensors")["fc.weight"]["shape"] == [10, 8]
    expect(lathe("find-lr", *images[:-2], "--weights", "a/best.safetensors", "--sweep-steps", 12), 0)


def test_a_run_that_began_with_weights_alone_can_begin_again(folder):
    take()
    images = pets(folder)
    expect(lathe("train", *images, "--model", "net.pt2", "--new-head", "--run-dir", "a", "--quiet"), 0)
    expect(lathe("train", *images, "--weights", "a/best.safetensors", "--quiet", "--run-dir", "b"), 0)
    config = ["--config", folder / "b/config.toml"]
    whole = (folder / "b/last.safetensors").read_bytes()
    (folder / "elsewhere").mkdir()
    for has_file in (True, False):  # of 10 classes
        if not has_file:
            pathlib.Path("net.pt2").unlink()
        expect(lathe("train", *config, "--quiet", "--run-dir", f"c{has_file}"), 0)
        assert (folder / f"c{has_file}/last.safetensors").read_bytes() == whole
        for killed, words in (("k", []), ("w", ["--weights", "a/best.safetensors"])):  # before the first checkpoint
            run = folder / f"{killed}{has_file}"
            run.mkdir()
            for name in ("config.toml", "env.json", "log.txt"):
                shutil.copy(folder / "b" / name, run)
            expect(lathe("train", *words, "--resume", "auto", "--run-dir", run, "--quiet", "--epochs", 3), 0)
            assert safetensors_header(run / "last.safetensors")["fc.weight"]["shape"] == [3, 8]
    expect(lathe("train", *config, "--quiet", "--run-dir", folder / "there", cwd="elsewhere"), 0)
    expect(lathe("find-batch", *config, "--max-batch", 8), 0)
    expect(lathe("summary", *config), 0)
    expect(lathe("find-lr", *config, "--sweep-steps", 12), 0)
    expect(lathe("eval", "--run-dir", "b"), 0)
    expect(lathe("train", "--resume", "b", "--quiet", "--epochs", 3), 0)  # writes config.toml again
    expect(lathe("train", *config, "--quiet", "--run-dir", "e"), 0)
    pathlib.Path("a/best.safetensors").unlink()
    expect_one_line(lathe("train", *config, "--quiet", "--run-dir", "d"), 3, "a/best.safetensors")


def test_a_program_that_gives_probabilities(folder):
    ending_with("soft.pt2", "softmax.int", dim=1)
    write_png(folder / "a.png", 20, [bytes([9, 200, 30] * 20)] * 20)
    expect(lathe("ckpt", "convert", "soft.pt2", "soft.onnx"), 0)
    of_graph = expect(lathe("predict", "--weights", "soft.onnx", "a.png"), 0).stdout
    assert expect(lathe("predict", "--model", "soft.pt2", "a.png"), 0).stdout == of_graph
    result = expect(lathe("train", *DATA, "--model", "soft.pt2", "--max-steps", 2, "--epochs", 1, "--run-dir", "a"), 0)
    warning = "warning: --model soft.pt2 ends in a softmax or sigmoid, but the loss expects logits: export it without that last op\n"
    assert warning in result.stderr, result.stderr
    expect(lathe("find-lr", *DATA, "--model", "soft.pt2", "--sweep-steps", 12), 0, warning)
    assert warning in lathe("doctor", *DATA, "--model", "soft.pt2").stderr
    expect(lathe("ckpt", "convert", "a/last.safetensors", "a.lathe"), 0)
    of_graph = expect(lathe("predict", "--weights", "a.lathe", "a.png"), 0).stdout
    assert expect(lathe("predict", "--weights", "a/last.safetensors", "a.png"), 0).stdout == of_graph
    row = json.loads(expect(lathe("predict", "--run-dir", "a", "--index", 0, "--json"), 0).stdout)
    logits = json.loads(expect(lathe("predict", "--weights", "a.lathe", "a.png", "--format", "json", "--top", 10), 0).stdout)
    assert abs(sum(one["probability"] for one in logits["predictions"]) - 1) < 1e-5, logits
    assert row["probability"] > 0.14, row  # a softmax of it would leave 0.11
    take("classifier", "net.pt2")  # the same model, which gives logits
    said = [[json.loads(line) for line in expect(lathe("eval", *DATA, "--model", f"{name}.pt2", "--worst", 1, "--json"), 0).stdout.splitlines()] for name in ("soft", "net")]
    for key in ("loss", "probability"):
        soft, logits = (next(row[key] for row in rows if key in row) for rows in said)
        assert abs(soft - logits) < 1e-5, said


def test_a_run_of_an_export_in_f64_becomes_a_graph(folder):
    in_f64("net.pt2")
    expect(lathe(*RUN, "a"), 0)
    write_png(folder / "a.png", 20, [bytes([9, 200, 30] * 20)] * 20)
    own = expect(lathe("predict", "--run-dir", "a", "a.png"), 0).stdout
    for made in ("m.onnx", "m.lathe"):
        expect(lathe("ckpt", "convert", "a/best.safetensors", made), 0)
        assert expect(lathe("predict", "--weights", made, "a.png"), 0).stdout == own


def test_a_graph_does_not_name_the_folder_of_its_maker(folder):
    take()
    expect(lathe(*RUN, "a"), 0)
    for made in ("m.onnx", "m.lathe"):
        expect(lathe("ckpt", "convert", "a/best.safetensors", made), 0)
        assert str(folder).encode() not in pathlib.Path(made).read_bytes()
    pathlib.Path("net.pt2").unlink()
    rows = [json.loads(expect(lathe("eval", "--weights", made, *DATA[:4], "--json"), 0).stdout.splitlines()[0]) for made in ("m.onnx", "m.lathe")]
    assert rows[0]["loss"] == rows[1]["loss"] and rows[0]["images"] == 12, rows


def test_adapters_that_cannot_be_written_do_not_end_the_run(folder):
    take()
    pathlib.Path("a").mkdir()
    pathlib.Path("a/last-adapter").touch()
    run = [word for word in RUN if word not in ("--quiet", "--run-dir")]
    expect(lathe(*run, "--lora-rank", 2, "--run-dir", "a"), 1, "a/last-adapter", "; last.safetensors has the adapters, too")
    assert rows_of("a", "val")[-1]["step"] == 8
    expect(lathe("eval", "--weights", "a/last.safetensors"), 0)
    pathlib.Path("a/last-adapter").unlink()
    expect(lathe("train", "--resume", "a", "--max-steps", 9, "--quiet"), 0)


def test_parameters_that_the_export_froze_stay_frozen_after_adapters(folder):
    def change(name, content):
        if not name.endswith("models/model.json"):
            return content
        model = json.loads(content)
        module = model["graph_module"]
        stem = next(spec["parameter"] for spec in module["signature"]["input_specs"] if spec.get("parameter", {}).get("parameter_name") == "stem.weight")
        module["graph"]["tensor_values"][stem["arg"]["name"]]["requires_grad"] = False
        return json.dumps(model).encode()
    edited("net.pt2", change)
    assert "698 trainable" in expect(lathe("summary", "--model", "net.pt2"), 0).stdout.replace(",", ""), lathe("summary", "--model", "net.pt2").stdout
    expect(lathe(*RUN[:-1], "--lora-rank", 2, "--lora-targets", "block*", "--run-dir", "a"), 0)
    stems = []
    for steps in (1, 4):
        expect(lathe(*RUN[:-1], "--weights", "a/last.safetensors", "--stop-after", steps, "--run-dir", f"b{steps}"), 0)
        stems.append(values_of(f"b{steps}/last.safetensors", "stem."))
    assert stems[0] and stems[0] == stems[1]


def test_what_a_run_with_a_file_cannot_change(folder):
    take()
    expect(lathe(*RUN, "a", "--stop-after", 4), 0)
    result = lathe("train", "--resume", "a", "--new-head", "--allow-changes", "--no-quiet")
    expect(result, 0, "warning: --new-head has no effect: the run goes on with the last layer of a/last.safetensors")
    expect_one_line(lathe("ckpt", "convert", "a/best.safetensors", "m.onnx", "--model", "net.pt2"), 2, "a/best.safetensors carries its own program; leave out --model")
    write_safetensors("odd.safetensors", {"fc.bias": [0.0]}, {"lathe.model": "net.pt2", "lathe.program": "!!!!"})
    expect_one_line(lathe("eval", *DATA, "--weights", "odd.safetensors"), 3, "odd.safetensors: lathe.program: ")
    for size in ("2,3,8,8", "2,3,16,20", "2,4,16,16"):
        expect_one_line(lathe("summary", "--model", "net.pt2", "--input-size", size), 2, f"--input-size {size}: --model net.pt2 takes 3 channels of 16 x 16")
    expect(lathe("summary", "--model", "net.pt2", "--input-size", "2,3,16,16"), 0)
    assert "multiply-adds  -\n" in expect(lathe("summary", "--model", "net.pt2"), 0).stdout
    assert json.loads(expect(lathe("summary", "--model", "net.pt2", "--json"), 0).stdout)["macs"] is None


def test_other_commands_take_a_file(folder):
    take()
    few = ["--model", "net.pt2", "--batch-size", 8]
    rows = {name: expect(lathe(*words, "--json"), 0).stdout for name, words in {
        "summary": ["summary", "--model", "net.pt2"],
        "explain": ["explain", *few],
        "graph": ["graph", *few, "--output", "g.dot"],
        "bench step": ["bench", "step", *few, "--seconds", 0.1],
        "bench infer": ["bench", "infer", *few, "--seconds", 0.1],
        "find-batch": ["find-batch", "--model", "net.pt2", "--max-batch", 8],
        "find-lr": ["find-lr", *DATA, "--model", "net.pt2", "--sweep-steps", 12],
    }.items()}
    assert json.loads(rows["summary"].splitlines()[-1])["parameters"] == 8 * 27 + 16 + 8 * 72 + 16 + 90, rows["summary"]
    expect_one_line(lathe("bench", "conv", "--model", "net.pt2"), 2, "bench conv looks at convolutions of the library's models")
    result = lathe("doctor", *DATA, "--model", "net.pt2", "--steps", 3, "--device", "cpu")
    assert result.returncode in (0, 7), result


def test_what_cannot_be_read_or_does_not_fit_is_said_with_its_values(folder):
    take()
    run = ["train", *DATA, "--quiet", "--run-dir", "x", "--model"]
    expect_one_line(lathe(*run, "nets.pt2"), 3, "--model nets.pt2: there is no such file; did you mean net.pt2?")
    expect_one_line(lathe(*run, "resnet8.pt2"), 3, "there is no such file; --model resnet8 is a model of the library")
    expect_one_line(lathe(*run, "net"), 2, "; did you mean the file net.pt2?")
    data = pathlib.Path("net.pt2").read_bytes()
    pathlib.Path("cut.pt2").write_bytes(data[:len(data) // 2])
    expect_one_line(lathe(*run, "cut.pt2"), 3, "cut.pt2")
    with zipfile.ZipFile("net.pt2") as whole, zipfile.ZipFile("odd.pt2", "w") as odd:
        for name in whole.namelist():
            odd.writestr(name, whole.read(name).replace(b"torch.ops.aten.mean.dim", b"torch.ops.own.mean.dim"))
    expect(lathe(*run, "odd.pt2"), 3, "odd.pt2: 1 operator of this program (1 call) has no counterpart here", '"torch.ops.own.mean.dim": node "mean"')
    take("attention", "text.pt2")
    expect_one_line(lathe(*run, "text.pt2"), 3, "text.pt2: it computes ", "one input and one result; a C++ program can train this one")
    take("pointwise", "rows.pt2")
    expect_one_line(lathe(*run, "rows.pt2"), 3, "rows.pt2: it computes ", "a C++ program can train this one")
    take("conv_head", "wide.pt2")
    expect_one_line(lathe(*run, "wide.pt2"), 3, "wide.pt2: it computes log_softmax f32[N,6] from x f32[N,3,9,12]; the command's images have as many rows as columns")
    expect_one_line(lathe(*run, "net.pt2", "--image-size", 32), 2, "--model net.pt2 takes images of 16 x 16, not --image-size 32")
    assert not pathlib.Path("x").exists()
    result = expect(lathe("bench", "step", "--model", "net.pt2", "--batch-size", 4, "--classes", 7, "--stem", "cifar", "--seconds", 0.1), 0)
    assert "warning: --classes has no effect with --model net.pt2, which has its own" in result.stderr, result.stderr
    assert "warning: --stem has no effect with --model net.pt2" in result.stderr, result.stderr


main(globals())
