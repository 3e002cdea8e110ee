#!/usr/bin/env python3
"""Training that begins with weights of a file: a new head, frozen parameters, a rate of the head's own.

    fine_tuning_test.py LATHE [--sanitized]
"""
import json
import pathlib
import struct
import zipfile

from driver import expect, expect_one_line, lathe, main
from runs import safetensors_header, values_of, write_png, write_safetensors
from short_run import TINY, check_equal, log_of, rows_of, train

ONE_STEP = ["--max-steps", 1, "--eval-every", 0]
HEAD = ["fc.weight", "fc.bias"]


def rewritten(source, to, rename=lambda name: name, leave_out=(), more=None):
    """A safetensors file again, with other names, without some entries, with some f32 vectors more."""
    data = pathlib.Path(source).read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header, values = {}, b""
    for name, entry in safetensors_header(source).items():
        if name == "__metadata__" or name.split(".")[0] in ("optimizer", "scheduler", "scaler", "trainer", "rng", *leave_out):
            continue
        first, end = entry["data_offsets"]
        header[rename(name)] = {**entry, "data_offsets": [len(values), len(values) + end - first]}
        values += data[begin + first:begin + end]
    for name, size in (more or {}).items():
        header[name] = {"dtype": "F32", "shape": [size], "data_offsets": [len(values), len(values) + 4 * size]}
        values += bytes(4 * size)
    text = json.dumps(header).encode()
    pathlib.Path(to).write_bytes(struct.pack("<Q", len(text)) + text + values)


def with_head_of(classes, source, to, width=64):
    """The same weights with a head for so many classes."""
    rewritten(source, to, leave_out=["fc"])
    data = pathlib.Path(to).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header, values = json.loads(data[8:8 + length]), data[8 + length:]
    for name, shape in (("fc.weight", [classes, width]), ("fc.bias", [classes])):
        count = classes * (width if len(shape) == 2 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(values), len(values) + 4 * count]}
        values += bytes(4 * count)
    text = json.dumps(header).encode()
    pathlib.Path(to).write_bytes(struct.pack("<Q", len(text)) + text + values)


def weights_of(run):
    """The entries of the model by name."""
    entries = values_of(f"{run}/last.safetensors", "")
    parts = ("optimizer", "scheduler", "scaler", "trainer", "rng")
    return {name: values for name, values in entries.items() if name.split(".")[0] not in parts}


def loud(*arguments):
    return train(*arguments, "--no-quiet")


def test_a_new_head_takes_all_but_the_head_from_the_file(folder):
    expect(train("a", *ONE_STEP), 0)
    with_head_of(37, "a/last.safetensors", "w.safetensors")
    still = ["--lr", 0, "--freeze", "backbone", *ONE_STEP]
    result = expect_one_line(train("b", "--weights", "w.safetensors", *ONE_STEP), 3, "w.safetensors does not fit: of the model's 44 entries 2 have another shape or dtype in the file "
                             "(fc.weight f32[37,64] instead of f32[10,64], fc.bias f32[37] instead of f32[10]); --new-head begins with a new fc\n")
    assert not pathlib.Path("b").exists(), result
    result = expect(loud("b", "--weights", "w.safetensors", "--new-head", "--seed", 5, *still), 0)
    for text in ("new head: 2 entries: fc.weight f32[10,64], fc.bias f32[10] keep their random values",
                 "not used of w.safetensors: 2 entries: fc.weight f32[37,64], fc.bias f32[37]"):
        assert text in result.stderr and text in log_of("b"), result.stderr
    before, after = weights_of("a"), weights_of("b")
    assert before.keys() == after.keys() and len(before) > 20
    assert [name for name in before if before[name] != after[name]] == HEAD
    assert any(after["fc.weight"])
    expect(loud("z", "--weights", "w.safetensors", "--new-head", "--freeze", "fc", "--dry-run"), 0,
           "warning: --freeze fc freezes the new head fc: it keeps its random values")
    # A head of the same size is new as well, and what the file has besides is named.
    rewritten("a/last.safetensors", "more.safetensors", more={f"aux.{i}": 3 for i in range(11)})
    expect_one_line(train("c", "--weights", "more.safetensors", *still), 3, "more.safetensors does not fit: 11 of the file's are not in the model (aux.0, aux.1, aux.2, …)\n")
    result = expect(loud("c", "--weights", "more.safetensors", "--new-head", "--seed", 5, *still), 0)
    assert "not used of more.safetensors: 13 entries: fc.weight f32[10,64], fc.bias f32[10], aux.0 f32[3], " in result.stderr, result.stderr
    assert weights_of("c") == after
    expect(lathe("eval", "--run-dir", "c", "--quiet"), 0)


