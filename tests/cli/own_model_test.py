#!/usr/bin/env python3
"""A program with a model of its own has the commands of `lathe` (trainer.h, examples/own_model.cpp).

    own_model_test.py OWN_MODEL [--sanitized]
"""
import json
import shutil
import subprocess

from driver import Skip, expect, expect_one_line, lathe, main
from runs import rows_of

RUN = ["train", "--dataset", "synthetic", "--synthetic-size", 60, "--model", "patch_mixer", "--batch-size", 10, "--max-steps", 12,
       "--quiet", "--run-dir"]


def test_an_own_model_trains_stops_resumes_and_is_evaluated(folder):
    expect(lathe(*RUN, "a"), 0)
    expect(lathe(*RUN, "b", "--stop-after", 5), 0)
    expect(lathe("train", "--resume", "b", "--quiet"), 0)
    assert (folder / "a/last.safetensors").read_bytes() == (folder / "b/last.safetensors").read_bytes()
    assert rows_of("a", "val")[-1]["accuracy"] == rows_of("b", "val")[-1]["accuracy"]
    expect(lathe("eval", "--run-dir", "b"), 0)
    expect(lathe("ckpt", "verify-resume", "--model", "patch_mixer", "--dataset", "synthetic", "--synthetic-size", 20,
                 "--batch-size", 5, "--steps", 4), 0)


def test_the_doctor_looks_at_an_own_model(folder):
    job = ["doctor", "--dataset", "synthetic", "--synthetic-size", 60, "--model", "patch_mixer", "--batch-size", 10, "--steps", 3, "--device", "cpu"]
    rows = [json.loads(line) for line in expect(lathe(*job, "--detect-anomaly", "--json"), 7).stdout.splitlines()]
    assert rows[0]["event"] == "steps" and rows[0]["steps"] == 3, rows
    assert [row["where"] for row in rows if row.get("check") == "debug scopes"] == ["--detect-anomaly"], rows


def test_an_own_model_is_a_name_like_the_others(folder):
    assert "PatchMixer" in expect(lathe("summary", "--model", "patch_mixer"), 0).stdout
    assert "vit_b_16, patch_mixer" in " ".join(expect(lathe("train", "--help"), 0).stdout.split())
    expect_one_line(lathe("summary", "--model", "patch_mixr"), 2, "did you mean patch_mixer?")
    expect_one_line(lathe("summary", "--model", "patch_mixer", "--image-size", 3), 2, "--model patch_mixer needs images of 4 x 4")


def test_a_shell_completes_the_program_with_its_models(folder):
    script = expect(lathe("completion", "bash"), 0).stdout
    if not shutil.which("bash"):
        raise Skip("bash is not installed")
    asked = 'COMP_WORDS=(own_model train --model patch); COMP_CWORD=3; _own_model; echo "${COMPREPLY[@]}"; complete -p own_model'
    shown = expect(subprocess.run(["bash", "-c", script + asked], capture_output=True, text=True), 0).stdout
    assert shown == "patch_mixer\ncomplete -o filenames -F _own_model own_model\n", shown
    for shell in ("zsh", "fish"):
        text = expect(lathe("completion", shell), 0).stdout
        assert "own_model" in text and "_lathe" not in text and "-c lathe " not in text and "lathe completion" not in text, text[:300]


main(globals())
