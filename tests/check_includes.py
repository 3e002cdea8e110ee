#!/usr/bin/env python3
"""Checks the arrows between the folders and their rooms: an include may only point to what MAY_INCLUDE allows
(docs/design.md, "Layers").

    check_includes.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from tree_files import paths_below

CORE = {"core", "core/profile"}  # what works says so to the profiler
RECORD = CORE | {"autograd"}
KERNELS = {"core/gpu"}  # how a kernel is launched and reads its arguments
CONVOLUTION = {"ops/conv", "ops/conv_search"}
OPS_ROOMS = CONVOLUTION | {"ops/batch_norm_kernels", "ops/elementwise_kernels", "ops/index_kernels", "ops/matmul_kernels",
                           "ops/random_kernels", "ops/reduce_kernels", "ops/row_kernels", "ops/window_kernels"}
OPS = RECORD | {"ops"}
TEXT = {"core/text"}  # what is written for people
LIBRARY = OPS | TEXT | {"core/debug", "core/memory", "core/formats", "nn", "graph", "optim", "data", "data/images", "data/transforms", "distributed", "train"} | CONVOLUTION

# room: the rooms that it may include, apart from itself. A folder's root is a room: "core" is what lies in core/ itself.
MAY_INCLUDE = {
    "core": {"core/profile"},
    "core/profile": {"core", "core/memory"},
    "core/debug": CORE,
    "core/memory": CORE,
    "core/gpu": CORE | {"core/memory"},
    "core/formats": CORE,
    "core/text": CORE,
    "autograd": CORE,
    "ops": RECORD | KERNELS | OPS_ROOMS,
    "ops/elementwise_kernels": OPS | KERNELS,
    "ops/index_kernels": OPS | KERNELS,
    "ops/random_kernels": OPS | KERNELS,
    "ops/reduce_kernels": OPS | KERNELS,
    "ops/row_kernels": OPS | KERNELS | {"ops/reduce_kernels"},
    "ops/window_kernels": OPS | KERNELS | {"ops/reduce_kernels"},
    "ops/batch_norm_kernels": OPS | KERNELS | {"ops/reduce_kernels"},
    "ops/conv_search": OPS,
    "ops/matmul_kernels": OPS | KERNELS,
    "ops/conv": OPS | KERNELS | {"ops/conv_search", "ops/matmul_kernels"},
    "nn": OPS | TEXT | {"core/formats"},
    "graph": OPS | KERNELS | {"nn", "core/formats", "ops/elementwise_kernels"},  # fused kernels are made of the ops' arithmetic
    "optim": OPS | {"nn", "optim/kernels"},
    "optim/kernels": OPS | KERNELS | {"optim", "ops/reduce_kernels"},
    "data": OPS | {"core/formats", "data/images", "data/transforms"},
    "data/transforms": OPS | KERNELS | {"data", "ops/reduce_kernels"},
    "data/images": OPS | {"core/formats", "data", "data/transforms"},
    # What ranks exchange are tensors, gradients, layers and parts of an epoch: so it stands on all of these. NCCL is opened as
    # the libraries of kernels are.
    "distributed": OPS | KERNELS | {"nn", "optim", "data"},
    "train": LIBRARY,  # what trains stands on all of the library
    "tools/bench": LIBRARY,
    "tools/cli": LIBRARY | {"tools/cli/settings"},
    "tools/cli/settings": LIBRARY | {"tools/cli"},
    "tools/cli/training": LIBRARY | {"tools/cli", "tools/cli/settings"},
    "tools/cli/observe": LIBRARY | {"tools/cli", "tools/cli/settings", "tools/cli/training"},
    "tools/cli/plan": LIBRARY | {"tools/cli", "tools/cli/settings", "tools/cli/training"},
    "tools/cli/launch": LIBRARY | {"tools/cli", "tools/cli/settings"},
    "tools/cli/commands": LIBRARY | {"tools/cli", "tools/cli/settings", "tools/cli/training"},
}
FOLDERS = sorted({room.partition("/")[0] for room in MAY_INCLUDE})
# The one arrow into the tests: without nvcc, kernels start through the emulation (docs/design.md, "Dispatch and kernels").
EXCEPTIONS = {("core/gpu/dependent_launch.cuh", "lathe/tests/emulation/dependent_launch.h"),
              ("core/gpu/launch.h", "lathe/tests/emulation/cuda_emulation.h"),
              ("core/gpu/launch.h", "lathe/tests/emulation/cuda_runtime_emulation.h")}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
SOURCES = {".h", ".cuh", ".cpp", ".cu"}


def fault(room, quote, include):
    """Says what is wrong with this include in a file of `room`; None if nothing is."""
    if not include.startswith("lathe/"):
        return f'write "lathe/...", not "{include}"' if quote == '"' else None
    target = include.removeprefix("lathe/").rpartition("/")[0]
    if not target:
        return None if room.startswith("tools") else f'"{include}" is for users; include the headers that are needed'
    if target not in MAY_INCLUDE:
        return f'"{include}": {target}/ is not a room of the library'
    if target != room and target not in MAY_INCLUDE[room]:
        return f'"{include}" points right: {room}/ must not know {target}/'
    return None


def faults_in(root, path):
    name = path.relative_to(root)
    room = name.parent.as_posix()
    if room not in MAY_INCLUDE:
        yield f"{name}: {room}/ is not a room of the library; MAY_INCLUDE in check_includes.py lists them"
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        text = fault(room, *match.groups()) if (name.as_posix(), match[2]) not in EXCEPTIONS else None
        if not text and match[2].startswith("lathe/") and not (root / match[2].removeprefix("lathe/")).exists():
            text = f'"{match[2]}" does not exist'
        if text:
            yield f"{name}:{number}: {text}"


def self_test():
    """The checker must see each kind of fault, and an arrow into each room that not all may include."""
    assert fault("ops", '"', "conv2d.h")
    assert fault("ops", '"', "lathe/lathe.h")
    assert fault("ops", '"', "lathe/tests/emulation/cuda_emulation.h")
    assert fault("ops", '"', "lathe/ops/nowhere/conv2d.h")
    assert not fault("nn", '"', "lathe/nn/module.h")
    assert not fault("tools/bench", "<", "lathe/lathe.h")
    assert not fault("core", "<", "vector")
    for target in MAY_INCLUDE:
        for room, allowed in MAY_INCLUDE.items():
            forbidden = room != target and target not in allowed
            assert bool(fault(room, '"', f"lathe/{target}/planted.h")) == forbidden, (room, target)
        assert target == "core" or any(target not in allowed for allowed in MAY_INCLUDE.values()), target


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    files = paths_below(root, FOLDERS, SOURCES)
    found = [text for path in files for text in faults_in(root, path)]
    print("\n".join(found))
    assert files, f"no sources under {root}"
    print(f"{len(files)} files in {len(MAY_INCLUDE)} rooms")
    print(f"{0 if found else 1} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