def test_weights_that_are_of_another_model_are_refused(folder):
    expect(train("a", *ONE_STEP), 0)
    rewritten("a/last.safetensors", "other.safetensors", rename=lambda name: "trunk." + name)
    names = "are missing (conv1.weight, bn1.weight, bn1.bias, …); 44 of the file's are not in the model (trunk.conv1.weight, trunk.bn1.weight, trunk.bn1.bias, …)\n"
    for flags, count in (([], 44), (["--new-head"], 42)):  # fc is new, and none of the file's is needed
        expect_one_line(train("b", "--weights", "other.safetensors", *flags), 3, f"other.safetensors does not fit: of the model's 44 entries {count} {names}")
    rewritten("a/last.safetensors", "less.safetensors", leave_out=["bn1"])
    expect_one_line(train("b", "--weights", "less.safetensors", "--new-head"), 3, "of the model's 44 entries 5 are missing (bn1.weight, bn1.bias, bn1.running_mean, …)\n")
    # Integers are no weights: nothing fits, so a new head would not help.
    rewritten("a/last.safetensors", "other.safetensors")
    pathlib.Path("i.safetensors").write_bytes(pathlib.Path("other.safetensors").read_bytes().replace(b'"F32"', b'"I32"'))
    expect_one_line(train("b", "--weights", "i.safetensors"), 3, "have another shape or dtype in the file (conv1.weight i32[16,3,3,3] instead of f32[16,3,3,3], ", ", …)\n")
    write_safetensors("none.safetensors", {}, {})
    expect_one_line(train("b", "--weights", "none.safetensors"), 3, "none.safetensors: holds no tensors\n")
    # Names and shapes of a model of --model say which one it is, whatever its classes, channels and stem.
    for flags in (["--new-head"], []):
        line = expect_one_line(train("b", "--model", "resnet20", "--weights", "a/last.safetensors", *flags), 3, " does not fit: of the model's 116 entries 72 are missing (layer1.1.conv1.weight, ",
                               "; the file fits resnet8 of 10 classes and 3 channels\n").stderr
        assert len(line) < 400, line
    expect(train("s", "--model", "resnet18", "--stem", "imagenet", "--synthetic-size", 8, *ONE_STEP), 0)
    with_head_of(37, "s/last.safetensors", "s.safetensors", width=512)
    for model in ("resnet50", "vit_s_16"):
        line = expect_one_line(train("b", "--model", model, "--image-size", 16, "--weights", "s.safetensors", "--new-head"), 3, "s.safetensors does not fit: of the model's ", "; the file fits resnet18 of 37 classes and 3 channels\n").stderr
        assert len(line) < 550, line
    assert not pathlib.Path("b").exists()
    result = expect(loud("b", "--new-head", *ONE_STEP), 0)
    assert "warning: --new-head has no effect without --weights" in result.stderr, result.stderr


