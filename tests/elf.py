"""What a built program or shared library asks of the dynamic linker, as readelf tells it."""
import pathlib
import re
import subprocess


def is_linked(path):
    """A program or a shared library in ELF; no object file, no script."""
    path = pathlib.Path(path)
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "little") in (2, 3)


def linked_below(folder, skipped=("CMakeFiles",)):
    """Programs and shared libraries in a folder, in order."""
    found = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if not set(path.relative_to(folder).parts) & set(skipped) and is_linked(path):
            found.append(path)
    return found


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *map(str, arguments)], check=True, text=True, stdout=subprocess.PIPE).stdout


def search_path(path):
    """The folders of RPATH and RUNPATH; "" for an entry that is empty."""
    listed = re.findall(r"\((?:RPATH|RUNPATH)\)\s+Library (?:rpath|runpath): \[(.*)\]", readelf("-d", path))
    return [folder for entry in listed for folder in entry.split(":")]


def check_search_path(path):
    """An entry that is empty or relative has the current folder searched for libraries."""
    folders = search_path(path)
    wrong = [folder for folder in folders if not re.match(r"/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)", folder)]
    assert not wrong, f"{path} looks for libraries in {wrong}, in: {':'.join(folders)!r}"
