#!/usr/bin/env python3
"""Checks that every kernel of the tree runs in the emulation: some case of a test program launches each __global__ function.
And that each declares its shared memory by LATHE_SHARED, so that the emulation knows of it.

    check_kernels.py SOURCE_ROOT PROGRAM LAUNCHED

LAUNCHED is what the program wrote when it ran, all of its cases, with LATHE_LAUNCHED_KERNELS=LAUNCHED: the addresses of
the kernels. Their names are looked up with nm. A kernel counts as run if one of its instances did.
"""
import pathlib
import re
import subprocess
import sys

from tree_files import paths_below

GLOBAL = re.compile(r"__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(")

FOLDERS, SUFFIXES = ("core", "ops", "optim", "data"), {".cu", ".cuh", ".h"}


def kernels_of(root):
    """Name → file, of all kernels in the product's folders."""
    names = {}
    for path in paths_below(root, FOLDERS, SUFFIXES):
        code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))  # without the examples of a contract
        for name in GLOBAL.findall(code):
            names[name] = path.relative_to(root)
    return names


def own_shared(root):
    """file:line of each __shared__ but that of LATHE_SHARED itself."""
    return [f"{path.relative_to(root)}:{number}"
            for path in paths_below(root, (*FOLDERS, "examples"), SUFFIXES) if path.name != "launch.h"
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if "__shared__" in line]


def launched_by(program, log):
    addresses = {int(line, 16) for line in log.read_text().split()}
    names = set()
    base = 0
    symbols = subprocess.run(["nm", "-C", program], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in symbols:
        address, _, name = line.partition(" ")
        if name[2:] == "__executable_start":
            base = int(address, 16)
    for line in symbols:
        address, _, name = line.partition(" ")
        if address and int(address, 16) - base in addresses:
            names.update(re.findall(r"(\w+)(?:<|\()", name[2:]))
    return names


def main():
    kernels = kernels_of(pathlib.Path(sys.argv[1]))
    assert kernels, "no kernels found"
    program, log = map(pathlib.Path, sys.argv[2:])
    launched = launched_by(program, log)
    missing = {name: path for name, path in kernels.items() if name not in launched}
    for name, path in missing.items():
        print(f"{path}: {name} is launched by no case of {program.name}")
    outside = own_shared(pathlib.Path(sys.argv[1]))
    for place in outside:
        print(f"{place}: __shared__ instead of LATHE_SHARED(type, name)")
    print(f"{len(kernels) - len(missing)} passed, {len(missing) + len(outside)} failed, 0 skipped")
    return 1 if missing or outside else 0


if __name__ == "__main__":
    sys.exit(main())
