#!/usr/bin/env python3
"""Flags, settings, help and what is printed, seen from outside. `algos` and `info` have tests of their own.

    usage_test.py LATHE [--sanitized]
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import stat
import struct
import subprocess
import termios
import zipfile

from driver import LATHE, SANITIZED, Skip, check_shown, environment, expect, expect_one_line, lathe, main
from runs import crc32c, write_png, write_safetensors

EXAMPLE_CACHE = pathlib.Path(__file__).resolve().parent.parent / "ops/conv_search/example_cache.json"


def test_mistakes_in_the_call_are_one_line_and_exit_2(folder):
    alone = expect(lathe(), 2)
    assert not alone.stdout and "lathe train --model" in alone.stderr
    expect_one_line(lathe("inf"), 2, "inf: unknown command; did you mean lathe info?")
    for call, says in (("--json info", "--json: the command comes first; did you mean lathe info --json?"),
                       ("--json data fetch", "--json: the command comes first; did you mean lathe data fetch --json?"),
                       ("--lr 0.1", "--lr: the command comes first; did you mean lathe train --lr?"),
                       ("--lerning-rate=0.1", "--lerning-rate: the command comes first; did you mean lathe train --lr?"),
                       ("--worst 4", "--worst: the command comes first; did you mean lathe eval --worst?"),
                       ("--zzzzzzzz", "--zzzzzzzz: the command comes first; lathe --help lists all"),
                       ("-", "-: the command comes first; lathe --help lists all"),
                       ("train --lerning-rate 0.1", "--lerning-rate: unknown flag; did you mean --lr?")):
        expect_one_line(lathe(*call.split()), 2, f"lathe: {says}\n")
    expect_one_line(lathe("info", "--jsn"), 2, "--jsn: unknown flag; did you mean --json?")
    expect_one_line(lathe("info", "x"), 2, 'unexpected argument "x"')
    expect_one_line(lathe("export", "a"), 2, "export: unknown command; did you mean lathe ckpt convert FILE OUT.onnx?")
    for word, meant in (("fine-tune", "train --weights FILE --new-head"), ("onnx", "ckpt convert FILE OUT.onnx"), ("version", "--version"),
                        ("classify", "predict")):
        expect_one_line(lathe(word, "a"), 2, f"{word}: unknown command; did you mean lathe {meant}?")
    expect_one_line(lathe("ckpt", "verify", "a"), 2, "did you mean lathe ckpt verify-resume --run-dir DIR?")
    expect_one_line(lathe("zzzzzz"), 2, "zzzzzz: unknown command; lathe --help lists all")
    for flag, meant in (("--data", "data-root"), ("--out", "run-dir"), ("--pretrained", "weights"), ("--gpu", "device cuda:N"), ("-b", "batch-size"),
                        ("--freeze-backbone", "freeze backbone"), ("--train-dir", "data-root"), ("--checkpoint", "weights"), ("--arch", "model"),
                        ("--batch", "batch-size"), ("--learning-rate", "lr"), ("--name", "run-dir"), ("--fp16", "amp fp16")):
        expect_one_line(lathe("train", flag, "8"), 2, f"{flag}: unknown flag; did you mean --{meant}?")
    pathlib.Path("a.onnx").write_bytes(b"x")
    expect_one_line(lathe("predict", "a.onnx", "cat.jpg"), 2, "which model? For that of the file, give --weights a.onnx")
    expect_one_line(lathe("eval", "a.onnx"), 2, 'unexpected argument "a.onnx"; did you mean --weights a.onnx?')
    # In eval and predict --run-dir is what is read.
    text = " ".join(expect(lathe("help", "predict"), 0).stdout.split())
    assert "your own images; packed: a file that data prepare wrote [as the run or checkpoint]" in text and "what suits the machine" not in text, text
    assert "run-dir" not in expect_one_line(lathe("predict", "--out", "p.csv"), 2, "--out: unknown flag").stderr
    expect_one_line(lathe("data", "verify", "folder", "--data-root", "pets"), 2, "name the folder itself: lathe data verify pets")
    expect_one_line(lathe("info", "--config", "nowhere.toml"), 2, "nowhere.toml: cannot read the config file")
    expect_one_line(lathe("info", "--config"), 2, "--config")
    expect_one_line(lathe("info", "--config", ""), 2, '--config: expected FILE, got ""')
    expect_one_line(lathe("info", "--config", folder), 2, f"{folder}: cannot read the config file: Is a directory")
    os.mkfifo("fifo")
    expect_one_line(lathe("info", "--config", "fifo"), 2, "fifo: cannot read the config file: it is a named pipe")
    expect_one_line(lathe("info", "--config", "/dev/zero"), 2, "/dev/zero: cannot read the config file: it has more than")


def test_a_config_file_that_is_a_pipe_counts(folder):
    """It can be read once: a command that began again would find nothing."""
    text = 'model = "resnet8"\n'
    expected = expect(lathe("summary", "--model", "resnet8"), 0).stdout
    assert expected != expect(lathe("summary"), 0).stdout
    assert expect(lathe("summary", "--config", "/dev/stdin", input=text), 0).stdout == expected
    read, write = os.pipe()  # as of a shell's <(…)
    os.write(write, text.encode())
    os.close(write)
    assert expect(lathe("summary", "--config", f"/dev/fd/{read}", pass_fds=[read]), 0).stdout == expected
    os.close(read)
    # A recipe is applied below the file that names it, which is not read again for that.
    plan = expect(lathe("train", "--config", "/dev/stdin", "--dataset", "synthetic", "--dry-run", input='recipe = "cifar10-94"\nlr = 0.3\n'), 0).stdout
    assert "\nlr = 0.3\n" in plan and "\nbatch-size = 512\n" in plan, plan


def test_openmp_waits_passively_and_nothing_starts_anew(folder):
    step = ["bench", "step", "--model", "resnet8", "--batch-size", "8", "--seconds", "0.1", "--json"]
    for said, spins in (({}, "0"), ({"OMP_WAIT_POLICY": "active"}, "30000000000"), ({"GOMP_SPINCOUNT": "1234"}, "1234")):
        unset = {k: v for k, v in environment(OMP_DISPLAY_ENV="verbose", **said).items()
                 if k in said or k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        result = subprocess.run([LATHE, *step], env=unset, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect(result, 0)
        if "OPENMP DISPLAY ENVIRONMENT BEGIN" not in result.stderr:
            raise Skip("without oneDNN, or not with OpenMP")
        assert result.stderr.count("OPENMP DISPLAY ENVIRONMENT BEGIN") == 1, result.stderr
        found = re.search(r"GOMP_SPINCOUNT = '(\d+)'", result.stderr)
        assert not found or found[1] == spins, (said, result.stderr)


def test_errors_do_not_command_the_terminal(folder):
    expect_one_line(lathe("info", "--\033[31m\nx"), 2, "--\\x1b[31m\\nx: unknown flag")


EVIL = "w\033]0;title\007\n\u009b31m\u202e\x7f"
SHOWN = "w\\x1b]0;title\\x07\\n\\u009b31m\\u202e\\u007f"  # the same for people


def test_names_in_files_do_not_command_the_terminal(folder):
    write_safetensors("a", {EVIL: [1], "x": [1]}, {EVIL: EVIL, "lines": "1\n2"})
    write_safetensors("b", {EVIL: [2], "other" + EVIL: [0]}, {})
    write_safetensors("c" + EVIL, {"x": [1], "y": []}, {})
    for flags in ([], ["--json"]):
        shown = check_shown(expect(lathe("ckpt", "show", "a", *flags), 0))
        check_shown(expect_one_line(lathe("ckpt", "diff", "a", "b", *flags), 7, "3 of 3 entries differ"))
        check_shown(expect_one_line(lathe("ckpt", "diff", "a", "c" + EVIL, *flags), 7, "2 of 3 entries differ"))
        check_shown(expect(lathe("ckpt", "convert", "a", "d" + EVIL + ".npz", *flags), 0))
    text = lathe("ckpt", "show", "a").stdout
    assert f"model      {SHOWN}" in text and f"\n{SHOWN} =\n  w\\x1b]0;title\\x07\n  \\u009b31m" in text, text
    assert "\nlines =\n  1\n  2\n" in text, "lines stay lines, and cannot be taken for entries"
    row = json.loads(lathe("ckpt", "show", "a", "--json").stdout.splitlines()[0])
    assert row["name"] == EVIL, "programs get it as it is"

    cache = json.loads(EXAMPLE_CACHE.read_text())
    cache["choices"][0]["candidates"][0]["note"] = EVIL
    text = json.dumps(cache["choices"], separators=(",", ":"), ensure_ascii=False).encode()
    cache["checksum"] = f"crc32c {crc32c(text)}"
    pathlib.Path("algos.json").write_text(json.dumps(cache, indent=1))
    for flags in ([], ["--json"]):
        check_shown(expect(lathe("algos", "show", "--algo-cache", "algos.json", *flags), 0))
    pathlib.Path("algos.json").write_text("[1]")
    expect_one_line(lathe("algos", "show", "--algo-cache", "algos.json"), 3,
                    'algos.json: convolution cache: holds an array where an object with "format" is expected\n')


def test_an_empty_value_is_never_the_next_argument(folder):
    train = ["train", "--dataset", "synthetic", "--model", "resnet8", "--synthetic-size", 8, "--max-steps", 1]
    expect_one_line(lathe(*train, "--run-dir=", "--dry-run"), 2, '--run-dir: expected DIR, got ""')
    expect_one_line(lathe(*train, "--run-dir", "--dry-run"), 2, "--run-dir: expected DIR, got --dry-run; ")
    expect_one_line(lathe(*train, "--run-dir"), 2, "--run-dir: expected DIR, got nothing")
    expect_one_line(lathe("summary", "--model=", "resnet8"), 2, "--model: expected ", 'got ""')
    assert list(folder.iterdir()) == [], "nothing was begun"
    expect(lathe("summary", "--model", "resnet8", env={"LATHE_STEM": "", "LATHE_CLASSES": ""}), 0)  # an empty variable is none


def test_convert_replaces_only_weights_of_the_format_it_writes(folder):
    write_safetensors("w.safetensors", {"x": [1, 2]}, {})
    write_safetensors("checkpoint", {"x": [1, 2]}, {"lathe.checkpoint": "1", "lathe.parts": "model"})
    expect(lathe("ckpt", "convert", "w.safetensors", "w.npz"), 0)
    with zipfile.ZipFile("notes.zip", "w") as archive:
        archive.writestr("notes.txt", "notes")
    contents = {"text": b"notes", "archive": pathlib.Path("notes.zip").read_bytes(), "npz": pathlib.Path("w.npz").read_bytes(),
                "safetensors": pathlib.Path("w.safetensors").read_bytes(), "checkpoint": pathlib.Path("checkpoint").read_bytes(),
                "onnx": b"\x08\x07\x12\x07pytorch"}
    for suffix in ("safetensors", "npz", "onnx"):
        for what, content in contents.items():
            out = pathlib.Path(f"{what}-there.{suffix}")
            out.write_bytes(content)
            result = lathe("ckpt", "convert", "w.safetensors", out)
            if what == suffix != "onnx":
                expect(result, 0)
            else:
                expect_one_line(result, 2, f"{out} ", "; expected a new file")
                assert out.read_bytes() == content, out
        out = f"pipe.{suffix}"
        os.mkfifo(out)
        expect_one_line(lathe("ckpt", "convert", "w.safetensors", out), 2, f"{out} is no regular file; expected a new file")
        assert stat.S_ISFIFO(os.stat(out).st_mode)
        pathlib.Path(f"empty.{suffix}").touch()
        expect(lathe("ckpt", "convert", "w.safetensors", f"empty.{suffix}"), 2 if suffix == "onnx" else 0)  # these are no model's


def test_environment_and_config_files_are_checked(folder):
    expect_one_line(lathe("info", env={"LATHE_JSON": "perhaps"}), 2, "LATHE_JSON: expected true or false")
    (folder / "run.toml").write_text("# a run\njsn = true\n")
    expect_one_line(lathe("info", "--config", "run.toml"), 2, "run.toml:2: jsn: unknown key; did you mean json?")


def test_flags_beat_the_environment_which_beats_the_file(folder):
    (folder / "run.toml").write_text("json = true\n")
    def is_json(*arguments, **env):
        return expect(lathe("info", *arguments, env=env), 0).stdout.startswith("{")
    assert not is_json()
    assert is_json("--config", "run.toml")
    assert not is_json("--config", "run.toml", LATHE_JSON="false")
    assert is_json("--config", "run.toml", "--json", LATHE_JSON="false")


def test_a_flag_that_decides_nothing_is_a_warning(folder):
    summary = ["summary", "--model", "resnet8", "--stem", "imagenet"]
    expect_one_line(lathe(*summary), 0, "warning: --stem has no effect with --model resnet8, only with resnet18, resnet34, resnet50, resnet101, resnet152, wide_resnet50_2 or wide_resnet101_2\n")
    assert expect(lathe(*summary[:3], env={"LATHE_STEM": "imagenet"}), 0).stderr == ""
    (folder / "run.toml").write_text('stem = "imagenet"\n')
    assert expect(lathe(*summary[:3], "--config", "run.toml"), 0).stderr == ""


def test_a_training_names_all_flags_that_decide_nothing(folder):
    flags = ["--data-root", "x", "--workers", 0, "--prefetch-factor", 3, "--weight-decay", 0, "--no-decay-norm", "--tf32", "--cudnn-benchmark",
             "--workspace-limit", 5, "--capture", "--algo-cache", "x", "--sync-batch-norm", "--allow-changes", "--profile-steps", "1:2",
             "--scheduler", "step", "--epochs", 3, "--warmup-epochs", 0.0001]
    shown = expect(lathe("train", "--dataset", "synthetic", "--model", "resnet8", "--device", "cpu", *flags, "--dry-run"), 0).stderr
    named = re.findall(r"^warning: --(\S+) ", shown, re.M)
    assert named == ["data-root", "prefetch-factor", "no-decay-norm", "tf32", "cudnn-benchmark", "workspace-limit", "algo-cache", "capture", "allow-changes",
                     "profile-steps", "sync-batch-norm", "warmup-epochs", "step-size"], shown


def test_help_and_version_go_to_stdout(folder):
    for arguments in (["--help"], ["help"], ["info", "--help"], ["help", "info"], ["--version"]):
        result = expect(lathe(*arguments), 0)
        assert result.stdout and not result.stderr, arguments
    assert lathe("--version").stdout.startswith("lathe ")


def test_a_mistyped_variable_is_named(folder):
    values = {"LATHE_BATCHSIZE": "3", "LATHE_TRHEADS": "2", "LATHE_HOME": "/opt", "LATHE_LOG": "x", "LATHE_TEST_THREADS": "2"}
    warned = expect(lathe("train", "--dataset", "synthetic", "--dry-run", env=values), 0).stderr
    assert re.findall(r"warning: (LATHE_.*)", warned) == [
        "LATHE_BATCHSIZE is not a setting; did you mean LATHE_BATCH_SIZE?", "LATHE_TRHEADS is not a setting; did you mean LATHE_THREADS?"], warned
    assert "LATHE_" not in expect(lathe("train", "--dataset", "synthetic", "--dry-run", "--quiet", env=values), 0).stderr


def columns(text):
    return max(map(len, text.splitlines()))


def test_help_fits_100_columns_or_the_terminal(folder):
    commands = re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  ", expect(lathe("--help"), 0).stdout, re.M)
    assert len(commands) > 20, commands
    for name in commands:
        text = expect(lathe(*name.split(), "--help"), 0).stdout
        assert columns(text) <= 100 and f"Usage: lathe {name} [flags]" in text, text
        assert re.search(rf"^  .*lathe {name}", text, re.M), text  # the example
    headings = re.findall(r"^([A-Z][a-z ]+):$", lathe("train", "--help").stdout, re.M)
    assert headings == ["Recipe", "Data", "Loading", "Model", "Optimisation", "Precision", "Speed", "Run", "Output", "Other"], headings
    for wide, least, most in ((40, 50, 60), (60, 50, 60), (80, 70, 80), (200, 90, 100)):
        assert least < columns(on_terminal("train", "--help", columns=wide)) <= most, wide


def test_the_completion_scripts_have_flags_and_values(folder):
    expect_one_line(lathe("completion", "sh"), 2, 'expected bash, zsh or fish, got "sh"')
    for shell, sign in (("bash", "complete -o"), ("zsh", "#compdef lathe"), ("fish", "complete -c lathe ")):
        text = expect(lathe("completion", shell), 0).stdout
        assert sign in text and "val-split" in text and "cifar10 cifar100" in text, shell


def test_the_manual_page_has_every_command_and_flag(folder):
    page = expect(lathe("man"), 0).stdout
    plain = page.replace("\\-", "-")
    assert page.startswith(".TH LATHE 1 ")
    for flag in re.findall(r"^  (--\S+)", lathe("train", "--help").stdout, re.M):
        assert flag == "--config" or f"\n.B {flag}" in plain, flag
    assert "\n.B ckpt verify-resume\nTrain twice" in plain
    if shutil.which("groff"):
        shown = expect(subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True), 0)
        assert not shown.stderr and "verify-resume" in shown.stdout, shown.stderr


def on_terminal(*arguments, columns):
    """stdout of a call whose terminal is so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([LATHE, *arguments], stdout=theirs, env=environment())
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:  # how the end of a terminal is told
        pass
    os.close(ours)
    assert process.wait() == 0
    return text.decode().replace("\r\n", "\n")


