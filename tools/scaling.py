#!/usr/bin/env python3
"""How long a data-parallel step takes on many GPUs: a table of docs/scaling.md, from the ledger of `lathe plan`.

    lathe plan --gpu h200 --model resnet50 --image-size 224 --batch-size 256 --amp fp16 --json | scaling.py
               [--gpus 8,16,…,1024] [--per-node 8] [--bucket-mib 25] [--first-mib 1] [--bytes 4] [--speed slow|fast]
               [--inside US,GB/S] [--between US,GB/S] [--slowest GB/S] [--no-overlap]
    scaling.py --ledger FILE --ring N --link MS,MB/S [--bucket-kib K] [--first-kib K] [--no-overlap]

The second form predicts one step of `tools/bench/scaling_probe.cpp` over Gloo: FILE has a line "parameters seconds" for
each part of the backward pass. docs/scaling.md says what the model is.
"""
import argparse
import json
import math
import sys


def ring(n, size, latency, rate):
    """Seconds of an all-reduce of `size` bytes among n ranks in a ring."""
    return 2 * (n - 1) * (latency + size / n / rate) if n > 1 else 0.0


def tree(n, size, latency, rate):
    """The same up and down a double binary tree, whose two halves share the links."""
    return 2 * math.ceil(math.log2(n)) * latency + 2 * size / rate if n > 1 else 0.0


def gloo_ring(n, size, latency, rate):
    """Gloo's ring. A rank's part is two segments or more of at most 1 MiB. A segment leaves when the receiver has said that
    it is ready, and arrives a way there and back later; two are on their way at a time. This is done twice: to add up the
    parts and to pass them on."""
    if n == 1:
        return 0.0
    segments = max(2, math.ceil(size / n / (1 << 20)))
    one, ready = size / n / segments / rate, 2 * latency
    return 2 * ((n - 1) * segments / 2 * (one + max(one, ready)) + min(one, ready))


def two_levels(nodes, per_node, size, inside, between):
    """Inside of the nodes a reduce-scatter and an all-gather, between them an all-reduce of each GPU's part."""
    part = size / per_node
    outer = min(ring(nodes, part, *between), tree(nodes, part, *between))
    return ring(per_node, size, *inside) + outer


