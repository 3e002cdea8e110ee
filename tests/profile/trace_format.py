"""Checks a trace against the Trace Event Format of Chrome's catapult project: what viewers rely on, and nothing else in the file.

As a program: trace_format.py TRACE.json…
"""
import collections
import copy
import json
import math
import pathlib
import sys
import unicodedata

# Required and further keys by phase: complete events, metadata, counters, the begin and the end of a flow.
KEYS = {"X": ({"name", "cat", "ph", "pid", "tid", "ts", "dur"}, {"args"}), "M": ({"name", "ph", "pid", "args"}, {"tid"}),
        "C": ({"name", "ph", "pid", "ts", "args"}, {"id", "cat"}), "s": ({"name", "cat", "ph", "id", "pid", "tid", "ts"}, {"args"}),
        "f": ({"name", "cat", "ph", "id", "pid", "tid", "ts", "bp"}, {"args"})}
METADATA = {"process_name": "name", "process_labels": "labels", "thread_name": "name"}  # and the argument of each
ABOVE = {"traceEvents", "displayTimeUnit", "otherData"}


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def parse(text):
    """As strict as JSON is: no NaN, no name twice in an object."""
    def unique(pairs):
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), f"a name twice: {names}"
        return dict(pairs)

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)


def check_text(text):
    assert isinstance(text, str) and not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in text), ascii(text)


def check_event(event):
    phase = event.get("ph")
    assert phase in KEYS, event
    required, further = KEYS[phase]
    assert required <= set(event) <= required | further, (required ^ set(event), event)
    check_text(event["name"])
    for key in {"pid", "tid"} & set(event):
        assert is_whole(event[key]) and 0 <= event[key] < 2 ** 32, event  # Perfetto keeps 32 bits
    for key in {"ts", "dur"} & set(event):
        assert (is_whole(event[key]) or isinstance(event[key], float)) and math.isfinite(event[key]) and event[key] >= 0, event
    if "cat" in event:
        assert event["cat"] and all(word == word.strip() != "" for word in event["cat"].split(",")), event
    if "id" in event:
        assert is_whole(event["id"]) or isinstance(event["id"], str), event
    args = event.get("args", {})
    assert isinstance(args, dict), event
    if phase == "M":
        assert event["name"] in METADATA and set(args) == {METADATA[event["name"]]}, event
        assert "tid" in event or event["name"].startswith("process_"), event
    if phase == "C":
        assert args and all(is_whole(v) or isinstance(v, float) for v in args.values()), event
    if phase == "f":
        assert event["bp"] == "e", event
    for key, value in args.items():
        check_text(key)
        if isinstance(value, str):
            check_text(value)


def nanoseconds(us):
    return round(1000 * us)


def slices_of(events):
    """(process, thread) → (begin, end, name) of its complete events, the outer ones first."""
    rows = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = nanoseconds(event["ts"])
            rows[event["pid"], event["tid"]].append((begin, begin + nanoseconds(event["dur"]), event["name"]))
    return {row: sorted(slices, key=lambda s: (s[0], -s[1])) for row, slices in rows.items()}


def check_nesting(rows):
    """The slices of a thread contain each other or are apart."""
    for slices in rows.values():
        open_slices = []
        for begin, end, name in slices:
            while open_slices and open_slices[-1][1] <= begin:
                open_slices.pop()
            assert not open_slices or end <= open_slices[-1][1], f"{name} ends after {open_slices[-1][2]}, in which it began"
            open_slices.append((begin, end, name))


def check_flows(events, rows):
    """Each arrow has one begin and one end with the same name and category, forward in time, each inside of a slice."""
    flows = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            flows[event["id"]].append(event)
    for ends in flows.values():
        by_phase = {event["ph"]: event for event in ends}
        assert len(ends) == 2 and set(by_phase) == {"s", "f"}, ends
        begin, end = by_phase["s"], by_phase["f"]
        assert (begin["name"], begin["cat"]) == (end["name"], end["cat"]) and begin["ts"] <= end["ts"], ends
        for event in ends:
            at = nanoseconds(event["ts"])
            assert any(first <= at <= last for first, last, _ in rows.get((event["pid"], event["tid"]), ())), event
    return flows


def check_names(events, rows):
    """Each thread with slices has one name."""
    named = collections.Counter((event["pid"], event["tid"]) for event in events if event["ph"] == "M" and event["name"] == "thread_name")
    assert set(named) == set(rows) and set(named.values()) <= {1}, (named, list(rows))


def check(trace):
    """→ the slices by thread, and the arrows"""
    assert isinstance(trace, dict) and {"traceEvents"} <= set(trace) <= ABOVE, list(trace)
    assert trace.get("displayTimeUnit", "ms") in ("ms", "ns"), trace["displayTimeUnit"]
    events = trace["traceEvents"]
    for event in events:
        check_event(event)
    rows = slices_of(events)
    check_nesting(rows)
    check_names(events, rows)
    return rows, check_flows(events, rows)


def check_that_faults_are_found(trace):
    """Damages a sound trace in each way that a viewer would trip over."""
    def first(phase, events):
        return next(event for event in events if event["ph"] == phase)

    def longer(events):
        """A slice that is inside of another one ends after it."""
        for slices in slices_of(events).values():
            for (begin, end, _), (inner, inner_end, name) in zip(slices, slices[1:]):
                if begin <= inner < inner_end <= end:
                    event = next(e for e in events if e["ph"] == "X" and e["name"] == name and nanoseconds(e["ts"]) == inner)
                    event["dur"] += (end - inner_end) / 1000 + 1
                    return
        raise AssertionError("no slice is inside of another one")

    def unnamed(events):
        events.remove(next(event for event in events if event["name"] == "thread_name"))

    faults = [lambda e: first("X", e).pop("dur"), lambda e: first("X", e).update(dur=-1), lambda e: first("X", e).update(tid="1"),
              lambda e: first("X", e).update(ts=math.inf), lambda e: first("X", e).update(colour="red"), lambda e: first("X", e).update(ph="Q"),
              lambda e: first("X", e).update(name="a\u202eb"), lambda e: first("X", e).update(tid=2 ** 32), longer,
              lambda e: first("f", e).pop("bp"), lambda e: first("s", e).update(name="other"), lambda e: e.remove(first("f", e)),
              lambda e: e.append(dict(first("s", e))), lambda e: first("s", e).update(ts=first("f", e)["ts"] + 1e9),
              lambda e: first("C", e).update(args={"bytes": "many"}), lambda e: first("C", e).update(args={}), unnamed,
              lambda e: first("M", e).update(name="colour")]
    for number, damage in enumerate(faults):
        damaged = copy.deepcopy(trace)
        damage(damaged["traceEvents"])
        try:
            check(damaged)
        except AssertionError:
            continue
        raise AssertionError(f"fault {number} is not found")
    for text in ('{"traceEvents":[],"traceEvents":[]}', '{"traceEvents":[NaN]}'):
        try:
            parse(text)
        except AssertionError:
            continue
        raise AssertionError(f"{text} is taken")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        slices, arrows = check(parse(pathlib.Path(name).read_bytes().decode("utf-8", errors="strict")))
        print(f"{name}: {sum(map(len, slices.values()))} slices of {len(slices)} threads, {len(arrows)} arrows")