def test_eval_fits_a_narrow_terminal(folder):
    """Names of classes may be as long as ImageNet's."""
    names = ["cat", "German short-haired pointer, a dog whose name is longer than a narrow terminal is wide"]
    for part, count in (("train", 4), ("test", 2)):
        for name in names:
            for k in range(count):
                write_png(pathlib.Path("pets", part, name, f"{k}.png"), 8, [bytes([40 * k] * 24)] * 8)
    result = lathe("train", "--dataset", "folder", "--data-root", "pets", "--image-size", 16, "--model", "resnet8", "--batch-size", 4, "--epochs", 1,
                   "--quiet", "--run-dir", "a")
    if "this build has no libpng" in result.stderr:
        raise Skip("this build has no libpng")
    expect(result, 0)
    for wide in (40, 60, 80):
        text = on_terminal("eval", "--run-dir", "a", "--worst", "4", "--progress", "none", "--no-quiet", columns=wide)
        files = [line for line in text.splitlines() if line.endswith(".png")]  # whole, to be copied; classes are broken between words
        assert len(files) == 2 and all(re.fullmatch(rf"    pets/test/({'|'.join(names)})/[01]\.png", line) for line in files), text
        assert columns("\n".join(line for line in text.splitlines() if line not in files)) <= wide, text
        words = " ".join(text.split())
        assert words.count(names[1]) >= 2 and "taken for" in words and " % of 2" in words, text
        assert wide == 80 or re.search(r"\n  German [^\n]*\n    \w", text), "the rest of a name is indented by more than the row"


