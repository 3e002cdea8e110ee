#!/usr/bin/env python3
"""tools/cuda_from_wheels.py over folders laid out as NVIDIA's wheels lay theirs.

    cuda_from_wheels_test.py SCRIPT
"""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = sys.argv[1]
VERSIONS = {"nvidia-cuda-nvcc": "13.0.88", "nvidia-cuda-crt": "13.0.85", "nvidia-nvvm": "13.0.88", "nvidia-cuda-runtime": "13.0.96",
            "nvidia-cublas": "13.1.0.3", "nvidia-curand": "10.4.0.35", "nvidia-cudnn-cu13": "9.19.0.56"}
FILES = ["cu13/bin/nvcc", "cu13/bin/ptxas", "cu13/bin/crt/link.stub", "cu13/include/cuda_runtime.h", "cu13/include/crt/host_defines.h",
         "cu13/lib/libcudart_static.a", "cu13/lib/libcublas.so.13", "cu13/nvvm/bin/cicc", "cudnn/include/cudnn.h",
         "cudnn/lib/libcudnn.so.9", "cudnn/lib/__init__.py"]


def make_site(folder, **versions):
    """A site-packages folder; underscores in the names of packages stand for dashes, None for an absent one."""
    site = folder / "site-packages"
    for name in FILES:
        path = site / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    for name, version in {**VERSIONS, **{key.replace("_", "-"): value for key, value in versions.items()}}.items():
        if version is not None:
            info = site / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return site


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], text=True, capture_output=True)


def test_the_prefix_looks_like_a_toolkit(folder):
    prefix = folder / "toolkit"
    site = make_site(folder)
    for _ in range(2):  # the second time over the first one's result
        result = run(prefix, site)
        assert result.returncode == 0 and f"-DCMAKE_CUDA_COMPILER={prefix}/bin/nvcc" in result.stdout, result
    for name in ("bin/ptxas", "bin/crt/link.stub", "include/crt/host_defines.h", "nvvm/bin/cicc", "lib64/libcudart_static.a"):
        assert (prefix / name).read_text() == f"cu13/{name.replace('lib64', 'lib')}", name
    assert (prefix / "bin/nvcc").exists() and not (prefix / "bin/nvcc").is_symlink()
    assert not (prefix / "bin").is_symlink()
    for name in ("lib/libcublas.so", "lib/libcudnn.so", "include/cudnn.h"):
        assert (prefix / name).exists(), name
    assert not (prefix / "lib/__init__.py").exists()


def test_parts_of_different_releases_are_refused(folder):
    result = run(folder / "toolkit", make_site(folder, nvidia_nvvm="13.5.37"))
    assert result.returncode != 0 and 'run: pip install "nvidia-cuda-nvcc==13.0.*"' in result.stderr, result
    assert "nvidia-nvvm 13.5.37" in result.stderr and not (folder / "toolkit").exists()


def test_missing_packages_are_named(folder):
    site = make_site(folder, nvidia_curand=None, nvidia_cudnn_cu13=None)
    result = run(folder / "toolkit", site)
    assert result.returncode != 0 and f"not in {site}: nvidia-curand, nvidia-cudnn-cu13" in result.stderr, result


def test_a_folder_of_somebody_else_is_left_alone(folder):
    (folder / "toolkit").mkdir()
    (folder / "toolkit/file").touch()
    result = run(folder / "toolkit", make_site(folder))
    assert result.returncode != 0 and "exists and was not made here" in result.stderr, result
    assert (folder / "toolkit/file").exists()


def main():
    failed = 0
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(pathlib.Path(folder).resolve())
            except AssertionError as error:
                failed += 1
                print(f"FAILED {test.__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
