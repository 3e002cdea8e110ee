#!/usr/bin/env python3
"""Makes a CUDA toolkit out of NVIDIA's wheels, for machines where only pip can install.

    pip install "nvidia-cuda-nvcc==13.0.*" "nvidia-cuda-crt==13.0.*" "nvidia-nvvm==13.0.*" "nvidia-cuda-runtime==13.0.*" \\
        nvidia-cublas nvidia-curand nvidia-cudnn-cu13
    tools/cuda_from_wheels.py PREFIX [SITE_PACKAGES]
    cmake --preset release -DCMAKE_CUDA_COMPILER=PREFIX/bin/nvcc -DCUDAToolkit_ROOT=PREFIX

SITE_PACKAGES is where the wheels are; default: those of the Python that runs this. PREFIX is made anew. It holds links
into the wheels, which therefore must stay. What the wheels lack is added: libX.so for every libX.so.N, lib64, and one
folder for the toolkit and cuDNN together.
"""
import argparse
import importlib.metadata
import pathlib
import re
import shutil
import sys
import sysconfig

COMPILER = ["nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime"]  # of one release, or nvcc fails
LIBRARIES = ["nvidia-cublas", "nvidia-curand", "nvidia-cudnn-cu13"]
MARKER = "made-by-cuda_from_wheels"


def fail(message):
    sys.exit(f"cuda_from_wheels: {message}")


def versions(site):
    """Version of every installed NVIDIA package, by its name with dashes."""
    found = {}
    for distribution in importlib.metadata.distributions(path=[str(site)]):
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        if name.startswith("nvidia-"):
            found[name] = distribution.version
    return found


def check(found, site):
    """Stops where a package is missing, or where the parts of the compiler are of different releases."""
    missing = [name for name in COMPILER + LIBRARIES if name not in found]
    if missing:
        fail(f"not in {site}: {', '.join(missing)}")
    releases = {name: ".".join(found[name].split(".")[:2]) for name in COMPILER}
    wanted = releases["nvidia-cuda-nvcc"]
    if set(releases.values()) != {wanted}:
        others = ", ".join(f"{name} {found[name]}" for name in COMPILER)
        fail(f"parts of different releases do not work together ({others}); run: pip install "
             + " ".join(f'"{name}=={wanted}.*"' for name in COMPILER))


def link_tree(source, target):
    """Links every file below source into target; folders are real, so that several wheels can share one."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.suffix != ".pyc" and path.name != "__init__.py" and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path.resolve())


def make_prefix(prefix, site):
    toolkit = next((path for path in sorted(site.glob("nvidia/cu[0-9]*"), reverse=True) if (path / "bin/nvcc").exists()), None)
    if toolkit is None:
        fail(f"no nvidia/cu*/bin/nvcc in {site}: is that CUDA 13 or newer?")
    if prefix.exists():
        if any(prefix.iterdir()) and not (prefix / MARKER).exists():
            fail(f"{prefix} exists and was not made here")
        shutil.rmtree(prefix)
    for folder in ("bin", "include", "lib", "nvvm"):
        link_tree(toolkit / folder, prefix / folder)
    for folder in ("include", "lib"):
        link_tree(site / "nvidia/cudnn" / folder, prefix / folder)
    # nvcc looks for its toolkit beside the file that it is, CMake beside the one that a link points to: so it is a copy.
    (prefix / "bin/nvcc").unlink()
    shutil.copy2(toolkit / "bin/nvcc", prefix / "bin/nvcc")
    for library in sorted((prefix / "lib").glob("lib*.so.*")):
        plain = prefix / "lib" / (library.name.split(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)
    (prefix / "lib64").symlink_to("lib")
    (prefix / MARKER).touch()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("site", nargs="?", type=pathlib.Path, default=pathlib.Path(sysconfig.get_path("purelib")))
    options = parser.parse_args()
    prefix, site = options.prefix.absolute(), options.site.absolute()
    found = versions(site)
    check(found, site)
    make_prefix(prefix, site)
    print(f"{prefix}: " + ", ".join(f"{name.removeprefix('nvidia-')} {found[name]}" for name in COMPILER + LIBRARIES))
    print(f"cmake --preset release -DCMAKE_CUDA_COMPILER={prefix}/bin/nvcc -DCUDAToolkit_ROOT={prefix}")


if __name__ == "__main__":
    main()
