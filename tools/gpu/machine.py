"""What gpu_check.py runs and how: the packed programs, the machine's libraries and tools, and commands that end in time."""
import ctypes
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import time

TICK = 0.2  # seconds between two looks at a program


def unpack(archive, folder):
    """What tools/gpu_pack.sh packed. Python unpacks xz itself; one that was built without it needs the program."""
    folder.mkdir(parents=True)
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
    except tarfile.CompressionError:
        subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return folder


def library_folders(programs):
    """Folders with CUDA's libraries: PyTorch's wheels and the toolkit, then what was packed."""
    found = []
    for site in [p for p in sys.path if p.endswith("-packages")]:
        found += sorted(glob.glob(f"{site}/nvidia/*/lib"))
    cuda = os.environ.get("CUDA_PATH", "/usr/local/cuda")
    found += [f"{cuda}/lib64", f"{cuda}/extras/CUPTI/lib64"]
    return [p for p in found if os.path.isdir(p)] + ([str(programs / "lib")] if programs else [])


def tool(name):
    """The path of one of NVIDIA's tools, or None."""
    places = [f"{os.environ.get('CUDA_PATH', '/usr/local/cuda')}/bin/{name}", *sorted(glob.glob(f"/opt/nvidia/*/*/{name}"))]
    return shutil.which(name) or next((p for p in places if os.access(p, os.X_OK)), None)


LIBC, SELF = ctypes.CDLL(None), os.getpid()


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != SELF:  # it died before that
        os._exit(1)


class Command:
    """A program that writes to the end of `output` by itself, so that what it printed outlives this process."""

    def __init__(self, words, env, output):
        with open(output, "ab", buffering=0) as file:
            try:
                self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env,
                                                start_new_session=True, preexec_fn=die_with_parent)
            except OSError as error:
                file.write(f"{error}\n".encode())
                self.process = None

    def wait(self, limit, tick=lambda: None):
        """The exit code, 124 after `limit` seconds. Calls `tick` now and then. Ends the program with all that it began."""
        if self.process is None:
            return 127
        end = time.monotonic() + max(limit, 0.1)
        try:
            while True:
                try:
                    return self.process.wait(timeout=max(min(TICK, end - time.monotonic()), 0.001))
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= end:
                        return 124
                tick()
        finally:
            self.stop()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def run(words, limit, env, output):
    """(exit code, output) of a command that is of no interest while it runs."""
    begin = os.path.getsize(output) if os.path.exists(output) else 0
    status = Command(words, env, output).wait(limit)
    with open(output, "rb") as file:
        file.seek(begin)
        return status, file.read().decode(errors="replace")


CACHE_LIMIT = 16 << 20  # a borrowed machine gives no larger file back
SOURCES = (".ttir", ".ttgir", ".llir", ".ptx", ".source", ".lock")  # what made a kernel, which nobody reads to run it


def pack_caches(folder, file):
    """PyTorch's compiled kernels in one file, or none if it would be too large. Returns what became of it."""
    part = file.with_name(file.name + ".part")
    with tarfile.open(part, "w:gz", compresslevel=6) as archive:
        for path in sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file() and p.suffix not in SOURCES):
            archive.add(path, path.relative_to(folder))
    size = part.stat().st_size
    if size > CACHE_LIMIT:
        part.unlink()
        return f"PyTorch's caches take {size / 2**20:.1f} MiB and stay behind"
    os.replace(part, file)
    return f"PyTorch's caches: {file.name}, {size / 2**20:.1f} MiB"