def test_what_was_not_said_is_chosen_for_fine_tuning_or_named(folder):
    expect(train("a", *ONE_STEP), 0)
    other = ["train", "--dataset", "synthetic", "--synthetic-size", 50, "--image-size", 16, "--threads", 1, "--dry-run"]
    plan = expect(lathe(*other, "--model", "resnet8", "--weights", "a/last.safetensors", "--new-head"), 0).stdout
    assert "\nlr = 0.01\n" in plan, plan  # a tenth
    assert "\nlr = 0.1\n" in expect(lathe(*other, "--model", "resnet8", "--weights", "a/last.safetensors"), 0).stdout
    expect(train("b", *ONE_STEP, "--model", "resnet20"), 0)
    said = "chosen: --model resnet20, which has the names and shapes of the weights in b/last.safetensors\n"
    result = expect(lathe(*other, "--weights", "b/last.safetensors"), 0)
    assert said in result.stderr, result.stderr
    assert '\nmodel = "resnet20"\n' in result.stdout, result.stdout
    for command, more in (("doctor", ["--device", "cuda"]), ("explain", ["--batch-size", 2])):
        result = lathe(command, *other[1:-1], *more, "--weights", "b/last.safetensors", env={"CUDA_VISIBLE_DEVICES": ""})
        assert result.returncode in (0, 7) and said in result.stdout + result.stderr, result
    assert "One training step of resnet20 on " in result.stdout, result.stdout[:100]
    # Whose classes are others: the flag that is missing is named, not the model, which is right.
    with_head_of(37, "b/last.safetensors", "w.safetensors")
    result = lathe(*other, "--weights", "w.safetensors")
    assert result.returncode == 3 and result.stderr.splitlines()[-1].endswith("; --new-head begins with a new fc"), result.stderr
    # Random numbers for explain are of the weights' classes, unless --classes says others.
    steps = ["explain", "--batch-size", 2, "--image-size", 16, "--threads", 1, "--weights", "w.safetensors"]
    *ops, done = map(json.loads, expect(lathe(*steps, "--json"), 0).stdout.splitlines())
    assert done["model"] == "resnet20" and [op["output"] for op in ops if op["op"] == "linear"] == ["f32[2,37]"], ops
    assert lathe(*steps, "--classes", 11).returncode == 3
    write_safetensors("odd.safetensors", {"a": [2]}, {})
    result = lathe(*other, "--weights", "odd.safetensors")
    assert result.returncode == 3 and result.stderr.splitlines()[-1].endswith(
        "; lathe chose resnet8, because no --model was given: name the model of the file"), result.stderr
    few = expect(lathe(*other[:-1], "--model", "resnet8", "--max-steps", 1, "--run-dir", "c"), 0).stderr
    assert "the 50 training images make only 1 step of 128 in an epoch; a smaller --batch-size" in few, few
    assert "steps of" not in expect(lathe(*other[:-1], "--model", "resnet8", "--max-steps", 1, "--batch-size", 128, "--run-dir", "d"), 0).stderr.replace("1 step of 128 on", "")


def test_the_stem_is_that_of_the_weights_or_suits_the_images(folder):
    small = ["--model", "resnet18", "--synthetic-size", 8, *ONE_STEP]
    expect(train("a", *small, "--stem", "imagenet"), 0)
    expect(train("c", *small, "--stem", "cifar"), 0)
    rewritten("a/last.safetensors", "w.safetensors", rename=lambda name: "module." + name)
    with_weights = ["--weights", "w.safetensors", "--new-head"]

    def plan(*flags):
        result = expect(lathe("train", *TINY, *small, "--dry-run", "--no-quiet", *flags), 0)
        lines = [line for line in result.stdout.splitlines() if line.startswith("stem = ")]
        return lines[0].split('"')[1], [line for line in result.stderr.splitlines() if "stem" in line]
    assert plan(*with_weights) == ("imagenet", ["chosen: --stem imagenet (as the weights of w.safetensors have it)"])
    assert plan("--weights", "c/last.safetensors", "--image-size", 96)[0] == "cifar"
    assert plan(*with_weights, "--stem", "auto")[0] == "imagenet"
    assert plan("--image-size", 16) == ("cifar", ["chosen: --stem cifar (the images are 16 x 16)"])
    assert [plan("--image-size", side)[0] for side in (64, 65)] == ["cifar", "imagenet"]
    assert plan("--image-size", 96, "--stem", "cifar") == ("cifar", [])
    assert plan("--model", "resnet8", "--image-size", 96) == ("imagenet", [])  # it has none, so nothing is said
    expect_one_line(train("b", *small, *with_weights, "--stem", "cifar"), 3,
                    "1 has another shape or dtype in the file (conv1.weight f32[64,3,7,7] instead of f32[64,3,3,3]); the file's first layer is that of --stem imagenet")
    expect_one_line(train("b", *small, "--weights", "none.safetensors"), 3, "none.safetensors")
    data = ["--dataset", "synthetic", "--synthetic-size", 8, "--image-size", 16, "--threads", 1]
    for command in (["eval"], ["predict", "--index", 0]):  # the file says it here, too
        expect(lathe(*command, *data, "--model", "resnet18", "--weights", "w.safetensors"), 0)


