#!/usr/bin/env python3
"""Training of adapters alone, by --lora-rank.

    lora_test.py LATHE [--sanitized]
"""
import json
import pathlib

from driver import expect, expect_one_line, lathe, main
from runs import values_of
from short_run import check_equal, log_of, rows_of, train

ONE_STEP = ["--max-steps", 1, "--eval-every", 0]
ADAPTERS = ["--lora-rank", 2, "--lora-targets", "layer[12]"]


def loud(*arguments):
    return train(*arguments, "--no-quiet")


def weights_of(run):
    """The entries of the model by name."""
    parts = ("optimizer", "scheduler", "scaler", "trainer", "rng")
    return {name: values for name, values in values_of(f"{run}/last.safetensors", "").items() if name.split(".")[0] not in parts}


def test_adapters_and_the_head_are_trained_and_saved(folder):
    expect(train("a", *ONE_STEP), 0)
    expect(loud("b", "--weights", "a/last.safetensors", *ADAPTERS, "--lora-alpha", 6), 0)
    assert "adapters: layer1.0.conv1, layer1.0.conv2, layer2.0.conv1, layer2.0.conv2" in log_of("b"), log_of("b")
    before, after = weights_of("a"), weights_of("b")
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"fc.weight", "fc.bias"}, changed
    adapters = {name: values for name, values in after.items() if name not in before}
    assert len(adapters) == 8 and all(any(values) for values in adapters.values()), adapters.keys()
    # What PEFT reads has the same values.
    saved = values_of("b/last-adapter/adapter_model.safetensors", "")
    prefix = "base_model.model."
    assert {name.removeprefix(prefix): values for name, values in saved.items()} == adapters | {name: after[name] for name in changed}
    config = json.loads(pathlib.Path("b/last-adapter/adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["modules_to_save"]) == (2, 6, ["fc"]), config
    assert pathlib.Path("b/best-adapter/adapter_model.safetensors").exists()
    # An evaluation merges them: the accuracy and, up to rounding, the loss of the run's.
    result = expect(lathe("eval", "--weights", "b/last.safetensors", "--run-dir", "b", "--json"), 0)
    assert "b/last.safetensors: 4 adapters of rank 2 are merged into their weights" in result.stderr, result.stderr
    seen, row = json.loads(result.stdout.splitlines()[0]), rows_of("b")[-1]
    for to in ("w.safetensors", "w.onnx"):
        expect(lathe("ckpt", "convert", "b/last.safetensors", to), 0)
        merged = json.loads(expect(lathe("eval", "--weights", to, "--run-dir", "b", "--json"), 0).stdout.splitlines()[0])
        assert abs(merged["loss"] - seen["loss"]) < 1e-4 * seen["loss"], (to, merged, seen)
    assert seen["accuracy"] == row["accuracy"] and abs(seen["loss"] - row["loss"]) < 1e-4 * row["loss"], (seen, row)


def test_interrupted_it_ends_as_if_it_was_not(folder):
    expect(train("a", *ADAPTERS), 0)
    expect(train("b", *ADAPTERS, "--stop-after", 10), 0)
    expect(train("b", "--resume", "auto"), 0)
    check_equal("b", "a")
    result = train("b", "--resume", "auto", "--lora-rank", 4, "--allow-changes")
    assert result.returncode == 2 and "does not fit --lora-rank 4 (it was made with 2), with or without" in result.stderr, result.stderr


def test_what_does_not_go_is_said(folder):
    expect_one_line(train("a", "--lora-rank", 2, "--lora-targets", "layr1"), 2, '--lora-targets: "layr1" matches no module; did you mean layer1')
    expect_one_line(train("a", "--lora-rank", 2, "--lora-targets", "fc"), 2, '--lora-targets: "fc" matches "fc", which LoraOptions::trained names; it trains in full, without an adapter')
    result = expect(loud("a", *ONE_STEP, "--lora-targets", "layer1", "--lora-alpha", 2), 0)
    for flag in ("--lora-targets", "--lora-alpha"):
        assert f"{flag} has no effect with --lora-rank 0" in result.stderr, result.stderr
    result = expect(loud("b", *ONE_STEP, "--lora-rank", 1, "--freeze", "conv1"), 0)
    assert "--freeze has no effect with --lora-rank 1, only with 0; adapters freeze all but themselves" in result.stderr, result.stderr
    pathlib.Path("c").mkdir()
    pathlib.Path("c/last-adapter").write_text("a file where a folder must be")
    expect_one_line(train("c", *ADAPTERS, "--max-steps", 2), 1, "last-adapter")


main(globals())
