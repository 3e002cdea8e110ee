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
    check_width(read_screen(*open_screen(80, "bench", "kernels", "add", "--seconds", 0.01)), 80)
    # What may be copied stays as it is.
    config = read_screen(*open_screen(60, "train", *TINY, "--freeze", "conv1, bn1, layer1.0.conv1, layer1.0.bn1, layer1.0.conv2", "--dry-run"))
    assert 'freeze = "conv1, bn1, layer1.0.conv1, layer1.0.bn1, layer1.0.conv2"\r\n' in config, config


STEP = ["bench", "step", "--device", "cpu", "--model", "resnet8", "--batch-size", 2, "--image-size", 16, "--seconds", 0.05, "--peak-gflops", 50, "--peak-gbytes", 10]


def test_tables_give_way_to_a_narrow_terminal(folder):
    """Each row is one line. What the rows have in common is a line above them, and columns that have no room are named."""
    if SANITIZED:
        raise Skip("these commands take seconds there")
    plan = ["plan", "--device", "cpu", "--model", "resnet8", "--batch-size", 4, "--gpu", "h200"]
    algos = ["algos", "plan", "--model", "resnet8", "--batch-size", 4, "--gpu", "h200"]
    has_cudnn = lathe(*algos, "--json").returncode == 0
    for columns, numbers in ((80, 5), (60, 4)):
        shown = read_screen(*open_screen(columns, *plan)).replace("\r", "")
        check_width(shown, columns)
        assert re.search(r"\nconv2d  layer1\.0\.conv1\n  cuDNN" + r" +\d+\.\d+" * numbers + "\n", shown), shown
        assert ("60 columns have no room for GFLOP; a file or a pipe gets it" in shown) == (columns == 60), shown
        shown = read_screen(*open_screen(columns, *STEP, "--layers", "--profile")).replace("\r", "")
        check_width(shown, columns)
        group = r"\nlayer1\.0\.conv1  2 x" + (r"\n  " if columns == 60 else " ")
        assert re.search(group + r"forward( +[\d.]+){2} +[\d.]+ % +[\d.]+ %\n", shown), shown
        assert re.search(r"\nconv2d +\d+\.\d+% +\d+\.\d+[mu]?s[ \n]", shown) and f"{columns} columns have no room for Self CPU Mem, CPU Mem," in shown.replace("\n  ", " "), shown
        if has_cudnn:
            shown = read_screen(*open_screen(columns, *algos)).replace("\r", "")
            check_width(shown, columns)
            assert re.search(r"\nlayer1\.0\.conv1  2 x\n  forward +[\d.]+ \w+ +(yes|no) ", shown), shown
            assert f"{columns} columns have no room for " in shown, shown


def test_names_of_files_and_classes_stay_whole(folder):
    """Also a file that is wider than the terminal, which breaks it itself: copied, it is one name."""
    names = ("beagle", "German short-haired pointer")
    root = "My data sets/Oxford-IIIT Pets/images"
    for part in ("train", "test"):
        for name in names:  # the same image: one of the two is a mistake, whatever the model says
            write_png(folder / root / part / name / "IMG 1.png", 16, [bytes([100] * 48)] * 16)
    result = lathe("train", "--data-root", root, "--model", "resnet8", "--image-size", 8, "--threads", 1, "--max-steps", 1, "--run-dir", "a", "--quiet")
    if "this build has no libpng" in result.stderr:
        raise Skip("this build has no libpng")
    expect(result, 0)

    def lines_of(*arguments):
        lines = read_screen(*open_screen(60, *arguments)).replace("\r", "").splitlines()
        check_width("\n".join(line for line in lines if "IMG 1.png" not in line), 60)
        return lines
    file = f"{root}/test/{names[1]}/IMG 1.png"
    assert len(file) > 60
    first, classes = lines_of("predict", "--run-dir", "a", file, "--top", 5)
    assert first == file + ":" and re.fullmatch(r"  \w.* [\d.]+ %, \w.* [\d.]+ %", classes) and all(name in classes for name in names), (first, classes)
    heading, label, predicted, path = lines_of("predict", "--run-dir", "a", "--index", 0)
    assert heading.split() == ["index", "label", "predicted", "probability"] and label == f"      0  {names[1]}" and path == " " * 9 + file, (heading, label, path)
    assert re.fullmatch(r" {9}\w.* [01]\.\d{4}(  wrong)?", predicted), predicted
    assert heading.index("predicted") - heading.index("label") == 16, heading  # 9 + 2 * 16 + 11 leave room for "  wrong"
    _, label, predicted, path = lines_of("eval", "--run-dir", "a", "--worst", 2, "--quiet")
    label, predicted = re.fullmatch(r"  image \d: (.*) taken for", label), re.fullmatch(r"    (.*) \([\d.]+ %\), loss [\d.]+,", predicted)
    assert label and predicted and {label[1], predicted[1]} == set(names) and path == f"    {root}/test/{label[1]}/IMG 1.png", (label, predicted, path)
    assert " ".join(lines_of("find-batch", *STEP[4:6], "--max-batch", 1, "--device", "cpu")).startswith("resnet8, images of 32 x 32, on cpu with ")


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
