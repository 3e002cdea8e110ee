#!/usr/bin/env python3
"""Makes a Python wheel with the command: `pip install` of it gives `lathe`.

    cmake --install build/release --prefix PREFIX
    tools/make_wheel.py PREFIX OUT

The wheel holds the command, the shared library (lathe_c.h) if PREFIX has it, and what both need that not every Linux system has,
with the licences. Its tag names the oldest C library that it runs with. NVIDIA's
libraries are not in it: the command finds those of NVIDIA's wheels in the same environment.

patchelf must be there. Licences come from /usr/share/doc, as Debian installs them.
"""
import argparse
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Of every Linux system with Python (PEP 600), and what a driver brings.
OF_THE_SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)|ld-linux.*|linux-vdso|libcuda|libnvidia-.*)\.so")

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
WHEEL = "Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n"


def fail(message):
    sys.exit(f"make_wheel: {message}")


def run(*command):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
    return result.stdout


def needed_by(binary):
    """The libraries that a binary and those that it needs name: {soname: path}."""
    found = {}
    for line in run("ldd", binary).splitlines():
        words = line.split()
        if "not found" in line:
            fail(f"{binary} needs {words[0]}, which is not installed")
        if "=>" in words:
            found[words[0]] = pathlib.Path(words[2])
    return {name: path for name, path in found.items() if not OF_THE_SYSTEM.match(name)}


def opened_later(versions):
    """oneDNN, which the command opens at first use and therefore does not name: the one that it was built with."""
    major = re.search(r"oneDNN (\d+)", versions)
    if major is None:
        return {}
    found = dict(re.findall(r"^\s*(libdnnl\.so\.\S+) .*=> (\S+)$", run("/sbin/ldconfig", "-p"), re.M))
    names = sorted(name for name in found if name.split(".")[2] == major[1])
    if not names:
        fail(f"the command was built with oneDNN {major[1]}, which is not installed")
    return {names[0]: pathlib.Path(found[names[0]])}


def oldest_c_library(binaries):
    """The version of glibc that these files need, as "2_36"."""
    versions = [tuple(map(int, found.split("."))) for binary in binaries
                for found in re.findall(r"GLIBC_(\d+\.\d+)", run("objdump", "-T", binary))]
    return "_".join(map(str, max(versions)))


def licence_of(library):
    """Debian's copyright file of the package that a library is of."""
    for path in (library, library.resolve(), pathlib.Path("/usr") / str(library).lstrip("/"), library.resolve().relative_to("/usr")):
        found = subprocess.run(["dpkg-query", "-S", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        if found:
            text = pathlib.Path("/usr/share/doc") / found.split(":")[0] / "copyright"
            return text if text.is_file() else None
    return None


def fill(package, prefix, version, versions):
    """Copies the command and its libraries, which then find each other inside the package."""
    (package / "bin").mkdir(parents=True)
    (package / "lib").mkdir()
    shutil.copy2(prefix / "bin/lathe", package / "bin/lathe")
    shutil.copytree(prefix / "share/lathe/algos", package / "share/lathe/algos")
    libraries = {**needed_by(prefix / "bin/lathe"), **opened_later(versions)}  # the shared liblathe among them
    for path in list(libraries.values()):
        libraries.update({name: other for name, other in needed_by(path).items() if name not in libraries})
    for name, path in libraries.items():
        shutil.copy2(path.resolve(), package / "lib" / name)
        run("patchelf", "--set-rpath", "$ORIGIN", package / "lib" / name)
    run("patchelf", "--set-rpath", "$ORIGIN/../lib", package / "bin/lathe")
    for binary in [package / "bin/lathe", *sorted((package / "lib").iterdir())]:
        run("strip", "--strip-unneeded", binary)
    (package / "__init__.py").write_text(INIT.format(version=version), encoding="utf-8")
    (package / "__main__.py").write_text(MAIN, encoding="utf-8")
    return {name: path for name, path in libraries.items() if not name.startswith("liblathe.")}


def write_licences(info, libraries):
    """LICENSE, and NOTICE with the licence of each library that the wheel carries."""
    shutil.copy2(pathlib.Path(__file__).resolve().parents[1] / "LICENSE", info / "LICENSE")
    texts = {}
    for name, path in sorted(libraries.items()):
        found = licence_of(path)
        if found is None:
            fail(f"{path} has no licence in /usr/share/doc")
        texts.setdefault(found.read_text(encoding="utf-8", errors="replace"), []).append(name)
    notice = "".join(f"{', '.join(names)}\n{'=' * 80}\n\n{text}\n\n" for text, names in texts.items())
    (info / "NOTICE").write_text(notice, encoding="utf-8")


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
    if not (options.prefix / "bin/lathe").is_file():
        fail(f"{options.prefix}/bin/lathe does not exist; run cmake --install")
    if shutil.which("patchelf") is None:
        fail("patchelf is not installed")
    versions = run(options.prefix / "bin/lathe", "--version")
    version = versions.split()[1]
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        libraries = fill(root / "lathe", options.prefix, version, versions)
        binaries = [root / "lathe/bin/lathe", *(root / "lathe/lib").iterdir()]
        machine = run("uname", "-m").strip()
        tag = f"py3-none-manylinux_{oldest_c_library(binaries)}_{machine}"
        info = root / f"lathe-{version}.dist-info"
        info.mkdir()
        for name, text in (("METADATA", METADATA), ("WHEEL", WHEEL), ("entry_points.txt", ENTRY_POINTS)):
            (info / name).write_text(text.format(version=version, tag=tag), encoding="utf-8")
        write_licences(info, libraries)
        wheel = options.out / f"lathe-{version}-{tag}.whl"
        pack(root, wheel)
    print(f"{wheel}  {wheel.stat().st_size / 1e6:.1f} MB, {len(libraries)} libraries")


if __name__ == "__main__":
    main()
