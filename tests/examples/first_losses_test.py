#!/usr/bin/env python3
"""The losses of an example program's first ten steps are PyTorch's within 1e-5, from the same weights (make_golden_losses.py);
losses above 1 within 1e-5 of themselves.

    first_losses_test.py NAME PROGRAM [ARGUMENT...]

The program runs with these arguments and a file of weights, and prints "step N  loss X".
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import example_weights


def losses_of(command, shapes):
    """The losses that the program prints of its first ten steps."""
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder) / "weights.safetensors"
        example_weights.save(weights, shapes)
        done = subprocess.run([*command, weights], capture_output=True, text=True, timeout=100, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"\bstep (\d+)  loss (\S+)", done.stdout)[:10]
    assert [int(step) for step, _ in found] == list(range(1, 11)), done.stdout
    return [float(loss) for _, loss in found]


def test_first_ten_losses_are_pytorchs(name, command):
    golden = json.loads(pathlib.Path(__file__).with_name("golden_losses.json").read_text())[name]
    found, want = losses_of(command, golden["weights"]), golden["losses"]
    off = [abs(a - b) / max(1, abs(b)) for a, b in zip(found, want)]
    print(f"{name}: ten losses, from {want[0]:.4f} to {want[-1]:.4f}, differ by at most {max(off):.1e}")
    assert all(one <= 1e-5 for one in off), (found, want)  # false for NaN


test_first_ten_losses_are_pytorchs(sys.argv[1], sys.argv[2:])
print("1 passed, 0 failed, 0 skipped")
