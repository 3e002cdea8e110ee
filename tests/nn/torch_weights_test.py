#!/usr/bin/env python3
"""Weights that torch.save wrote, loaded by lathe into the same network: the logits must be PyTorch's.

    torch_weights_test.py RESNET_LOGITS

Skipped where PyTorch or NumPy is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

from golden_logits import fill, images, make  # noqa: E402


class Refused:
    """What no state dict holds."""


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        numpy.save(folder / "x.npy", images(torch.float32).numpy())

        def run(name, value, **options):
            torch.save(value, folder / "w.pth", **options)
            return subprocess.run([program, name, folder / "w.pth", folder / "x.npy", folder / "y.npy"],
                                  capture_output=True, text=True)

        for name in ["resnet18", "resnet34"]:
            net = make(name).eval()
            fill(net)
            state = net.state_dict()
            with torch.no_grad():
                want = net(images(torch.float32)).numpy()
            old = {key: value for key, value in state.items() if "num_batches" not in key}
            for value in [state, {"epoch": 3, "state_dict": state}, old]:
                done = run(name, value)
                assert done.returncode == 0, done.stderr
                worst = numpy.abs(numpy.load(folder / "y.npy") - want).max()
                assert worst <= 1e-4 * (numpy.abs(want).max() + 1), worst

        done = run("resnet18", state)
        assert done.returncode == 1 and "unexpected" in done.stderr, done
        done = run("resnet18", {"model": Refused()})
        assert done.returncode == 1 and "Refused" in done.stderr, done
        done = run("resnet18", state, _use_new_zipfile_serialization=False)
        assert done.returncode == 1 and "before 1.6" in done.stderr, done
    print(f"PyTorch {torch.__version__}: ResNet-18 and 34 give its logits")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