def buckets_of(parts, first_bytes, bucket_bytes, element):
    """(bytes on their way, seconds into the backward pass) of each bucket, as DistributedDataParallel fills them: limits
    count f32 gradients, of which `element` bytes travel."""
    out, size, time, limit = [], 0, 0.0, first_bytes
    for parameters, seconds in parts:
        time += seconds
        size += parameters * 4
        if parameters and size >= limit:
            out.append((size * element // 4, time))
            size, limit = 0, bucket_bytes
    if size:
        out.append((size * element // 4, time))
    return out


def step(parts, buckets, before, after, all_reduce, overlap=True):
    """Seconds of a step: forward, backward with reductions one after another beside it, optimiser."""
    backward = sum(seconds for _, seconds in parts)
    free = 0.0
    for size, ready in buckets:
        free = max(free, ready if overlap else backward) + all_reduce(size)
    return before + max(backward, free) + after, free - backward


def read_plan(lines, speed):
    """The ledger as forward seconds, parts of the backward pass, optimiser seconds, parameters, and what was planned."""
    key = f"seconds_{speed}"
    rows = [json.loads(line) for line in lines]
    plan = next((row for row in rows if "plan" in row), None)
    if plan is None:
        sys.exit("scaling: stdin is not what lathe plan --json prints")
    width = 4 if plan["amp"] in (None, "", "off", "no", "none") else 2  # of the gradient that a kernel writes
    before = after = 0.0
    parts, backward = [], False
    for row in rows:
        if "launch" not in row:
            continue
        backward = backward or "backward" in row["op"] or "_grad" in row["op"]
        if row["kind"] == "optimiser":
            after += row[key]
        elif backward:
            is_weight = (row["op"], row["kind"]) in (("conv2d_weight_grad", "convolutions"), ("linear backward", "matrix products"))
            parts.append((int(row["written_bytes"]) // width if is_weight else 0, row[key]))
        else:
            before += row[key]
    return before, parts, after, plan


def pair(text, *units):
    """"5,50" as a latency and a rate in seconds and bytes."""
    values = [float(word) for word in text.split(",")]
    if len(values) != 2 or min(values) < 0 or values[1] == 0:
        sys.exit(f"scaling: expected LATENCY,RATE with a rate above 0, got {text!r}")
    return values[0] * units[0], values[1] * units[1]


def read_ledger(path):
    rows = [line.split() for line in open(path, encoding="utf-8") if line.strip()]
    return [(int(parameters), float(seconds)) for parameters, seconds in rows]


def predict_probe(args):
    parts = read_ledger(args.ledger)
    latency, rate = pair(args.link, 1e-3, 1e6)
    buckets = buckets_of(parts, args.first_kib << 10, args.bucket_kib << 10, args.bytes)
    seconds, exposed = step(parts, buckets, 0, 0, lambda size: gloo_ring(args.ring, size, latency, rate), not args.no_overlap)
    print(json.dumps({"ranks": args.ring, "buckets": [size for size, _ in buckets], "step_ms": 1e3 * seconds,
                      "exposed_ms": 1e3 * exposed}))


def print_table(args):
    before, parts, after, plan = read_plan(sys.stdin, args.speed)
    inside, between = pair(args.inside, 1e-6, 1e9), pair(args.between, 1e-6, 1e9)
    if args.slowest:
        between = between[0], min(between[1], args.slowest * 1e9)
    buckets = buckets_of(parts, int(args.first_mib * (1 << 20)), int(args.bucket_mib * (1 << 20)), args.bytes)
    total = sum(size for size, _ in buckets)
    alone, _ = step(parts, [], before, after, lambda size: 0)
    print(f"{plan['plan']}, batch {plan['batch_size']} per GPU, {plan['gpu']}: {1e3 * alone:.2f} ms alone, "
          f"{total / 1e6:.1f} MB of gradients in {len(buckets)} buckets")
    print("\n| GPUs | ms per step | ms not hidden | img/s | efficiency |\n|---|---|---|---|---|")
    for gpus in (int(word) for word in args.gpus.split(",")):
        nodes, here = max(1, math.ceil(gpus / args.per_node)), min(gpus, args.per_node)
        seconds, exposed = step(parts, buckets, before, after,
                                lambda size: two_levels(nodes, here, size, inside, between), not args.no_overlap)
        print(f"| {gpus} | {1e3 * seconds:.2f} | {1e3 * max(0, exposed):.2f} | {gpus * plan['batch_size'] / seconds:,.0f} "
              f"| {100 * alone / seconds:.0f} % |")


def self_test():
    """Cases that can be counted by hand."""
    assert ring(1, 8, 1, 1) == 0 and ring(4, 8, 1, 2) == 2 * 3 * (1 + 1)
    assert tree(8, 8, 1, 4) == 2 * 3 + 4
    assert gloo_ring(2, 8, 0, 1) == ring(2, 8, 0, 1)  # the rate alone counts
    assert gloo_ring(2, 8, 100, 1) == 2 * (200 + 2 + 2)  # the second segment is on its way with the first
    assert two_levels(1, 8, 8, (1, 1), (9, 9)) == ring(8, 8, 1, 1) and two_levels(4, 1, 8, (9, 9), (1, 1)) <= ring(4, 8, 1, 1)
    parts = [(1, 1.0), (0, 1.0), (2, 1.0), (2, 1.0)]
    assert buckets_of(parts, 4, 16, 4) == [(4, 1.0), (16, 4.0)] and buckets_of(parts, 4, 16, 2) == [(2, 1.0), (8, 4.0)]
    assert step(parts, [(4, 1.0), (16, 4.0)], 2, 1, lambda size: size / 4) == (2 + 8 + 1, 4.0)  # 4 s of the last one are bare
    assert step(parts, [(4, 1.0)], 2, 1, lambda size: 1) == (7, -2.0)  # hidden
    assert step(parts, [(4, 1.0)], 2, 1, lambda size: 1, overlap=False) == (8, 1.0)


def main():
    self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="8,16,32,64,128,256,512,1024")
    parser.add_argument("--per-node", type=int, default=8)
    parser.add_argument("--bucket-mib", type=float, default=25)
    parser.add_argument("--first-mib", type=float, default=1)
    parser.add_argument("--bytes", type=int, default=4, help="of a gradient's element on its way; 2 with compress")
    parser.add_argument("--speed", choices=("slow", "fast"), default="slow")
    parser.add_argument("--inside", default="3,360", help="microseconds and GB/s of a GPU inside its node")
    parser.add_argument("--between", default="8,45", help="the same between nodes")
    parser.add_argument("--slowest", type=float, help="GB/s of the slowest link between nodes, which all wait for")
    parser.add_argument("--no-overlap", action="store_true", help="reductions begin after the backward pass")
    parser.add_argument("--ledger")
    parser.add_argument("--ring", type=int)
    parser.add_argument("--link", help="milliseconds and MB/s from a rank to the next")
    parser.add_argument("--bucket-kib", type=int, default=25 << 10)
    parser.add_argument("--first-kib", type=int, default=1 << 10)
    args = parser.parse_args()
    if args.ledger:
        if args.ring is None or args.ring < 1 or args.link is None:
            parser.error("--ledger needs --ring N, of at least 1, and --link MS,MB/S")
        predict_probe(args)
    else:
        print_table(args)


if __name__ == "__main__":
    main()