def test_help_is_quick(folder):
    """30 ms of processor time (5 where nothing else runs) and 64 MiB; NVIDIA's libraries alone would take 70 ms and 200 MiB. Not
    by the clock, and the best of many, so that a busy machine does not fail."""
    best = least = 1e9
    for _ in range(40):
        process = subprocess.Popen([LATHE, "--help"], stdout=subprocess.DEVNULL, env=environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        best, least = min(best, usage.ru_utime + usage.ru_stime), min(least, usage.ru_maxrss)
    assert best < (0.2 if SANITIZED else 0.03), f"{best * 1000:.1f} ms"
    assert SANITIZED or least < 64 << 10, f"{least >> 10} MiB"


def test_closed_and_full_stdout_exit_1(folder):
    with open("/dev/full", "w") as full:
        expect_one_line(lathe("info", stdout=full), 1, "stdout: No space left on device")
    closed = subprocess.run(["/bin/sh", "-c", f'"{LATHE}" info >&-'], stderr=subprocess.PIPE, text=True, env=environment())
    expect_one_line(closed, 1, "stdout: closed")
    read, write = os.pipe()
    os.close(read)
    expect_one_line(lathe("info", stdout=write), 1, "stdout: closed by its reader, as `| head` does\n")
    os.close(write)


main(globals())
