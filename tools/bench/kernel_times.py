#!/usr/bin/env python3
"""A table of the kernels of one training step, from what record_kernels.cpp wrote down.

    kernel_times.py FILE [--steps 50] [--marker REGEX] [--rows 60] [--json]

Steps are told apart by the kernel that ends each: the one that sets the loss scale, or else the last optimiser kernel (--marker).
The table is of the last --steps steps: calls and microseconds per step, the share of the step, registers, grid. Below it stand
the time from step to step (the median), the time in which a kernel ran, and the rest, in which the GPU waited for work.
"""
import argparse
import collections
import json
import re
import statistics
import sys

MARKERS = ("update_loss_scale", "sgd", "update_kernel")


def read(path):
    """[(start, nanoseconds, registers, shared, grid, block, name)] by start."""
    rows = []
    for line in open(path, errors="replace"):
        fields = line.rstrip("\n").split("\t", 6)
        if len(fields) == 7:
            rows.append((int(fields[0]), int(fields[1]), int(fields[2]), int(fields[3]), *fields[4:]))
    return sorted(rows)


def short(name):
    """The name without arguments, namespaces of ours and `void`."""
    name = re.sub(r"lathe::(cuda::|optim::|\(anonymous namespace\)::)*|\(anonymous namespace\)::|^void ", "", name)
    depth, out = 0, []
    for letter in name:  # arguments begin at the first parenthesis outside of <>
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            break
        out.append(letter)
    return "".join(out)[:110]


def last_steps(rows, marker, count):
    """The rows of the last `count` whole steps, and their number."""
    ends = [i for i, row in enumerate(rows) if re.search(marker, row[6])]
    if len(ends) < 2:
        return [], 0
    ends = ends[-(count + 1):]
    return rows[ends[0] + 1:ends[-1] + 1], len(ends) - 1


def busy(rows):
    """Nanoseconds in which at least one of them ran."""
    total, until = 0, 0
    for start, length, *_ in rows:
        total += max(0, start + length - max(start, until))
        until = max(until, start + length)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--marker")
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = read(args.file)
    for marker in [args.marker] if args.marker else MARKERS:
        part, steps = last_steps(rows, marker, args.steps)
        if steps > 0:
            break
    else:
        sys.exit(f"kernel_times: {args.file}: {len(rows)} records, but no kernel ends a step: name one with --marker")
    sums = collections.defaultdict(lambda: [0, 0, 0, "", ""])
    for _, length, registers, _, grid, block, name in part:
        entry = sums[short(name)]
        entry[0] += 1
        entry[1] += length
        entry[2], entry[3], entry[4] = max(entry[2], registers), grid, block
    ends = [start + length for start, length, *_, name in part if re.search(marker, name)]
    step = statistics.median(b - a for a, b in zip(ends, ends[1:])) / 1e3 if len(ends) > 1 else 0.0
    table = [{"kernel": name, "calls": calls / steps, "us": nanoseconds / steps / 1e3, "registers": registers, "grid": grid,
              "block": block} for name, (calls, nanoseconds, registers, grid, block) in sums.items()]
    table.sort(key=lambda row: -row["us"])
    work = busy(part) / steps / 1e3
    if args.json:
        print(json.dumps({"bench": "table", "steps": steps, "step_us": step, "busy_us": work, "kernels": table}))
        return
    print(f"{'us/step':>9} {'share':>6} {'calls':>6} {'us each':>8} {'regs':>4}  grid x block, kernel")
    for row in table[:args.rows]:
        print(f"{row['us']:9.1f} {100 * row['us'] / max(step, 1e-9):5.1f}% {row['calls']:6.1f} {row['us'] / row['calls']:8.1f} "
              f"{row['registers']:4d}  {row['grid']} x {row['block']}  {row['kernel']}")
    print(f"{steps} steps: {step:.1f} us from step to step, {work:.1f} us with a kernel at work, "
          f"{step - work:.1f} us without; {sum(row['calls'] for row in table):.0f} kernels and copies")


if __name__ == "__main__":
    main()
