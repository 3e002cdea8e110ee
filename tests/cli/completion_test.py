#!/usr/bin/env python3
"""What bash, zsh and fish complete with the scripts of `lathe completion`, where these shells are installed.

    completion_test.py LATHE [--sanitized]
"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

from driver import LATHE, Skip, environment, expect, lathe, main

# The last word of each line is completed; a set names some of many.
CASES = [
    ("lathe tr", ["train"]),
    ("lathe fin", ["find-batch", "find-lr", "find-workers"]),
    ("lathe help tra", ["train"]),
    ("lathe data ", ["fetch", "prepare", "verify"]),
    ("lathe data fetch m", ["mnist"]),
    ("lathe completion ", ["bash", "fish", "zsh"]),
    ("lathe train --opt", ["--optimizer"]),
    ("lathe train --optimizer la", ["lamb", "lars"]),
    ("lathe train --recipe cif", ["cifar10-94", "cifar10-94-fast", "cifar10-96", "cifar10-resnet20"]),
    ("lathe train --quiet --dataset cifar", ["cifar10", "cifar100"]),
    ("lathe train --no-quie", ["--no-quiet"]),
    ("lathe train --conf", ["--config"]),
    ("lathe train --hel", ["--help"]),
    ("lathe train --", {"--model", "--weights", "--json", "--no-json", "--lr", "--val-split"}),
    ("lathe data prepare --data-r", ["--data-root"]),
    ("lathe train --device c", ["cpu", "cuda"]),
    ("lathe launch -", {"-n", "--ranks"}),
    ("lathe launch tra", ["train"]),
    ("lathe launch -n 2 tra", ["train"]),
    ("lathe launch -n 2 train --opt", ["--optimizer"]),
    ("lathe launch --ranks 2 --grace=3 train --optimizer la", ["lamb", "lars"]),
    ("lathe launch a.s", ["a.safetensors"]),
    ("lathe ckpt verify-resume --inter", ["--interrupt-at"]),
    ("lathe train --weights a.s", ["a.safetensors"]),
    ("lathe train --model a.p", ["a.pt2"]),
    ("lathe train --model resnet", {"resnet18", "resnet50"}),
    ("lathe train --config a.s", ["a.safetensors"]),
    ("lathe ckpt convert a.s", ["a.safetensors"]),
    ("lathe ckpt diff b a.s", ["a.safetensors"]),
]
EQUALS = [("lathe train --optimizer=la", ["lamb", "lars"])]  # bash takes "=" for a word of its own
NO_FILES = [("lathe train a.s", []), ("lathe completion a.s", []), ("lathe help a.s", [])]


def needs(shell):
    if not shutil.which(shell):
        raise Skip(f"{shell} is not installed")


def write_script(shell):
    pathlib.Path("a.safetensors").touch()
    pathlib.Path("a.pt2").touch()
    script = expect(lathe("completion", shell), 0).stdout
    pathlib.Path("script").write_text(script)
    expect(subprocess.run([shell, "-n", "script"], capture_output=True, text=True), 0)


def check(cases, completions):
    for line, expected in cases:
        found = [word for word in completions(line) if word != "-h"]
        if isinstance(expected, set):
            assert expected <= set(found), (line, expected - set(found))
        else:
            assert sorted(set(found)) == expected, (line, expected, found)


def test_bash_completes(folder):
    needs("bash")
    write_script("bash")

    def completions(line):
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        call = f"source ./script; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _lathe; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return expect(subprocess.run(["bash", "--norc", "-c", call], capture_output=True, text=True), 0).stdout.split()
    check(CASES, completions)


def test_a_program_by_another_name_has_a_function_of_its_own(folder):
    needs("bash")
    two_bytes = os.fsdecode("äther".encode())  # whatever the locale is
    for name, function in (("my_lathe", "_my_lathe"), ("lathe2", "_lathe2"), ("lathe-own", "_lathe_own"), (two_bytes, "___ther")):
        os.symlink(LATHE, name)

        def script(shell):
            return expect(subprocess.run([f"./{name}", "completion", shell], capture_output=True, text=True), 0).stdout
        asked = f"COMP_WORDS=('{name}' tr); COMP_CWORD=1; {function}; echo \"${{COMPREPLY[@]}}\"; complete -p '{name}'"
        shown = expect(subprocess.run(["bash", "--norc", "-c", script("bash") + asked], capture_output=True, text=True), 0).stdout
        assert re.fullmatch(rf"train\ncomplete -o filenames -F {function} '?{name}'?\n", shown), shown
        zsh, fish = script("zsh"), script("fish")
        assert re.search(rf"^{function}\(\)", zsh, re.M) and re.search(rf"^ +compdef {function} '?{name}'?$", zsh, re.M), zsh[-200:]
        assert re.search(rf"^complete -c '?{name}'? ", fish, re.M) and not re.search(r"^complete -c lathe ", fish, re.M), fish[-200:]


def test_fish_completes(folder):
    needs("fish")
    write_script("fish")
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}

    def completions(line):
        result = expect(subprocess.run(["fish", "--no-config", "-c", f"source script; complete -C '{line}'"], capture_output=True, text=True,
                                       stdin=subprocess.DEVNULL, env=environment(**home)), 0, "")
        assert not result.stderr, result.stderr
        words = [row.partition("\t") for row in result.stdout.splitlines()]
        assert all("resnet" not in text for word, _, text in words if not word.startswith("-")), words  # a value is not described as its flag is
        return [word.rpartition("=")[2] for word, _, _ in words]
    check(CASES + EQUALS + NO_FILES, completions)


# Prints every match; "$@" has "-O name" and the like where a function only asks.
ZSH_SETUP = """
PS1= PS2= RPS1=; unsetopt beep prompt_cr zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste
unsetopt auto_list auto_menu  # a list that does not fit would ask, and take the next keys for the answer
autoload -Uz compinit && compinit -u -D
source ./script
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -O hits "$@"
  local hit; for hit in $hits; do print -r -- "HIT $hit HIT"; done
  builtin compadd "$@"
}
ended() { print -r -- "END of matches" }
complete-and-end() { zle complete-word; ended }
zle -N complete-and-end
bindkey '^I' complete-and-end
bindkey '^U' kill-whole-line
print READY of setup
"""


class Zsh:
    """An interactive zsh behind a terminal."""

    def __init__(self, folder):
        pathlib.Path("setup").write_text(ZSH_SETUP)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment(TERM="dumb", HOME=str(folder), ZDOTDIR=str(folder)))
        os.write(self.terminal, b"source ./setup\n")
        self.read_until("READY of setup")

    def read_until(self, sign):
        text, end = "", time.monotonic() + 120
        while sign not in text:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {sign!r} in {text!r}"
            text += os.read(self.terminal, 65536).decode(errors="replace")
        return text

    def completions(self, line):
        os.write(self.terminal, b"\x15" + line.encode() + b"\t")
        text = self.read_until("END of matches")
        assert "command not found" not in text, text
        return re.findall(r"HIT (.*?) HIT", text)

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def test_zsh_completes(folder):
    needs("zsh")
    write_script("zsh")
    zsh = Zsh(folder)
    try:
        check(CASES + EQUALS + NO_FILES, lambda line: [word.removesuffix("=") for word in zsh.completions(line)])
    finally:
        zsh.close()


main(globals())
