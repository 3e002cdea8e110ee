#!/usr/bin/env python3
"""Exchanges .npy and .npz files with NumPy: what it writes we read, what we write it reads.

    npz_python_test.py NPZ_COPY WITH_ZLIB(0|1)

Skipped where NumPy is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

DTYPES = ["?", "u1", "i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8", ">i2", ">i4", ">i8", ">f2", ">f4", ">f8"]


def sample():
    rng = np.random.default_rng(1)
    arrays = {}
    for dtype in DTYPES:
        for shape in [(), (1,), (0, 3), (2, 3, 5)]:
            values = np.asarray(rng.standard_normal(shape) * 50).astype(dtype)
            arrays[f"{dtype}.{shape}"] = values
            arrays[f"layer/{dtype}.{shape}.F"] = np.asfortranarray(values)
    return arrays


def check_same(got, want, name):
    native = want.dtype.newbyteorder("=")
    assert got.dtype == native and got.shape == want.shape, (name, got.dtype, got.shape)
    assert got.tobytes() == want.astype(native).tobytes(), name


def check_archive(path, arrays):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [name + ".npy" for name in arrays]
    with np.load(path) as archive:
        for name, want in arrays.items():
            check_same(archive[name], want, name)


def main():
    copy, with_zlib = sys.argv[1], sys.argv[2] == "1"

    def run(*paths):
        return subprocess.run([copy, *paths], capture_output=True, text=True)

    arrays = sample()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        theirs, deflated = folder / "theirs.npz", folder / "deflated.npz"
        np.savez(theirs, **arrays)
        np.savez_compressed(deflated, **arrays)
        for source in [theirs] + [deflated] * with_zlib:
            for target in ["ours.npz"] + ["ours.deflated.npz"] * with_zlib:
                done = run(source, folder / target)
                assert done.returncode == 0, done.stderr
                check_archive(folder / target, arrays)
        if not with_zlib:
            done = run(deflated, folder / "ours.npz")
            assert done.returncode == 1 and "no zlib" in done.stderr, done

        # Single files: the versions of the format, and Fortran order both ways.
        want = np.asfortranarray(np.arange(12, dtype=">i4").reshape(3, 4))
        for version in [(1, 0), (2, 0), (3, 0)]:
            with open(folder / "a.npy", "wb") as file:
                np.lib.format.write_array(file, want, version=version)
            done = run(folder / "a.npy", folder / "b.npy")
            assert done.returncode == 0, done.stderr
            got = np.load(folder / "b.npy")
            check_same(got, want, version)
            assert got.flags.f_contiguous

        # Objects would need a pickle: never.
        np.save(folder / "objects.npy", np.array([{}, None]), allow_pickle=True)
        done = run(folder / "objects.npy", folder / "c.npy")
        assert done.returncode == 1 and "Python objects" in done.stderr, done
    print(f"numpy {np.__version__}: {len(arrays)} arrays exchanged")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
