#!/usr/bin/env python3
"""Makes a Python wheel with the command: `pip install` of it gives `lathe`.

    cmake --install build/release --prefix PREFIX
    tools/packages/wheel.py PREFIX OUT

The wheel holds the command, the shared library (lathe_c.h) if PREFIX has it, and what both need that not every Linux system has,
with the licences. Its tag names the oldest C library that it runs with. NVIDIA's
libraries are not in it: the command finds those of NVIDIA's wheels in the same environment.
"""
import argparse
import base64
import hashlib
import pathlib
import re
import shutil
import tempfile
import zipfile

from carried import check, copy_libraries, needed_by, run, set_search_path, write_licences, write_parts_list

INIT = '''"""The Lathe command. Its library for ctypes (lathe_c.h) is at library_path(), if this build has one."""
import os
import pathlib
import sys

__version__ = "{version}"
HERE = pathlib.Path(__file__).resolve().parent


def library_path():
    found = sorted((HERE / "lib").glob("liblathe.so*"))
    if not found:
        raise FileNotFoundError("this wheel was made of a static build: it holds no liblathe.so")
    return str(found[0])


def main():
    os.environ.setdefault("CUDNN_PYTHON_PREFIX", sys.prefix)  # where NVIDIA's wheels are
    command = str(HERE / "bin" / "lathe")
    os.execv(command, ["lathe", *sys.argv[1:]])
'''
MAIN = "from lathe import main\n\nmain()\n"
METADATA = """Metadata-Version: 2.1
Name: lathe
Version: {version}
Summary: A standalone deep-learning runtime: the command that trains, evaluates and converts models
License-File: LICENSE
Requires-Python: >=3.8
"""
ENTRY_POINTS = "[console_scripts]\nlathe = lathe:main\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: lathe\nRoot-Is-Purelib: false\nTag: {tag}\n"


def oldest_c_library(binaries):
    """The version of glibc that these files need, as "2_36"."""
    versions = [tuple(map(int, found.split("."))) for binary in binaries
                for found in re.findall(r"GLIBC_(\d+\.\d+)", run("objdump", "-T", binary))]
    return "_".join(map(str, max(versions)))


def fill(package, prefix, version):
    """Copies the command, the shared library that it needs, if any, and the libraries of others."""
    (package / "bin").mkdir(parents=True)
    shutil.copy2(prefix / "bin/lathe", package / "bin/lathe")
    shutil.copytree(prefix / "share/lathe/algos", package / "share/lathe/algos")
    libraries = copy_libraries(prefix, package / "lib")
    set_search_path(package / "bin/lathe", "$ORIGIN/../lib")
    for name, path in needed_by(prefix / "bin/lathe").items():
        if name.startswith("liblathe."):
            shutil.copy2(path.resolve(), package / "lib" / name)
            set_search_path(package / "lib" / name, "$ORIGIN")
    (package / "__init__.py").write_text(INIT.format(version=version), encoding="utf-8")
    (package / "__main__.py").write_text(MAIN, encoding="utf-8")
    return libraries


def pack(root, out):
    """Writes the zip, the list of its files last. Times are those of 1980, so that equal content gives equal bytes."""
    record = next(root.glob("*.dist-info")).name + "/RECORD"
    lines = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            name, content = path.relative_to(root).as_posix(), path.read_bytes()
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if "/bin/" in name or "/lib/" in name else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}\n")
        entry = zipfile.ZipInfo(record)
        entry.external_attr = 0o100644 << 16
        archive.writestr(entry, "".join(lines) + f"{record},,\n", zipfile.ZIP_DEFLATED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=pathlib.Path, help="where cmake --install put Lathe")
    parser.add_argument("out", type=pathlib.Path, help="the folder for the wheel")
    options = parser.parse_args()
    version = check(options.prefix)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        libraries = fill(root / "lathe", options.prefix, version)
        binaries = [root / "lathe/bin/lathe", *(root / "lathe/lib").iterdir()]
        machine = run("uname", "-m").strip()
        tag = f"py3-none-manylinux_{oldest_c_library(binaries)}_{machine}"
        info = root / f"lathe-{version}.dist-info"
        (info / "sboms").mkdir(parents=True)  # PEP 770
        for name, text in (("METADATA", METADATA), ("WHEEL", WHEEL), ("entry_points.txt", ENTRY_POINTS)):
            (info / name).write_text(text.format(version=version, tag=tag), encoding="utf-8")
        write_licences(info, libraries)
        write_parts_list(info / "sboms" / "lathe.spdx.json", version, libraries)
        wheel = options.out / f"lathe-{version}-{tag}.whl"
        pack(root, wheel)
    print(f"{wheel}  {wheel.stat().st_size / 1e6:.1f} MB, {len(libraries)} libraries")


if __name__ == "__main__":
    main()
