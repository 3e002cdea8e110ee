#!/usr/bin/env python3
"""The scopes that find faults: --detect-anomaly, --sync and --check-determinism.

    debug_test.py LATHE [--sanitized]
"""
import json
import pathlib

from driver import expect, expect_one_line, lathe, main
from short_run import TINY, log_of, rows_of, train

STEP = ["bench", "step", "--model", "resnet8", "--batch-size", 2, "--image-size", 16, "--check-determinism", "--device", "cpu"]


def test_detect_anomaly_names_the_op_and_the_layer(folder):
    message = expect(train("a", "--lr", "1e30", "--detect-anomaly", "--device", "cpu"), 6).stderr
    assert "CifarResNet." in message and "anomaly: " in message and " of its result f32[8," in message, message
    assert pathlib.Path("a/last.safetensors").exists()
    expect(lathe("eval", "--run-dir", "a"), 0)  # what was saved is sound


def test_an_overflow_that_the_loss_scale_makes_is_none(folder):
    """Gradients overflow in the first steps, which are skipped."""
    run = ["--amp", "fp16", "--accumulate", 2, "--device", "cpu", "--init-scale", 1 << 20]
    expect(train("plain", *run), 0)
    assert rows_of("plain")[-1]["skipped_steps"] > 0, rows_of("plain")
    expect(train("watched", *run, "--detect-anomaly"), 0)
    assert rows_of("watched") == rows_of("plain")


def test_an_anomaly_leaves_the_lines_of_the_epochs_before(folder):
    """The learning rate is far too high from the second epoch on."""
    run = ["--scheduler", "multistep", "--milestones", "1", "--gamma", "1e30", "--device", "cpu"]
    result = lathe("train", *(flag for flag in TINY if flag != "--quiet"), *run, "--run-dir", "a", "--detect-anomaly")
    expect(result, 6, "anomaly: ", "a/last.safetensors holds the weights of step ")
    assert "epoch 1/3" in log_of("a") + result.stdout, result.stdout


def test_a_sound_run_has_the_same_bits(folder):
    expect(train("plain", "--device", "cpu"), 0)
    expect(train("watched", "--detect-anomaly", "--sync", "error", "--device", "cpu"), 0)
    assert rows_of("watched") == rows_of("plain")
    expect(lathe("ckpt", "diff", "plain/last.safetensors", "watched/last.safetensors"), 0)
    config = pathlib.Path("watched/config.toml").read_text()  # --config must not watch again
    assert "\ndetect-anomaly = false\n" in config and '\nsync = "off"\n' in config, config


def test_sync_says_that_a_cpu_has_nothing_to_wait_for(folder):
    expect(train("a", "--sync", "warn", "--device", "cpu", "--max-steps", 2), 0)
    assert "--sync has no effect on a CPU: there is no device to wait for" in log_of("a"), log_of("a")
    expect_one_line(train("b", "--sync", "loud"), 2, "--sync")


def test_check_determinism_compares_two_steps(folder):
    text = expect(lathe(*STEP), 0).stdout
    assert "results of ops and gradients are equal in both runs" in text, text
    row = json.loads(expect(lathe(*STEP, "--json"), 0).stdout)
    assert row["equal"] and row["results"] > 50, row


main(globals())
