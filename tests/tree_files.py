"""The files of the source tree, whatever else lies beside them: runs/, data/, an editor's files, a virtual environment, another
build folder. A check judges these files and no others.

Git says which files are the tree's. In a tree without git, such as an unpacked archive, they are those in the tree's own folders.
"""
import functools
import os
import pathlib
import subprocess

FOLDERS = (".ci", "autograd", "bridge", "c", "cmake", "core", "course", "data", "distributed", "docs", "examples", "graph", "nn", "ops", "optim", "profile", "tests", "tiny", "tools", "train")
ROOT_FILES = ("CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "lathe.h", "lathe_c.h", "train.h", "trainer.h")


def files_of_git(root):
    """Those that git knows, if this folder is git's; None if it is not, or git cannot tell."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    names = listed.stdout.decode().split("\0")
    if listed.returncode != 0 or "CMakeLists.txt" not in names:  # an archive unpacked within another repository
        return None
    return [name for name in names if name and (root / name).is_file()]


def files_of_folders(root):
    """Those below the tree's folders, but for hidden ones and what Python compiled."""
    names = [name for name in ROOT_FILES if (root / name).is_file()]
    for folder in FOLDERS:
        for path, folders, files in os.walk(root / folder):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            names += [(pathlib.Path(path) / name).relative_to(root).as_posix() for name in files if not name.startswith(".")]
    return names


@functools.lru_cache(None)
def tree_files(root):
    """Paths from the root, as text, sorted."""
    names = files_of_git(root)
    return sorted(files_of_folders(root) if names is None else names)


def paths_below(root, folders, suffixes):
    """The files below some folders with one of these suffixes, as whole paths, sorted within each folder."""
    return [root / name for folder in folders for name in tree_files(root)
            if name.startswith(folder + "/") and pathlib.PurePath(name).suffix in suffixes]
