#!/usr/bin/env python3
"""tools/same_training.py: the comparison of two made-up folders finds each thing that differs, and nothing else.

    same_training_test.py TOOLS
"""
import json
import pathlib
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(TOOLS))
import same_training  # noqa: E402
from compare_runs import Change, Comparison  # noqa: E402


def checkpoint(weight=(1.0, 2.0), dtype="F32", more=(), metadata=(), checksum="1"):
    """An f32 vector and what else is asked for, as safetensors."""
    values = b"".join(struct.pack("<f", x) for x in weight)
    header = {"__metadata__": {"lathe.config": "lr = 0.1\nepochs = 2\n", "lathe.crc32c": checksum, **dict(metadata)},
              "fc.weight": {"dtype": dtype, "shape": [len(weight)], "data_offsets": [0, len(values)]}}
    for name in more:
        header[name] = {"dtype": "I64", "shape": [], "data_offsets": [len(values), len(values) + 8]}
        values += struct.pack("<q", 7)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + values


def metrics(loss=2.5, speed=100.0):
    return json.dumps({"epoch": 1, "loss": loss, "images_per_second": speed, "time": f"{speed}", "memory_peak_bytes": speed}) + "\n"


def event(value, tag=b"loss", time=1.0):
    data = b"\x09" + struct.pack("<d", time) + b"\x2a" + tag + struct.pack("<f", value)
    return struct.pack("<QI", len(data), 0) + data + bytes(4)


def folder_of(top, **changed):
    """A run's files and what a call said. A value None leaves a file out."""
    files = {"run/last.safetensors": checkpoint(), "run/metrics.jsonl": metrics(), "run/metrics.csv": "epoch,loss,time\n1,2.5,now\n",
             "run/events.out.tfevents.1700000000.host.17.0": event(2.5) + event(9, b"images_per_second"), "run/config.toml": "lr = 0.1\n",
             "run/log.txt": "2026-11-29 01:39:13 started\n", "call-1.code": "0\n", "call-1.stderr": "[0] from rank 0\n[1] from rank 1\n",
             "call-1.stdout": "epoch 1/2  train 2.5  0:01  saved best\ndone in 0:02, 3.1 % of training waited for data\n", **changed}
    for name, content in files.items():
        if content is not None:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return top


def compared(changes=(), setting="a", **changed):
    with tempfile.TemporaryDirectory() as scratch:
        old, new = (pathlib.Path(scratch) / who for who in ("old", "new"))
        return Comparison(setting, changes).folders(folder_of(old), folder_of(new, **changed))


