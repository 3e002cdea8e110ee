#!/usr/bin/env python3
"""Data-parallel training on two processors: ranks of one thread against one process of two threads, and against PyTorch.

    compare_data_parallel.py [--build build/release] [--python python3] [--model resnet20] [--batch 128] [--steps 20] [--rounds 3]
                             [--trace FILE] [--json]

All train on the same number of synthetic images of 32x32 per step, and take turns in each round:
  one process of two threads; two ranks of one thread each, on a processor each, over Gloo; both again in PyTorch (`--python`)
and, on one processor with half the batch, one rank with DistributedDataParallel and without, step by step in turns.
PyTorch's images are NHWC, and its malloc keeps large blocks, as in compare_torch.py. Prints images/s, medians of the rounds' medians
of steps, and what DistributedDataParallel costs a single rank: the median of the steps' ratios.
--trace FILE keeps a trace of rank 0, and says which part of the reductions' time ran while the backward pass computed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from lathe_program import compile_program

KEEP_BLOCKS = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 40)}
WARM_UP = 3


def torch_worker(name, batch, threads, steps, mode):
    """The same as data_parallel_lathe.cpp, in PyTorch."""
    import torch
    from torch.nn import functional as F
    import torch_models
    torch.set_num_threads(int(threads))
    net = torch_models.make(name).to(memory_format=torch.channels_last)
    rank = int(os.environ.get("RANK", 0))
    if mode == "ddp":
        torch.distributed.init_process_group("gloo", init_method=os.environ["LATHE_RENDEZVOUS"], rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
        net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, 0.9)
    x, y = torch.randn(int(batch), 3, 32, 32).contiguous(memory_format=torch.channels_last), torch.randint(0, 10, (int(batch),))
    seconds = []
    for _ in range(int(steps)):
        begin = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({mode: seconds}), flush=True)
    if mode == "ddp":
        torch.distributed.destroy_process_group()


def run(command, folder, ranks=1, more=()):
    """→ what rank 0 prints. Ranks have a processor each."""
    place = tempfile.NamedTemporaryFile(dir=folder, delete=False).name
    os.unlink(place)
    env = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    if "LATHE_THREADS" in env:
        del env["LATHE_THREADS"]
    processors = sorted(os.sched_getaffinity(0))
    processes = []
    for rank in range(ranks):
        if ranks > 1:
            env |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks), "LATHE_RENDEZVOUS": f"file://{place}"}
        words = ["taskset", "-c", str(processors[rank])] if ranks > 1 or "both" in command else []
        processes.append(subprocess.Popen([*words, *map(str, command), *(map(str, more) if rank == 0 or ranks > 1 else ())], env=env, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit("compare_data_parallel: a rank has failed")
    return json.loads(outputs[0])


def overlap(trace):
    """→ of the time in which gradients were on their way, the part that nobody waited for; and the number of reductions."""
    events = json.loads(pathlib.Path(trace).read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    reductions = [e["dur"] for e in events if e.get("name") == "all_reduce_" and e.get("ph") == "X"]
    waits = [e["dur"] for e in events if e.get("name") == "wait for gradients of all ranks" and e.get("ph") == "X"]
    return 1 - sum(waits) / sum(reductions), len(reductions)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trace")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found, costs = {}, []
    with tempfile.TemporaryDirectory() as folder:
        ours = [compile_program("data_parallel_lathe.cpp", args.build, pathlib.Path(folder) / "ours"), args.model]
        theirs = ["env", *(f"{k}={v}" for k, v in KEEP_BLOCKS.items()), args.python, os.path.abspath(__file__), "--worker", args.model]
        steps, half = args.steps + WARM_UP, args.batch // 2
        for _ in range(args.rounds):
            for name, side in (("lathe", ours), ("PyTorch", theirs)):
                one = run([*side, args.batch, 2, steps, "plain"], folder)["plain"]
                two = run([*side, half, 1, steps, "ddp"], folder, ranks=2, more=[args.trace] if args.trace and side is ours else [])["ddp"]
                found.setdefault(f"{name}, one process, two threads", []).append(statistics.median(one[WARM_UP:]))
                found.setdefault(f"{name}, two ranks, a thread each", []).append(statistics.median(two[WARM_UP:]))
            both = run([*ours, half, 1, steps, "both"], folder)
            costs.append(statistics.median(b / a for a, b in zip(both["plain"][WARM_UP:], both["ddp"][WARM_UP:])))
    rates = {name: args.batch / statistics.median(seconds) for name, seconds in found.items()}
    result = {"images_per_second": rates, "steps_seconds": found, "one_rank_cost": [cost - 1 for cost in costs]}
    if args.trace:
        result["overlap"], result["reductions"] = overlap(args.trace)
    if args.json:
        print(json.dumps(result))
        return
    for name, rate in rates.items():
        print(f"{name:36}{rate:9.1f} images/s   steps of {', '.join(f'{1e3 * s:.1f}' for s in found[name])} ms")
    print(f"DistributedDataParallel with one rank: {', '.join(f'{100 * (cost - 1):+.2f} %' for cost in costs)}")
    if args.trace:
        print(f"{result['reductions']} reductions in 3 steps; {100 * result['overlap']:.0f} % of their time beside the backward pass")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        torch_worker(*sys.argv[2:])
    else:
        main()
