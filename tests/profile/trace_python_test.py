#!/usr/bin/env python3
"""Reads a trace with Python's json, checks that viewers can rely on it (trace_format.py), and what it says.

    trace_python_test.py WRITE_TRACE
"""
import collections
import pathlib
import subprocess
import sys
import tempfile

import trace_format


def read(folder):
    path = pathlib.Path(folder) / "trace.json"
    subprocess.run([sys.argv[1], str(path)], check=True, stdout=subprocess.DEVNULL)
    return trace_format.parse(path.read_bytes().decode("utf-8", errors="strict"))


def check_content(events):
    named = collections.Counter(event["name"] for event in events if event["ph"] == "X")
    for name, count in {"step": 3, "conv2d": 2, "conv2d backward": 2, "linear backward": 2, "SGD.step": 2, "backward pass": 2}.items():
        assert named[name] == count, (name, named)
    hostile = [name for name in named if name.startswith("hostile")]
    assert hostile == ['hostile " \\ \\n \\x01 \\u202e </script> \\xff'], hostile
    conv = next(event for event in events if event["name"] == "conv2d")
    assert conv["args"]["inputs"].startswith("f32[2,3,8,8], f32[4,3,3,3]"), conv
    assert conv["args"]["flops"] == 2 * 2 * 4 * 8 * 8 * 27, conv
    memory = [event["args"]["host bytes"] for event in events if event["ph"] == "C"]
    assert memory and all(isinstance(value, int) for value in memory)
    threads = [event for event in events if event["ph"] == "M" and event["name"] == "thread_name"]
    assert len(threads) == len({event["tid"] for event in events if event["ph"] == "X"}), threads


def main():
    with tempfile.TemporaryDirectory() as folder:
        trace = read(folder)
    events = trace["traceEvents"]
    rows, flows = trace_format.check(trace)
    assert len(rows) >= 3 and flows, "the main thread and two others, and arrows from ops to gradients"
    check_content(events)
    trace_format.check_that_faults_are_found(trace)
    print(f"{len(events)} events of {len(rows)} threads, {len(flows)} arrows")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