def test_a_folder_of_images_is_found_however_it_is_named(folder):
    for part in ("train", "test"):
        for kind, shade in (("dark", 20), ("light", 230)):
            for i in range(4):
                write_png(folder / "pets" / part / kind / f"{i}.png", 20, [bytes([shade, i, 9] * 20)] * 20)
    few = ["--model", "resnet8", "--image-size", 16, "--threads", 1, "--dry-run"]
    result = expect(lathe("train", "--data-root", "pets", *few), 0, "chosen: folder (--data-root holds folders of images)")
    assert f'\ndata-root = "{folder.resolve()}/pets"\n' in result.stdout and 'dataset = "folder"\n' in result.stdout, result.stdout
    # A choice is told where it matters: not before an error in what was given.
    for command in ("train", "find-lr", "bench tips", "doctor"):
        flags = ["--batch-size", 999, "--drop-last"] if command in ("train", "find-lr") else ["--augment", "crop,fli"]
        expect_one_line(lathe(*command.split(), "--data-root", "pets", "--image-size", 16, "--threads", 1, *flags), 2)
    expect_one_line(lathe("train", "--data-root", "pets", "--weights", "none.pth"), 3, "lathe: none.pth: cannot open: No such file or directory\n")
    expect_one_line(lathe("train", "pets", *few), 2, 'unexpected argument "pets"; did you mean --data-root pets?')
    expect_one_line(lathe("train", "--dataset", "pets", *few), 2, 'got "pets"; did you mean --data-root pets?')
    expect_one_line(lathe("train", "cats", *few), 2, 'unexpected argument "cats"\n')


def test_a_run_keeps_its_stem(folder):
    small = ["--model", "resnet18", "--synthetic-size", 16]
    expect(train("a", *small, *ONE_STEP, "--stem", "imagenet"), 0)
    rewritten("a/last.safetensors", "w.safetensors")
    flags = [*small, "--weights", "w.safetensors", "--new-head"]
    assert "identical after 2 steps" in expect(lathe("ckpt", "verify-resume", *TINY, *flags, "--steps", 2), 0).stdout
    expect(train("b", *flags, "--stop-after", 1), 0)
    assert '\nstem = "imagenet"\n' in pathlib.Path("b/config.toml").read_text()
    pathlib.Path("w.safetensors").unlink()
    for more in ([], ["--stem", "auto"]):
        result = expect(lathe("train", "--resume", "b", "--dry-run", "--no-quiet", *more), 0)
        assert '\nstem = "imagenet"\n' in result.stdout and "stem" not in result.stderr, result.stderr
    # As runs were before the choice was automatic: the small stem with large images.
    expect(train("c", *small, "--image-size", 72, "--stem", "cifar", "--stop-after", 1), 0)
    assert '\nstem = "cifar"\n' in expect(lathe("train", "--resume", "c", "--dry-run"), 0).stdout
    expect_one_line(lathe("train", "--resume", "c", "--stem", "imagenet", "--allow-changes", "--quiet"), 2,
                    "does not fit --stem imagenet (it was made with cifar)")


