"""The copy of the tree with mutants in it, and its build. The product's own source is never touched."""
import os
import re
import subprocess
import sys

import switch

MAIN = "tests/main.cpp"


class Copy:
    """A copy of what git knows of `root` in `work`/tree, built in `work`/tree/build/mutants: as deep as the tree's own builds, so that
    a compiler's cache finds what they compiled."""

    def __init__(self, root, work, jobs, log=print):
        self.root, self.tree, self.build_folder = root, work / "tree", work / "tree/build/mutants"
        self.jobs, self.log, self.texts = jobs, log, {}

    def fill(self, but=()):
        """Writes what has changed, and no other file, so that little is compiled again; none of the files that put() will write."""
        names = subprocess.run(["git", "-C", self.root, "ls-files", "-z"], check=True, capture_output=True).stdout.decode().split("\0")
        kept = {name for name in names if name and (self.root / name).is_file()}
        for name in kept - set(but):
            content = (self.root / name).read_bytes()
            if name == MAIN and b"doctest" in content:
                content = switch.with_listener(content.decode()).encode()
            self._write(name, content, (self.root / name).stat().st_mode)
        for path in self.tree.rglob("*"):
            name = path.relative_to(self.tree).as_posix()
            if path.is_file() and name not in kept and not name.startswith("build/"):
                path.unlink()

    def configure(self, arguments):
        self._run(["cmake", "-S", self.tree, "-B", self.build_folder, "-G", "Ninja", *arguments], "cmake")

    def put(self, mutants):
        """Writes the sources with these mutants, and the others without."""
        paths = {m.path for m in mutants}
        for path in paths | set(self.texts):
            text = self.texts.setdefault(path, (self.root / path).read_text())
            mine = [m for m in mutants if m.path == path]
            self._write(path, (switch.switched(text, mine) if mine else text).encode())

    def build(self, mutants, targets):
        """Builds with as many of these as compile, and gives them and the others."""
        mutants, dropped = list(mutants), []
        while True:
            self.put(mutants)
            done = subprocess.run(["ninja", "-C", self.build_folder, "-k", "0", f"-j{self.jobs}", *targets], text=True, errors="replace",
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode == 0:
                return mutants, dropped
            bad = set()
            for part in re.split(r"^FAILED: ", done.stdout, flags=re.MULTILINE)[1:]:
                bad |= switch.blamed(part, mutants)
            if not bad:
                sys.exit(f"mutants: the build fails, and not because of a mutant:\n{done.stdout[-5000:]}")
            self.log(f"  {len(bad)} do not compile, {len(mutants) - len(bad)} are left")
            dropped += sorted(bad, key=lambda m: m.id)
            mutants = [m for m in mutants if m not in bad]

    def unbuilt(self, mutants):
        """Those whose source is in none of the programs that were built, such as one for another backend."""
        listed = subprocess.run(["ninja", "-C", self.build_folder, "-t", "deps"], check=True, text=True, capture_output=True).stdout
        used = {os.path.realpath(self.build_folder / line.strip()) for line in listed.splitlines() if line.startswith(" ")}
        return [m for m in mutants if os.path.realpath(self.tree / m.path) not in used]

    def _write(self, name, content, mode=0o644):
        path = self.tree / name
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode & 0o777)

    def _run(self, command, name):
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"mutants: {name} fails:\n{done.stdout[-5000:]}")
