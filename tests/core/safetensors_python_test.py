#!/usr/bin/env python3
"""Exchanges files with the Python safetensors package: what it writes we read, what we write it reads.

    safetensors_python_test.py SAFETENSORS_COPY

Skipped where the package (or NumPy) is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import safetensors
    import safetensors.numpy
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def sample():
    rng = np.random.default_rng(1)
    tensors = {}
    for dtype in DTYPES:
        for shape in [(), (1,), (0, 3), (2, 3, 5)]:
            values = np.asarray(rng.standard_normal(shape) * 50)
            tensors[f"{dtype}.{len(shape)}.{shape}"] = values.astype(dtype)
    return tensors


def main():
    copy = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = pathlib.Path(folder) / "theirs.safetensors", pathlib.Path(folder) / "ours.safetensors"
        tensors = sample()
        safetensors.numpy.save_file(tensors, theirs, metadata={"format": "np", "note": "ä \"quoted\""})
        subprocess.run([copy, theirs, ours], check=True)
        with safetensors.safe_open(ours, framework="np") as file:
            metadata = file.metadata()
            back = {name: file.get_tensor(name) for name in file.keys()}
        assert back.keys() == tensors.keys()
        for name, want in tensors.items():
            got = back[name]
            assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes(), name
        assert len(metadata.pop("lathe.crc32c")) == 8
        assert metadata == {"format": "np", "note": "ä \"quoted\""}, metadata

        # Rewritten by Python with our metadata kept, the checksum no longer fits: a clear error, no wrong numbers.
        tensors["float32.1.(1,)"] += 1
        safetensors.numpy.save_file(tensors, theirs, metadata={"lathe.crc32c": "00000000"})
        done = subprocess.run([copy, theirs, ours], capture_output=True, text=True)
        assert done.returncode == 1 and "checksum" in done.stderr, done
    print(f"safetensors {safetensors.__version__}: {len(tensors)} tensors exchanged")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
