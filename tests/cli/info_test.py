#!/usr/bin/env python3
"""`lathe info`: the machine, and NVIDIA's libraries, which are opened when they are needed.

    info_test.py LATHE [--sanitized] [--other-cudnn=FILE]
"""
import json
import os
import pathlib
import re
import subprocess

from driver import LATHE, OTHER_CUDNN, Skip, environment, expect, lathe, main
from runs import info_rows


def test_info(folder):
    rows = info_rows()
    assert rows[0]["usable_cpus"] >= 1 and rows[0]["lathe"]
    assert rows[1:] == [] or rows[0]["cuda"] == "on", "GPUs and their libraries only where the backend is"
    assert "dtypes" in lathe("info").stdout


def test_info_names_the_libraries_of_a_cuda_build(folder):
    rows = [row for row in info_rows() if "library" in row]
    names = ["cuDNN", "cuBLASLt"] if info_rows()[0]["cuda"] == "on" else []
    assert [row["library"] for row in rows] == names + (["cuRAND"] if OTHER_CUDNN else []), rows
    for row in rows:
        assert row["built"] and info_rows()[0][row["library"]] == row["loaded"], row


def test_info_says_why_there_is_no_gpu(folder):
    text = expect(lathe("info", env={"CUDA_VISIBLE_DEVICES": ""}), 0).stdout
    reasons = ("this build has no CUDA backend", "no NVIDIA driver is installed", "the NVIDIA driver shows no GPU")
    assert any(f"devices        cpu ({reason}" in text for reason in reasons), text


def test_info_warns_of_a_library_of_another_version(folder):
    if not OTHER_CUDNN:
        raise Skip("this build calls no cuDNN")
    first = {"LD_LIBRARY_PATH": os.path.dirname(OTHER_CUDNN)}
    row = next(row for row in info_rows(**first) if row.get("library") == "cuDNN")
    assert row["loaded"] == "9.5.1" and row["path"] == OTHER_CUDNN, row
    assert f"cuDNN 9.5.1 is loaded ({OTHER_CUDNN}), but this build was compiled with {row['built']}" in row["problem"], row
    assert f"warning        {row['problem']}\n" in lathe("info", env=first).stdout


def test_the_command_starts_without_nvidias_libraries(folder):
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", LATHE], stdout=subprocess.PIPE, check=True, text=True).stdout)
    assert needed and not [name for name in needed if re.match("lib(cublas|cuda|cudnn|curand|nv)", name)], needed


def test_info_names_the_libraries_that_are_missing(folder):
    """In a copy of the command the libraries have names that no file has."""
    if not OTHER_CUDNN:
        raise Skip("this build calls no library of NVIDIA's; device_test.py shows it over the emulated GPU")
    program = pathlib.Path(LATHE).read_bytes()
    for name in (b"libcudnn.so.", b"libcublasLt.so.", b"libcurand.so."):
        assert name in program, name
        program = program.replace(name, name.replace(b"lib", b"bil"))
    copy = folder / "lathe"
    copy.write_bytes(program)
    copy.chmod(0o755)
    def run(*arguments):
        return expect(subprocess.run([copy, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()), 0)
    assert run("--help").stdout
    rows = [json.loads(line) for line in run("info", "--json").stdout.splitlines()]
    libraries = [row for row in rows if "library" in row]
    text = run("info").stdout
    for row, file in zip(libraries, ("bilcudnn.so.", "bilcublasLt.so.", "bilcurand.so."), strict=True):
        assert row["loaded"] == "" and row["path"] == "" and rows[0][row["library"]] == "not found", row
        assert row["problem"].startswith(f"{row['library']} cannot be loaded: {file}") and "; install lib" in row["problem"], row
        assert f"warning        {row['problem']}\n" in text, text
    # A library that nobody asked for is not looked for.
    run("train", "--dataset", "synthetic", "--synthetic-size", "8", "--model", "resnet8", "--batch-size", "4", "--image-size", "8",
        "--max-steps", "1", "--run-dir", "run")
    assert json.loads((folder / "run/env.json").read_text())["cuDNN"] == "not loaded"


main(globals())
