#!/usr/bin/env python3
"""onnx's own tests of its operators: how many lathe passes, and why not the others.

    onnx_nodes_test.py ONNX_RUN [--all]

The tests are those that the onnx package makes, with a model, inputs and outputs each. Shapes, axes and the like are inputs there;
in files of models they are constants. A test that is refused for that is tried again with its short integer inputs as constants. A test whose operators lathe does not
import at all is only counted; with --all it is listed, too. A test of imported operators must pass, or be refused with a reason
when the file is read: a wrong number is a failure. Skipped where onnx or NumPy is not installed.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnx.numpy_helper
    from onnx.backend.test.loader import load_model_tests
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

DTYPES = {numpy.dtype(t) for t in ("bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")}
# What differs from onnx's numbers although the file is read, and why.
OTHERWISE = {}


def array(value):
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    return numpy.asarray(value)


def cases():
    """name -> (model, inputs, outputs)"""
    for case in load_model_tests(kind="node"):
        if case.model is None or not case.data_sets:
            continue
        inputs, outputs = case.data_sets[0]
        yield case.name, case.model, inputs, outputs


def with_constants(model, inputs):
    """The model and its inputs, where integers of at most one dimension, after the first input, are tensors of the file."""
    model, left = onnx.ModelProto.FromString(model.SerializeToString()), []
    infos = list(model.graph.input)
    del model.graph.input[:]
    for i, (info, x) in enumerate(zip(infos, inputs)):
        if i > 0 and x.dtype.kind in "biu" and x.ndim <= 1:
            model.graph.initializer.append(onnx.numpy_helper.from_array(x, info.name))
        else:
            model.graph.input.append(info)
            left.append(x)
    return model, left


def why_not(name, outputs, folder):
    """'' if the test passes; 'wrong: …' if a number differs; else why lathe refuses it."""
    error = folder / f"{name}.error"
    if error.exists():
        return re.sub(r"^\S+\.onnx: ", "", error.read_text()).strip()
    for i, want in enumerate(outputs):
        got = numpy.load(folder / f"{name}.out{i}.npy")
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"wrong: {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
        try:
            numpy.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-7)  # onnx's own bounds
        except AssertionError as difference:
            return "wrong: " + " ".join(str(difference).split())[:120]
    return ""


def run(wanted, folder):
    """name -> why_not()"""
    for name, (model, inputs, _) in wanted.items():
        (folder / f"{name}.error").unlink(missing_ok=True)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        for i, x in enumerate(inputs):
            numpy.save(folder / f"{name}.in{i}.npy", x)
    (folder / "list").write_text("\n".join(wanted) + "\n")
    subprocess.run([sys.argv[1], folder], check=True)
    return {name: why_not(name, outputs, folder) for name, (_, _, outputs) in wanted.items()}


def main():
    wanted, other = {}, collections.Counter()
    with tempfile.TemporaryDirectory() as at:
        folder = pathlib.Path(at)
        for name, model, inputs, outputs in cases():
            try:
                inputs, outputs = [array(x) for x in inputs], [array(y) for y in outputs]
            except (TypeError, ValueError):
                other["values that are no tensors"] += 1
                continue
            if any(x.dtype not in DTYPES for x in inputs + outputs):
                other["dtypes that lathe lacks"] += 1
                continue
            wanted[name] = model, inputs, outputs
        reasons = run(wanted, folder)
        again = [name for name, why in reasons.items() if "must not depend on the values" in why]
        reasons |= run({name: (*with_constants(*wanted[name][:2]), wanted[name][2]) for name in again}, folder)
    passed = [name for name, why in reasons.items() if not why]
    failed = {name: why for name, why in reasons.items() if why.startswith("wrong") and name not in OTHERWISE}
    for name, why in sorted(reasons.items()):
        if "this operator has no counterpart" in why or 'operators of "' in why:
            other["operators that lathe does not import"] += 1
            if "--all" not in sys.argv:
                continue
        if why:
            print(f"{name}: {OTHERWISE.get(name, why)}")
    print(f"onnx {onnx.__version__}: {len(passed)} passed; not counted below: {dict(other)}")
    print(f"{len(passed)} passed, {len(failed)} failed, 0 skipped")
    sys.exit(1 if failed or len(passed) < 100 else 0)


if __name__ == "__main__":
    main()
