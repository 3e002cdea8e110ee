#!/usr/bin/env python3
"""What lathe exports must pass onnx's checker, and onnxruntime must compute what lathe does.

    onnx_python_test.py ONNX_EXPORT

Skipped where onnx, onnxruntime or NumPy is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

MODELS = ["layers", "text", "resnet20", "resnet18-cifar", "resnet18", "resnet34", "resnet50", "mobilenet_v2", "efficientnet_b0", "nested",
          "small_vit", "convnext_tiny", "ops"]


def check(program, name, folder):
    subprocess.run([program, name, folder], check=True)
    path = str(folder / f"{name}.onnx")
    onnx.checker.check_model(path, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True, data_prop=True)
    assert len(inferred.graph.value_info) > 0
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {x.name: numpy.load(folder / f"{name}.in{i}.npy") for i, x in enumerate(session.get_inputs())}
    wants = [numpy.load(folder / f"{name}.out{i}.npy") for i in range(len(session.get_outputs()))]
    worst = 0
    for batch in ([None] if name == "ops" else [slice(0, 2), slice(0, 1)]):  # the batch is dynamic
        results = session.run(None, inputs if batch is None else {key: x[batch] for key, x in inputs.items()})
        for i, (got, want) in enumerate(zip(results, wants, strict=True)):
            want = want if batch is None else want[batch]
            assert got.dtype == want.dtype and got.shape == want.shape, (i, got.dtype, got.shape, want.dtype, want.shape)
            got, want = got.astype("f8"), want.astype("f8")
            difference = numpy.abs(got - want).max() / (numpy.abs(want).max() + 1)
            assert difference <= 1e-5, (name, i, difference)  # f32 convolutions, up to 50 deep
            worst = max(worst, difference)
    print(f"{name}: worst difference {worst:.1e}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            check(sys.argv[1], name, pathlib.Path(folder))
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
