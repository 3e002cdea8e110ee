#!/usr/bin/env python3
"""Checks the arrows between the folders: an include may only point left (docs/design.md, section 1).

    check_includes.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# folder: the folders it may include, apart from itself
MAY_INCLUDE = {
    "core": set(),
    "autograd": {"core"},
    "ops": {"core", "autograd"},
    "nn": {"core", "autograd", "ops"},
    "optim": {"core", "autograd", "ops", "nn"},
    "data": {"core", "autograd", "ops"},
    "tools": {"core", "autograd", "ops", "nn", "optim", "data"},
}
# The one arrow into the tests: without nvcc, kernels start through the emulation (docs/design.md, section 2).
EXCEPTIONS = {("core/launch.h", "lathe/tests/emulation/cuda_emulation.h"),
              ("core/launch.h", "lathe/tests/emulation/cuda_runtime_emulation.h")}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
SOURCES = {".h", ".cpp", ".cu", ".cuh"}


def fault(folder, quote, include):
    """Says what is wrong with this include in a file of `folder`; None if nothing is."""
    parts = include.split("/")
    if parts[0] != "lathe":
        return f'write "lathe/...", not "{include}"' if quote == '"' else None
    if len(parts) == 2:
        return f'"{include}" is for users; include the headers that are needed' if folder != "tools" else None
    if parts[1] not in MAY_INCLUDE:
        return f'"{include}": {parts[1]}/ is not a folder of the library'
    if parts[1] != folder and parts[1] not in MAY_INCLUDE[folder]:
        return f'"{include}" points right: {folder}/ must not know {parts[1]}/'
    return None


def faults_in(root, path, folder):
    name = path.relative_to(root).as_posix()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        text = match and (name, match[2]) not in EXCEPTIONS and fault(folder, *match.groups())
        if text:
            yield f"{name}:{number}: {text}"


def self_test():
    """The checker must see each kind of fault."""
    assert fault("core", '"', "lathe/ops/conv2d.h")
    assert fault("ops", '"', "lathe/nn/module.h")
    assert fault("data", "<", "lathe/optim/sgd.h")
    assert fault("ops", '"', "conv2d.h")
    assert fault("ops", '"', "lathe/lathe.h")
    assert fault("ops", '"', "lathe/tests/emulation.h")
    assert not fault("nn", '"', "lathe/nn/module.h")
    assert not fault("tools", "<", "lathe/optim/sgd.h")
    assert not fault("core", "<", "vector")


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    found, files = [], 0
    for folder in MAY_INCLUDE:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCES:
                files += 1
                found += faults_in(root, path, folder)
    print("\n".join(found))
    assert files > 0, f"no sources under {root}"
    print(f"{0 if found else 1} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
