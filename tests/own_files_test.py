#!/usr/bin/env python3
"""The checks of the tree judge the tree's files, whatever else lies there: in a copy with files of a user's own, they find what they
find without these.

    own_files_test.py SOURCE_ROOT
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import tree_files

CHECKS = ["check_contracts.py", "check_docs.py", "check_features.py", "check_flags.py", "check_includes.py", "check_lists.py", "check_op_table.py", "check_results.py",
          "check_precompiled.py", "tiny/check_tiny.py", "tour/check_tour.py"]
MISSING = "/".join(["core", "no_such.h"])
SOURCE = b'// \xe9\n#include "mine.h"\nvoid mine() { std::any_of(); }  // ' + MISSING.encode() + b"\n"  # many faults, and not UTF-8
# Beside the tree's folders, and hidden or compiled files within them: in any tree.
BESIDE = ["runs/DATASET-MODEL-DATE-N/log.txt", "runs/a/report.html", "build/release/CMakeCache.txt", "cmake-build-debug/CMakeCache.txt",
          "cmake-build-debug/mine.cpp", "venv/lib/site-packages/numpy/mine.h", "experiments/mine.cpp", "experiments/README.md",
          ".idea/mine.cpp", ".vscode/settings.json", "compile_commands.json", "mine.cpp", "core/.tensor.h.swp", "core/.mine.h",
          "tests/__pycache__/mine.py", "data/cifar-10-batches-bin/data_batch_1.bin"]
# Within them: only git can tell.
WITHIN = ["core/mine.h", "ops/mine/CMakeLists.txt", "ops/mine_cuda.cu", "tests/mine_test.cpp", "docs/mine.md", "docs/tour/11-mine.md",
          "tools/mine.cpp", "data/cat/1.cpp"]


def copied(root):
    """The files of the tree, but for hidden ones and most inputs of the fuzz targets: many files, and no check reads them."""
    hidden = lambda name: any(part.startswith(".") and part != ".ci" for part in name.split("/"))
    return [name for name in tree_files.tree_files(root) if not hidden(name) and not re.match("tests/fuzz/corpus/(?!idx/)", name)]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def plant(folder, names):
    for name in names:
        assert not (folder / name).exists(), name
        write(folder / name, SOURCE)


def listed(root):
    tree_files.tree_files.cache_clear()
    return tree_files.tree_files(root)


def test_without_git(root, folder):
    """An unpacked archive, here within another repository."""
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    tree = folder / "lathe"
    known = copied(root)
    for name in known:
        write(tree / name, b"")
    assert listed(tree) == known, "FOLDERS and ROOT_FILES of tree_files.py are not the tree's"
    plant(tree, [name for name in BESIDE if not name.startswith("data/")])
    assert listed(tree) == known


def test_with_git(root, folder):
    names = copied(root)
    for name in names:
        write(folder / name, (root / name).read_bytes())
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    subprocess.run(["git", "-C", folder, "update-index", "--add", "--info-only", "--stdin"], input="\n".join(names), text=True, check=True)
    plant(folder, BESIDE + WITHIN)
    (folder / "core/.#tensor.h").symlink_to("nobody@nowhere.1")  # an editor's lock
    for check in CHECKS:
        result = subprocess.run([sys.executable, "-B", folder / "tests" / check, folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert result.returncode == 0, f"{check}:\n{result.stdout}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        outcome = "skipped" if shutil.which("git") is None else "passed"
        with tempfile.TemporaryDirectory(prefix="lathe-own-files-") as folder:
            try:
                if outcome == "passed":
                    test(root, pathlib.Path(folder).resolve())
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                outcome = "failed"
                print(f"FAILED {name}: {error}")
        counts[outcome] += 1
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
