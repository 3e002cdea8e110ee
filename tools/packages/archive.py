#!/usr/bin/env python3
"""Makes an archive of an installation that works from any folder, with the libraries that Lathe needs and their licences.

    cmake --preset release -DBUILD_SHARED_LIBS=ON -DLATHE_BUILD_TESTS=OFF && cmake --build --preset release
    cmake --install build/release --prefix PREFIX
    tools/packages/archive.py PREFIX OUT

The archive holds the command, the library with its headers and files for CMake and pkg-config, and in lib/lathe the libraries
of others. NVIDIA's are not among them: Lathe finds those of the system, of a toolkit and of NVIDIA's wheels.
"""
import argparse
import gzip
import pathlib
import shutil
import tarfile
import tempfile

from carried import check, copy_libraries, fail, moment, run, set_search_path, write_licences, write_parts_list


def without_origin(entry):
    """Equal content gives equal bytes: no user, umask and time of the builder."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    entry.mtime = moment()
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=pathlib.Path, help="where cmake --install put Lathe")
    parser.add_argument("out", type=pathlib.Path, help="the folder for the archive")
    options = parser.parse_args()
    version = check(options.prefix)
    shared = sorted(path for path in options.prefix.glob("lib*/**/liblathe.so.*") if not path.is_symlink())
    if len(shared) != 1:
        fail(f"{options.prefix}/lib* holds {len(shared)} liblathe.so, expected 1; configure with -DBUILD_SHARED_LIBS=ON")
    options.out.mkdir(parents=True, exist_ok=True)
    name = f"lathe-{version}-linux-{run('uname', '-m').strip()}"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / name
        shutil.copytree(options.prefix, root, symlinks=True)
        libraries = copy_libraries(options.prefix, root / "lib/lathe")
        library = root / shared[0].relative_to(options.prefix)
        up = "/".join([".."] * len(library.parent.relative_to(root).parts))
        set_search_path(library, f"$ORIGIN/{up}/lib/lathe")
        set_search_path(root / "bin/lathe", f"$ORIGIN/../{library.parent.relative_to(root)}", "$ORIGIN/../lib/lathe")
        write_licences(root / "share/lathe", libraries)
        write_parts_list(root / "share/lathe/lathe.spdx.json", version, libraries)
        archive = options.out / f"{name}.tar.gz"
        with gzip.GzipFile(archive, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
            for path in [root, *sorted(root.rglob("*"))]:
                tar.add(path, path.relative_to(folder), recursive=False, filter=without_origin)
    print(f"{archive}  {archive.stat().st_size / 1e6:.1f} MB, {len(libraries)} libraries")


if __name__ == "__main__":
    main()
