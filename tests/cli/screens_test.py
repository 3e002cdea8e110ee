#!/usr/bin/env python3
"""What a terminal shows: no line is wider than it is, words are whole, and nothing is lost that a pipe gets.

    screens_test.py LATHE [--sanitized]
"""
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import termios
import time

from driver import LATHE, SANITIZED, Skip, environment, expect, lathe, main
from runs import write_png
from short_run import TINY, train


def open_screen(columns, *arguments):
    """Starts the command in a terminal of so many columns.   → the process, and the other end of the terminal"""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([LATHE, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
                               start_new_session=True, env=environment(TERM="xterm", NO_COLOR="1"))
    os.close(theirs)
    return process, ours


def read_screen(process, terminal, code=0):
    """All that it writes until it ends."""
    text = b""
    try:
        while part := os.read(terminal, 65536):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert process.wait(120) == code, (process.returncode, text.decode(errors="replace"))
    return text.decode()


def check_width(text, columns):
    for line in re.split(r"[\r\n]+", text.replace("\033[K", "")):
        assert len(line) <= columns or len(line.split()) == 1, f"{len(line)} columns of {columns}: {line}"


def test_no_line_is_wider_than_the_terminal(folder):
    expect(train("a", "--max-steps", 7), 0)
    for name in ("circle", "square"):
        for k in range(2):
            write_png(folder / "pets" / name / f"{k}.png", 16, [bytes([k] * 48)] * 16)
    commands = [["ckpt", "show", "a/last.safetensors"], ["info"], ["summary", "--model", "resnet18"], ["train", "--recipe", "list"],
                ["plan", "--model", "resnet8", "--batch-size", 4, "--gpu", "h200"], ["watch", "a", "--once"], ["eval", "--run-dir", "a", "--quiet"]]
    result = lathe("data", "verify", "./pets")
    if "this build has no libpng" not in result.stderr:
        commands.append(["data", "verify", "./pets"])
    for command in commands:
        if SANITIZED and command[0] in ("plan", "summary", "eval"):  # they take seconds there
            continue
        for columns in (60, 80) if command[0] in ("ckpt", "watch") else (60,):
            shown = read_screen(*open_screen(columns, *command))
            check_width(shown, columns)
            if command[0] in ("ckpt", "train", "data"):  # the others show times, or choose columns
                assert shown.split() == expect(lathe(*command), 0).stdout.split(), command
    # ckpt show names every entry whole, and watch cuts nothing.
    assert "..." not in read_screen(*open_screen(60, "watch", "a", "--once"))
    check_width(read_screen(*open_screen(80, "bench", "op", "add", "--seconds", 0.01)), 80)
    # What may be copied stays as it is.
    config = read_screen(*open_screen(60, "train", *TINY, "--freeze", "conv1, bn1, layer1.0.conv1, layer1.0.bn1, layer1.0.conv2", "--dry-run"))
    assert 'freeze = "conv1, bn1, layer1.0.conv1, layer1.0.bn1, layer1.0.conv2"\r\n' in config, config


def test_ctrl_c_leaves_no_half_bar(folder):
    """The terminal shows ^C after the bar, on the line that is cleared next."""
    flags = [*TINY[:-1], "--epochs", 1, "--synthetic-size", 20_000, "--eval-every", 0, "--lr", 0.001]
    process, terminal = open_screen(80, "train", *flags, "--run-dir", "a")
    text, end = "", time.monotonic() + 120
    while "] " not in text:
        assert time.monotonic() < end, text
        try:
            text += os.read(terminal, 65536).decode()
        except OSError as closed:
            raise Skip("it ended before it drew a bar") from closed
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    text += read_screen(process, terminal, 130)
    bars = [line for line in re.split(r"\r\033\[K", text) if "[" in line and "ETA" in line]
    if not bars:
        raise Skip("no bar was drawn")
    assert all(len(bar) <= 77 for bar in bars), bars
    assert len({bar.index("]") for bar in bars}) == 1, bars
    assert "stopped after step" in text and pathlib.Path("a/last.safetensors").exists(), text


main(globals())
