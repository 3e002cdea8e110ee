#!/usr/bin/env python3
"""Weights that torch.save wrote, loaded by lathe into the same network: the logits must be PyTorch's.

    torch_weights_test.py MODEL_LOGITS

Skipped where PyTorch or NumPy is not installed. Where torchvision is, too, all its models that nn/models.h has are compared,
with random weights of a seed, and what lathe gives them initially with what torchvision does.
"""
import math
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


try:
    import golden_models
except ImportError:
    golden_models = None


class Refused:
    """What no state dict holds."""


def randomize(net):
    """Norms and biases that change something, beside torchvision's initial weights."""
    torch.manual_seed(1)
    for name, value in net.state_dict().items():
        if value.dim() == 1 or name.startswith("heads."):
            value.uniform_(0.5, 1.5) if name.endswith(("weight", "running_var")) and value.dim() == 1 else value.normal_(std=0.1)


def compare_models(run, folder):
    """Logits of every model, with each one's weights as .pth; the images are as small as all of them take."""
    x = golden_models.images(torch.float32, side=64)
    numpy.save(folder / "x.npy", x.numpy())
    for name in golden_models.NAMES:
        net = golden_models.make(name, **({"image_size": 64} if name.startswith("vit") else {})).eval()
        with torch.no_grad():
            randomize(net)
            want = net(x).numpy()
        done = run(name, net.state_dict())
        assert done.returncode == 0, done.stderr
        worst = numpy.abs(numpy.load(folder / "y.npy") - want).max() / numpy.abs(want).max()
        print(f"{name}: largest difference {worst:.1e} of the largest logit")
        assert worst <= 1e-5, (name, worst)


def compare_initial_values(program, folder):
    """Of every entry: the same constant, or the same mean and deviation within eight standard errors."""
    for name in ["resnet50", "vgg11_bn", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "vit_s_16"]:
        subprocess.run([program, name, folder / "initial.npz"], check=True)
        ours = numpy.load(folder / "initial.npz")
        theirs = golden_models.make(name).state_dict()
        assert sorted(ours.files) == sorted(theirs), name
        for key, value in theirs.items():
            a, b = ours[key].astype("float64"), value.double().numpy()
            if a.ndim == 0 or b.std() == 0:
                assert numpy.array_equal(a, b), (name, key)
                continue
            error = 8 * b.std() * math.sqrt(2 / b.size)
            assert abs(a.mean() - b.mean()) <= error and abs(a.std() - b.std()) <= error, (name, key, a.std(), b.std())


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
        if golden_models is not None:
            compare_models(run, folder)
            compare_initial_values(program, folder)
    print(f"PyTorch {torch.__version__}: ResNet-18 and 34 give its logits")
    if golden_models is None:
        print("skipped: torchvision is not installed")
    print(f"1 passed, 0 failed, {0 if golden_models else 1} skipped")


if __name__ == "__main__":
    main()