def pretended(path, loss, code=0):
    """A program that trains in no time."""
    path.write_text(f"#!/bin/sh\n[ \"$1\" != --version ] || exec echo 'lathe 0 (0123456)'\nmkdir -p run\necho '{metrics(loss).strip()}' >run/metrics.jsonl\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class SameTraining(unittest.TestCase):
    def test_what_is_a_matter_of_time_is_no_difference(self):
        result = compared(**{
            "run/last.safetensors": checkpoint(checksum="2"), "run/metrics.jsonl": metrics(speed=7.0), "run/metrics.csv": "epoch,loss,time\n1,2.5,later\n",
            "run/events.out.tfevents.1700000000.host.17.0": None,
            "run/events.out.tfevents.1800000000.other.5.0": event(2.5, time=2.0) + event(8, b"images_per_second"),
            "run/log.txt": "2026-11-30 11:00:00 started\n", "call-1.stderr": "[1] from rank 1\n[0] from rank 0\n",
            "call-1.stdout": "epoch 2/2 3/4  loss 2.5  7 img/s  ETA 0:09\nepoch 1/2  train 2.5  1:11  saved best\ndone in 0:02, 99 % of training waited for data\n"})
        assert result.differences == [], result.differences
        assert result.compared == {"checkpoints": 1, "tensors": 1, "rows of metrics": 3, "lines": 9}, result.compared

    def test_each_difference_is_named(self):
        for name, content, text in (
                ("run/last.safetensors", checkpoint(weight=(1.0, 2.5)), "run/last.safetensors: fc.weight F32[2] differs in 1 elements, first in number 1: 2.0 and 2.5"),
                ("run/last.safetensors", checkpoint(weight=(1.0, 2.0, 3.0)), "fc.weight is F32[2] and F32[3]"),
                ("run/last.safetensors", checkpoint(dtype="I32"), "fc.weight is F32[2] and I32[2]"),
                ("run/last.safetensors", checkpoint(more=("rng.cpu",)), "rng.cpu is missing in OLD"),
                ("run/last.safetensors", checkpoint(metadata={"lathe.config": "lr = 0.1\nepochs = 3\n"}.items()), "metadata lathe.config, line 2:\n      old epochs = 2\n"),
                ("run/last.safetensors", checkpoint(metadata={"lathe.new": "1"}.items()), "metadata lathe.new"),
                ("run/last.safetensors", b"short", "run/last.safetensors cannot be compared"),
                ("run/metrics.jsonl", metrics(loss=2.6), "run/metrics.jsonl, row 1:\n      old {'loss': 2.5}\n      new {'loss': 2.6}"),
                ("run/metrics.jsonl", metrics() * 2, "run/metrics.jsonl: 1 rows and 2"),
                ("run/metrics.csv", "epoch,loss,time\n1,2.6,now\n", "run/metrics.csv, row 1:"),
                ("run/events.out.tfevents.1700000000.host.17.0", event(2.6) + event(9, b"images_per_second"), "run/events.out.tfevents.0, row 1:"),
                ("run/config.toml", "lr = 0.2\n", "run/config.toml, line 1:\n      old lr = 0.1\n      new lr = 0.2"),
                ("run/best.safetensors", checkpoint(), "only NEW has run/best.safetensors"),
                ("run/log.txt", None, "only OLD has run/log.txt"),
                ("call-1.code", "7\n", "call-1.code, line 1:\n      old 0\n      new 7"),
                ("call-1.stderr", "[0] from rank 0\n", "call-1.stderr, line 2:\n      old [1] from rank 1")):
            result = compared(**{name: content})
            assert len(result.differences) == 1 and text in result.differences[0], (text, result.differences)

    def test_a_change_explains_its_lines_and_no_others(self):
        change = Change("abc", "says more", old="\\[1\\] from rank 1", new="\\[1\\] from the second rank|note: .*")
        for said, differences in (("[0] from rank 0\n[1] from the second rank\n", 0), ("note: x\n[0] from rank 0\n[1] from rank 1\n", 0),
                                  ("[0] from rank 0\n[1] from the third rank\n", 1), ("[0] from rank 0\n[1] from the second rank, too\n", 1)):
            result = compared((change,), **{"call-1.stderr": said})
            assert len(result.differences) == differences and result.explained == [change], (said, result.differences)

    def test_a_mended_defect_changes_the_numbers_of_its_settings_alone(self):
        change = Change("abc", "a batch counts by its images", results=("a",))
        numbers = {"run/last.safetensors": checkpoint(weight=(1.0, 2.5)), "run/metrics.jsonl": metrics(loss=2.6), "run/config.toml": "lr = 0.2\n"}
        result = compared((change,), **numbers)
        assert result.differences == [] and result.explained == [change], result.differences
        assert len(compared((change,), setting="b", **numbers).differences) == 3
        for name, content in (("run/last.safetensors", checkpoint(more=("rng.cpu",))), ("run/config.toml", "rate = 0.1\n"), ("run/metrics.jsonl", metrics() * 2)):
            assert len(compared((change,), **{name: content}).differences) == 1, name

    def test_two_programs_are_run_and_judged(self):
        with tempfile.TemporaryDirectory() as scratch:
            old, new = (pathlib.Path(scratch) / who for who in ("old", "new"))
            pretended(old, 2.5)
            for loss, code, exit_code, verdict in ((2.5, 0, 0, "same     bf16"), (2.6, 0, 7, "DIFFERS  bf16"), (2.5, 3, 7, "ended with 3, not 0")):
                pretended(new, loss, code)
                ran = subprocess.run([sys.executable, TOOLS / "same_training.py", old, new, "--only", "bf16"], capture_output=True, text=True)
                assert ran.returncode == exit_code and verdict in ran.stdout, (verdict, ran)

    def test_there_are_24_settings_with_names_of_their_own(self):
        beside = {"accumulate-smaller-batch", "two-ranks-sync-batch-norm", "other-commands"}
        assert len(same_training.SETTINGS.keys() - beside) == 24 and not same_training.SETTINGS.keys() & same_training.GPU_SETTINGS.keys()
        known = {*same_training.SETTINGS, *same_training.GPU_SETTINGS}
        assert all(set(change.results) <= known for change in same_training.CHANGES)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