def test_the_prefix_of_a_wrapper_is_taken_off_and_said(folder):
    expect(train("a", *ONE_STEP), 0)
    expected = json.loads(expect(lathe("eval", "--run-dir", "a", "--weights", "a/last.safetensors", "--json"), 0).stdout.splitlines()[0])["loss"]
    for prefix in ("module.", "model._orig_mod.", "backbone.", "net.", "encoder."):
        rewritten("a/last.safetensors", "w.safetensors", rename=lambda name: prefix + name)
        result = expect(lathe("eval", "--run-dir", "a", "--weights", "w.safetensors", "--json", "--no-quiet"), 0,
                        f'w.safetensors: the names begin with "{prefix}", which is removed')
        assert json.loads(result.stdout.splitlines()[0])["loss"] == expected


def test_a_backbone_without_a_head_gets_a_new_one(folder):
    expect(train("a", *ONE_STEP), 0)
    rewritten("a/last.safetensors", "w.safetensors", rename=lambda name: "backbone." + name, leave_out=["fc"])
    result = expect(loud("b", "--weights", "w.safetensors", "--new-head", "--lr", 0, "--freeze", "backbone", *ONE_STEP), 0)
    assert 'w.safetensors: the names begin with "backbone.", which is removed' in result.stderr, result.stderr
    before, after = weights_of("a"), weights_of("b")
    assert [name for name in before if before[name] != after[name]] == HEAD
    expect_one_line(train("c", "--weights", "w.safetensors"), 3, "w.safetensors does not fit: of the model's 44 entries 2 are missing (fc.weight, fc.bias)")


def test_frozen_parameters_and_the_statistics_of_frozen_norms_stay(folder):
    flags = ["--weight-decay", 0.1, "--log-every", 1]
    expect(train("a", *ONE_STEP), 0)
    weights = ["--weights", "a/last.safetensors", *flags]
    before = weights_of("a")

    def changed(run, *more):
        expect(train(run, *weights, *more, "--max-steps", 3), 0)
        after = weights_of(run)
        return {name for name in before if before[name] != after[name]}
    assert changed("head", "--freeze", "backbone") == set(HEAD)
    # A norm with one parameter left to train is in training: its statistics move.
    kept = {name for name in before if name.startswith(("conv1", "bn1", "layer1", "layer2.0.conv1"))} | {"layer3.0.bn1.weight"}
    assert changed("part", "--freeze", "conv1,bn1,layer1.*,layer2.0.conv?,layer3.0.bn1.weight") == set(before) - kept - {"layer2.0.conv2.weight"}
    assert changed("all") == set(before)
    result = expect(lathe("train", *TINY, *weights, "--freeze", "layer[12]", "--dry-run", "--no-quiet"), 0)
    assert "frozen" not in expect(lathe("train", *TINY, *weights, "--freeze", "none", "--dry-run", "--no-quiet"), 0).stderr
    assert "frozen: 12 of 23 parameter tensors, " in result.stderr and " and 4 batch norms" in result.stderr, result.stderr


def test_patterns_that_match_nothing_or_all_are_refused(folder):
    expect_one_line(train("a", "--freeze", "layr1.*"), 2, '--freeze: "layr1.*" matches no parameter; did you mean layer1?')
    expect_one_line(train("a", "--freeze", "layer1,zzz"), 2, '"zzz" matches no parameter; the model has conv1, bn1, layer1, layer2, layer3, fc, and "backbone" means all but fc\n')
    expect_one_line(train("a", "--freeze", "*"), 2, "--freeze * leaves nothing to train: all 23 parameters match")
    expect_one_line(train("a", "--freeze", "backbone,fc"), 2, "leaves nothing to train")
    assert not pathlib.Path("a").exists()


