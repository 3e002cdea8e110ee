#!/usr/bin/env python3
"""Reads a trace with Python's json and checks what viewers rely on.

    trace_python_test.py WRITE_TRACE
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

PHASES = {"X", "M", "C", "s", "f"}


def read(folder):
    path = pathlib.Path(folder) / "trace.json"
    subprocess.run([sys.argv[1], str(path)], check=True, stdout=subprocess.DEVNULL)
    return json.loads(path.read_bytes().decode("utf-8", errors="strict"))


def nanoseconds(us):
    return round(1000 * us)


def check_fields(events):
    for event in events:
        assert event["ph"] in PHASES and event["name"] and isinstance(event["pid"], int), event
        if event["ph"] != "M":
            assert event["ts"] >= 0, event
        if event["ph"] == "X":
            assert event["dur"] >= 0 and isinstance(event["tid"], int) and event["cat"], event


def check_nesting(events):
    """The ranges of a thread contain each other or are apart."""
    rows = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = nanoseconds(event["ts"])
            rows[event["tid"]].append((begin, -(begin + nanoseconds(event["dur"])), event["name"]))
    assert len(rows) >= 3, "the main thread and two others"
    for row in rows.values():
        open_ends = []
        for begin, minus_end, name in sorted(row):
            while open_ends and open_ends[-1][0] <= begin:
                open_ends.pop()
            assert not open_ends or -minus_end <= open_ends[-1][0], f"{name} ends after {open_ends[-1][1]}"
            open_ends.append((-minus_end, name))
    return rows


def check_flows(events):
    """Every arrow has two ends, each inside a range of its thread, and leads forward in time."""
    ends = collections.defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            assert event["ph"] not in ends[event["id"]], event
            ends[event["id"]][event["ph"]] = event
    assert ends, "no arrows"
    starts = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            starts[event["tid"]].append((nanoseconds(event["ts"]), nanoseconds(event["ts"] + event["dur"])))
    for pair in ends.values():
        assert set(pair) == {"s", "f"}, pair
        assert pair["s"]["ts"] <= pair["f"]["ts"], pair
        assert pair["f"]["bp"] == "e", pair
        for end in pair.values():
            at = nanoseconds(end["ts"])
            assert any(first <= at <= last for first, last in starts[end["tid"]]), end
    return ends


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
    check_fields(events)
    rows = check_nesting(events)
    flows = check_flows(events)
    check_content(events)
    print(f"{len(events)} events of {len(rows)} threads, {len(flows)} arrows")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
