#!/usr/bin/env python3
"""Checks lists of files against the files.

- No source file lies about unlisted: the CMakeLists.txt nearest to it (or a .cmake file there) must name it, or a script
  beside it.
- LATHE_CUDA_LIBRARY_HEADERS names every header that includes one of NVIDIA's, itself or through others: it is not
  installed, and a machine without CUDA does not compile it. But for <cuda_runtime.h>, which tests/emulation has, too.
- No header that is installed includes one that is not (_private_headers in cmake/LatheInstall.cmake).
- tests/state/ asks each class with a state_dict(), each schedule and each sampler what saved_state.h says.

    check_lists.py SOURCE_ROOT

Some lists hold words instead of files: in ops/ `conv2d` stands for conv2d.cpp and its backends, in tests/fuzz/ `idx` for
idx_fuzz.cpp.
"""
import functools
import pathlib
import re
import sys

from tree_files import paths_below

FOLDERS = ["core", "profile", "autograd", "ops", "nn", "graph", "optim", "data", "distributed", "train", "bridge", "c", "tools", "tests", "examples", "tiny"]
LIBRARY = ["core", "profile", "autograd", "ops", "nn", "graph", "optim", "data", "distributed", "train", "bridge", "c"]
NVIDIA = re.compile(r"^#include <(?:cu(?!rl|da_runtime)\w+|nccl|nvrtc|nvml|nv\w+)\.h>", re.M)
OURS = re.compile(r'^#include "lathe/([^"]+)"', re.M)
SUFFIX = re.compile(r"_(cpu|dnnl|eigen|cuda|cudnn|cublas|curand|fuzz)$")


def names_of(path):
    """The words that may stand for this file in a list."""
    return {path.name, path.stem, SUFFIX.sub("", path.stem)}


@functools.lru_cache(None)
def scripts_beside(folder, root, suffix):
    return [path for path in paths_below(root, [folder.relative_to(root).as_posix()], {suffix}) if path.parent == folder]


def listed(path, root):
    if any(path.name in script.read_text(encoding="utf-8") for script in scripts_beside(path.parent, root, ".py")):
        return True  # a program that a script compiles
    folder = path.parent
    while not (folder / "CMakeLists.txt").exists() and folder != root:
        folder = folder.parent
    text = "".join(script.read_text(encoding="utf-8")
                   for script in [folder / "CMakeLists.txt", *scripts_beside(folder, root, ".cmake")])
    words = re.split(r"[\s()]+", re.sub(r"#.*", "", text))
    # A file of a deeper folder is listed with its path, "../main.cpp" or "kernels/relu.cpp".
    words = {word.strip('"').split("/")[-1] for word in words}
    return bool(names_of(path) & words)


def headers_of_nvidia(root):
    """Those of our headers that need one of NVIDIA's."""
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths_below(root, LIBRARY, {".h"})}
    need = {name for name, text in texts.items() if NVIDIA.search(text)}
    while True:
        more = {name for name, text in texts.items() if need & set(OURS.findall(text))} - need
        if not more:
            return need
        need |= more


def unlisted_headers(root):
    script = (root / "cmake/LatheCuda.cmake").read_text(encoding="utf-8")
    named = set(re.search(r"set\(LATHE_CUDA_LIBRARY_HEADERS\s([^)]*)\)", script).group(1).split())
    need = headers_of_nvidia(root)
    assert need, "no header includes cudnn.h"
    return sorted(need - named)


def torn_includes(root):
    """(header, what it includes) where the first is installed and the second is not."""
    lists = "".join((root / name).read_text(encoding="utf-8") for name in ("cmake/LatheCuda.cmake", "cmake/LatheInstall.cmake"))
    named = re.findall(r"(?:set\(LATHE_(?:KERNEL|CUDA_LIBRARY)_HEADERS|list\(APPEND _private_headers)\s([^)]*)\)", lists)
    private = {name for names in named for name in names.split()}
    assert "graph/op_table.h" in private and "core/json.h" in private, "the lists of headers that are not installed were not read"
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths_below(root, LIBRARY, {".h"})}
    return [(name, other) for name, text in texts.items() if name not in private for other in OURS.findall(text) if other in private]


# The bases of all optimisers, of which tests/state/ takes each from with_optimizer(), and of all schedules; the core of the
# loaders; and Lora, whose entries load_lora() reads from a file (tests/nn/lora_file_test.cpp).
ASKED_ELSEWHERE = {"Optimizer", "LRScheduler", "LoaderCore", "Lora"}


def states_not_asked(root):
    """Classes that have a saved state, or inherit one, and are not named in tests/state/."""
    tests = "".join(path.read_text(encoding="utf-8") for path in paths_below(root, ["tests/state"], {".cpp"}))
    found = set()
    for path in paths_below(root, LIBRARY, {".h"}):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"(\w+)(?: final)? : public (?:LRScheduler|Sampler)\b", text))
        for declared in re.finditer(r"^ +StateDict state_dict\(\) const", text, re.M):
            found.add(re.findall(r"^(?:class|struct) (?:LATHE_API )?(\w+)[^;]*?{", text[:declared.start()], re.M)[-1])
    assert {"Optimizer", "StepLR", "RandomSampler", "Tally"} <= found, "the classes were not found"
    return sorted(name for name in found - ASKED_ELSEWHERE if not re.search(rf'"{name}\b', tests))


def main():
    root = pathlib.Path(sys.argv[1])
    sources = paths_below(root, FOLDERS, {".cpp", ".cu"})
    assert sources, f"no sources under {root}"
    unlisted = [path for path in sources if not listed(path, root)]
    for path in unlisted:
        print(f"{path.relative_to(root)} is in no CMakeLists.txt")
    headers = unlisted_headers(root)
    for name in headers:
        print(f"{name} needs a header of NVIDIA's and is not in LATHE_CUDA_LIBRARY_HEADERS")
    unlisted += headers
    for name, other in torn_includes(root):
        print(f"{name} is installed and includes {other}, which is not")
        unlisted.append(name)
    for name in states_not_asked(root):
        print(f"{name} has a saved state, and tests/state/ asks nothing of it")
        unlisted.append(name)
    print(f"{0 if unlisted else 1} passed, {1 if unlisted else 0} failed, 0 skipped")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
