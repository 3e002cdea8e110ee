#!/usr/bin/env python3
"""Checks the arrows between the folders and their rooms (docs/design.md, "Layers"):

- An include may only point to what MAY_INCLUDE allows.
- From a folder's root an arrow points into a room of its own only where INTO_ROOM says so, by file and with a reason. No other two
  rooms include each other.
- Nothing that is built for users includes tests/.
- nlohmann's JSON comes through core/json.h, which renames its namespace.

    check_includes.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from tree_files import paths_below

CORE = {"core", "core/hooks"}  # what works says so
RECORD = CORE | {"core/capture", "core/random", "autograd"}
KERNELS = {"core/gpu"}  # how a kernel is launched and reads its arguments
CONVOLUTION = {"ops/conv", "ops/conv/cpu", "ops/conv/cudnn", "ops/conv/search"}
OPS = RECORD | {"ops"}
LIBRARY = OPS | CONVOLUTION | {
    "core/debug", "core/files", "core/formats", "core/machine", "core/memory", "core/text", "profile", "ops/linalg", "ops/losses", "nn", "nn/distributions", "graph", "graph/onnx", "graph/pt2", "graph/quantize",
    "optim", "data", "data/device", "data/images", "data/transforms", "distributed", "train"}
TRAINING = {"train/plan", "train/report", "train/tune"}

# room: the rooms that it may include, apart from itself. A folder's root is a room: "core" is what lies in core/ itself. A root is a
# table of contents, and INTO_ROOM has its few arrows into rooms of its own.
MAY_INCLUDE = {
    "core": set(),
    "core/hooks": {"core", "core/memory"},
    "core/capture": CORE,
    "core/debug": CORE | {"core/files"},
    "core/files": {"core"},
    "core/formats": {"core", "core/files"},
    "core/gpu": CORE | {"core/capture", "core/machine", "core/memory", "core/random"},
    "core/machine": {"core", "core/files"},
    "core/memory": {"core"},
    "core/random": {"core"},
    "core/text": {"core"},
    "profile": CORE | {"core/files"},
    "autograd": CORE | {"core/capture", "core/random"},
    "ops": RECORD,
    "ops/linalg": OPS,
    "ops/losses": OPS | KERNELS,
    "ops/onednn": {"core"},
    "ops/plans": set(),
    "ops/elementwise_kernels": OPS | KERNELS,
    "ops/index_kernels": OPS | KERNELS | {"ops/losses"},
    "ops/random_kernels": OPS | KERNELS,
    "ops/reduce_kernels": OPS | KERNELS,
    "ops/row_kernels": OPS | KERNELS | {"ops/losses", "ops/reduce_kernels"},
    "ops/window_kernels": OPS | KERNELS | {"ops/reduce_kernels"},
    "ops/batch_norm_kernels": OPS | KERNELS | {"ops/reduce_kernels"},
    "ops/matmul_kernels": OPS | KERNELS | {"ops/onednn", "ops/plans", "ops/reduce_kernels"},
    "ops/recurrent_kernels": OPS | KERNELS | {"ops/elementwise_kernels", "ops/matmul_kernels"},
    "ops/conv": OPS | KERNELS | {"ops/matmul_kernels"},
    "ops/conv/search": {"core", "core/files", "ops/conv", "ops/plans"},
    "ops/conv/cpu": OPS | {"core/machine", "ops/conv", "ops/conv/search", "ops/matmul_kernels", "ops/onednn", "ops/plans"},
    "ops/conv/cudnn": OPS | KERNELS | {"core/machine", "ops/conv", "ops/conv/search", "ops/plans"},
    "nn": OPS | {"core/files", "core/formats", "core/text", "ops/losses"},
    "nn/distributions": OPS | {"ops/linalg", "ops/losses"},
    "graph": OPS | {"core/files", "core/formats", "ops/losses", "nn"},
    # A room of graph/ stands on the root alone.
    "graph/passes": OPS | {"core/formats", "graph"},
    "graph/fused": OPS | KERNELS | {"core/files", "core/formats", "ops/elementwise_kernels", "ops/plans", "graph"},  # made of the ops' arithmetic
    "graph/onnx": OPS | {"core/files", "core/formats", "graph"},
    "graph/pt2": OPS | {"core/files", "core/formats", "graph", "nn", "ops/linalg", "ops/losses"},  # a program is a module
    "graph/quantize": OPS | {"graph"},
    "optim": OPS | {"nn"},
    "optim/kernels": OPS | KERNELS | {"optim", "ops/reduce_kernels"},
    "data": OPS | {"core/files", "core/formats"},
    "data/transforms": OPS | KERNELS | {"data", "ops/reduce_kernels"},
    "data/images": OPS | {"core/files", "core/formats", "core/text", "data", "data/transforms"},
    "data/device": OPS | {"data", "data/images", "data/transforms"},
    # What ranks exchange are tensors, gradients, layers and parts of an epoch: so it stands on all of these. NCCL is opened as
    # the libraries of kernels are. A list of tensors travels as the header of a safetensors file.
    "distributed": OPS | KERNELS | {"core/files", "core/formats", "nn", "optim", "data"},
    "train": LIBRARY,  # what trains stands on all of the library
    # What looks on a step or a run from outside. The root knows neither.
    "train/plan": LIBRARY | {"train/report"},  # a roofline has a picture
    "train/report": LIBRARY,
    "train/tune": LIBRARY | {"train/report"},  # a range test has a picture
    "c": LIBRARY,  # one border for all that C programs can reach
    "bridge": {"core"},  # for programs; nothing of the library includes it
    "tools/bench": LIBRARY,
    "tools/mutants": set(),
    "tools/cli": LIBRARY | TRAINING,
    "tools/cli/settings": LIBRARY | TRAINING | {"tools/cli"},
    "tools/cli/training": LIBRARY | TRAINING | {"tools/cli", "tools/cli/settings"},
    "tools/cli/observe": LIBRARY | TRAINING | {"tools/cli", "tools/cli/settings", "tools/cli/training"},
    "tools/cli/launch": LIBRARY | TRAINING | {"tools/cli", "tools/cli/settings"},
    "tools/cli/commands": LIBRARY | TRAINING | {"tools/cli", "tools/cli/settings", "tools/cli/training"},
}

# (a root, a room of its own): the files of the root that may include the room, None for all, and why. These are the only rooms that
# include each other.
INTO_ROOM = {
    ("core", "core/hooks"): (None, "what works says so where it works; what a range or a list of live memory is made of are tensors and devices"),
    ("ops", "ops/conv"): (None, "an op computes its sizes once and hands them to the passes, which the op's header declares"),
    ("graph", "graph/fused"): ({"graph/run.cpp"}, "Graph::run has a group's nodes run together"),
    ("data", "data/images"): ({"data/tensorboard.cpp"}, "a picture in an event file is a PNG"),
    ("tools/cli", "tools/cli/settings"): ({"tools/cli/run.cpp"}, "run.cpp and main.cpp stand above all rooms of the command"),
}
FOLDERS = sorted({room.partition("/")[0] for room in MAY_INCLUDE})
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
SOURCES = {".h", ".cuh", ".cpp", ".cu"}


def fault(name, quote, include):
    """Says what is wrong with this include in the file `name`; None if nothing is."""
    room = name.rpartition("/")[0]
    if include.startswith("nlohmann/") and name != "core/json.h" and not name.startswith("tests/"):
        return f'"lathe/core/json.h", not <{include}>: it renames the namespace (core/json.h, Note [Names of header-only libraries])'
    if not include.startswith("lathe/"):
        return f'write "lathe/...", not "{include}"' if quote == '"' else None
    target = include.removeprefix("lathe/").rpartition("/")[0]
    if not target:
        return None if room.startswith("tools") or include == "lathe/lathe_c.h" and room == "c" else f'"{include}" is for users; include the headers that are needed'
    if target.split("/")[0] == "tests":
        return f'"{include}": what is built for users includes no tests; declare what tests implement in the library'
    if target not in MAY_INCLUDE:
        return f'"{include}": {target}/ is not a room of the library'
    if target == room or target in MAY_INCLUDE[room]:
        return None
    files, _ = INTO_ROOM.get((room, target), ((), ""))
    if files is None or name in files:
        return None
    if target.startswith(f"{room}/"):
        return f'"{include}": {room}/ is a table of contents; INTO_ROOM has no arrow from this file into {target}/'
    return f'"{include}" points right: {room}/ must not know {target}/'


def faults_in(root, path):
    name = path.relative_to(root).as_posix()
    room = name.rpartition("/")[0]
    if room not in MAY_INCLUDE:
        yield f"{name}: {room}/ is not a room of the library; MAY_INCLUDE in check_includes.py lists them"
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        text = fault(name, *match.groups())
        if not text and match[2].startswith("lathe/") and not (root / match[2].removeprefix("lathe/")).exists():
            text = f'"{match[2]}" does not exist'
        if text:
            yield f"{name}:{number}: {text}"


def faults_of_tables(may_include, into_room):
    """Arrows of the tables that stand against their rules."""
    for room, allowed in may_include.items():
        yield from (f"MAY_INCLUDE: {room}/ includes {target}/, a room of its own; that is for INTO_ROOM"
                    for target in sorted(allowed) if target.startswith(f"{room}/"))
        yield from (f"MAY_INCLUDE: {room}/ and {target}/ include each other, and INTO_ROOM has no reason for it"
                    for target in sorted(allowed) if room < target and room in may_include[target])
    for (root, room), (_, reason) in into_room.items():
        if not room.startswith(f"{root}/") or room not in may_include:
            yield f"INTO_ROOM: {room}/ is not a room of {root}/"
        if not reason:
            yield f"INTO_ROOM: no reason for the arrow from {root}/ into {room}/"


def unused(root, files):
    """Arrows of INTO_ROOM that no include needs any more, by file or, for all files of a root, as a whole."""
    named = {(path.relative_to(root).as_posix(), match[2].removeprefix("lathe/").rpartition("/")[0])
             for path in files for match in map(INCLUDE.match, path.read_text(encoding="utf-8").splitlines()) if match}
    rooms = {(name.rpartition("/")[0], target) for name, target in named}
    for arrow, (sources, _) in INTO_ROOM.items():
        if arrow not in rooms:
            yield f"INTO_ROOM: nothing of {arrow[0]}/ includes {arrow[1]}/"
        yield from (f"INTO_ROOM: {name} does not include {arrow[1]}/" for name in sorted(sources or ()) if (name, arrow[1]) not in named)


def self_test():
    """The checker must see each kind of fault, and an arrow into each room that not all may include."""
    assert fault("ops/x.cpp", '"', "conv2d.h")
    assert fault("ops/x.cpp", '"', "lathe/lathe.h")
    assert "no tests" in fault("core/gpu/launch.h", '"', "lathe/tests/emulation/cuda_emulation.h")
    assert "no tests" in fault("tools/cli/run.cpp", '"', "lathe/tests/count_calls.h")
    assert fault("ops/x.cpp", '"', "lathe/ops/nowhere/conv2d.h")
    assert not fault("nn/x.h", '"', "lathe/nn/module.h")
    assert not fault("tools/bench/x.cpp", "<", "lathe/lathe.h")
    assert not fault("core/x.h", "<", "vector")
    assert "table of contents" in fault("graph/compile.cpp", '"', "lathe/graph/fused/pointwise_run.h")
    assert not fault("graph/run.cpp", '"', "lathe/graph/fused/pointwise_run.h")
    assert "table of contents" in fault("ops/pool2d.cpp", '"', "lathe/ops/window_kernels/pool2d_math.h")
    assert fault("graph/onnx/x.cpp", '"', "lathe/graph/passes/x.h") and fault("graph/fused/x.cpp", '"', "lathe/graph/onnx/onnx.h")
    for target in MAY_INCLUDE:
        for room, allowed in MAY_INCLUDE.items():
            forbidden = room != target and target not in allowed and INTO_ROOM.get((room, target), ((),))[0] is not None
            assert bool(fault(f"{room}/x.h", '"', f"lathe/{target}/planted.h")) == forbidden, (room, target)
        assert target == "core" or any(target not in allowed for allowed in MAY_INCLUDE.values()), target
    tables = lambda may_include, into_room: list(faults_of_tables(may_include, into_room))
    assert not tables({"a": set(), "a/b": {"a"}}, {("a", "a/b"): (None, "because")})
    assert tables({"a": set(), "a/b": {"a"}}, {("a", "a/b"): (None, "")})
    assert tables({"a": {"a/b"}, "a/b": set()}, {})
    assert tables({"a": {"c"}, "c": {"a"}}, {})
    assert tables({"a": set(), "c": set()}, {("a", "c"): (None, "because")})


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    files = paths_below(root, FOLDERS, SOURCES)
    found = [text for path in files for text in faults_in(root, path)] + list(faults_of_tables(MAY_INCLUDE, INTO_ROOM)) + list(unused(root, files))
    print("\n".join(found))
    assert files, f"no sources under {root}"
    print(f"{len(files)} files in {len(MAY_INCLUDE)} rooms")
    print(f"{0 if found else 1} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