def test_the_head_has_a_rate_of_its_own_that_the_schedule_scales(folder):
    flags = ["--lr", 0.01, "--head-lr", 0.5, "--scheduler", "step", "--step-size", 1, "--gamma", 0.1, "--epochs", 2]
    for more, groups in (([], 2), (["--no-decay-norm"], 4), (["--optimizer", "lars"], 4), (["--lr-scale-batch"], 2)):
        expect(train("a", *flags, *more), 0)
        groups_of = values_of("a/last.safetensors", "optimizer.group.")
        scale = 8 / 128 if "--lr-scale-batch" in more else 1
        rates = [groups_of[f"{g}.lr"][0] for g in range(groups)]
        expected = [rate * scale * 0.1 for rate in [0.01] * (groups // 2) + [0.5] * (groups // 2)]
        assert all(abs(a / b - 1) < 1e-12 for a, b in zip(rates, expected)), (more, rates)
        assert f"{groups}.lr" not in groups_of
        assert groups_of[f"{groups - 1}.params"] == [1 if groups == 4 else 2]
        assert [row["lr"] for row in rows_of("a") if row["split"] == "train"][-1] == groups_of["0.lr"][0]
        for path in pathlib.Path("a").iterdir():
            path.unlink()
        pathlib.Path("a").rmdir()
    expect_one_line(train("a", "--head-lr", -1), 2, "--head-lr")
    expect_one_line(train("a", "--head-lr", "nan"), 2, "--head-lr")


def test_interrupted_it_ends_as_if_it_was_not(folder):
    expect(train("first", *ONE_STEP), 0)
    with_head_of(3, "first/last.safetensors", "w.safetensors")
    flags = ["--weights", "w.safetensors", "--new-head", "--freeze", "conv1,bn1,layer1,layer2.0.bn1", "--head-lr", 0.3, "--no-decay-norm"]
    expect(train("whole", *flags), 0)
    expect(train("parts", *flags, "--stop-after", 3), 0)
    pathlib.Path("w.safetensors").unlink()  # it has served
    for position in (7, 10, 15):
        expect(lathe("train", "--resume", "parts", "--stop-after", position, "--quiet"), 0)
    expect(lathe("train", "--resume", "parts", "--quiet"), 0)
    check_equal("parts", "whole")
    verify = ["ckpt", "verify-resume", *TINY[:-1], "--weights", "first/last.safetensors", *flags[2:], "--steps", 9]
    assert "identical after 9 steps" in expect(lathe(*verify), 0).stdout
    # Layers can be thawed later, with what the optimiser remembers of the others.
    thaw = ["train", "--resume", "parts", "--epochs", 4, "--freeze", "conv1", "--quiet"]
    expect_one_line(lathe(*thaw), 2, "freeze conv1,bn1,layer1,layer2.0.bn1 → conv1", "--allow-changes")
    before = weights_of("parts")
    expect(lathe(*thaw, "--allow-changes"), 0)
    after = weights_of("parts")
    assert {name for name in before if before[name] == after[name]} == {"conv1.weight"}
    expect_one_line(lathe("train", "--resume", "parts", "--head-lr", "auto", "--allow-changes", "--quiet"), 2, "does not fit --head-lr auto (it was made with 0.3)")


def test_resuming_from_weights_says_what_they_are_for(folder):
    expect(train("a", *ONE_STEP), 0)
    rewritten("a/last.safetensors", "w.safetensors")
    expect(lathe("ckpt", "convert", "w.safetensors", "w.npz"), 0)
    with zipfile.ZipFile("x.pth", "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}.")
    for name, kind in (("w.safetensors", "a file of weights"), ("w.npz", "a file of NumPy"), ("x.pth", "a file of PyTorch")):
        expect_one_line(lathe("train", "--resume", name), 3, f"--resume: {name} is {kind} and has no state of a run of lathe; --weights {name} begins a new run")


main(globals())
