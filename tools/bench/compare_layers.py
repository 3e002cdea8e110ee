#!/usr/bin/env python3
"""Times of recurrent layers and attention, lathe's and PyTorch's, in turns; prints microseconds and PyTorch's time by ours.

    compare_layers.py [--threads 1,2] [--amp off,bf16] [--layers lstm,gru] [--rounds 3] [--build build/release] [--json]   (needs PyTorch)

lstm, gru, encoder and attention are both passes, char_lstm is a training step; "forward", queries and decoding are without gradients.
A window is the least time of a call in 0.3 s; the ratio is the median over pairs of windows. layers_lathe.cpp has the same table. With
bf16 attention has operands of bf16, the others run under autocast. PyTorch keeps large blocks of memory, without which it is slower.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from lathe_program import compile_program

KEEP_BLOCKS = {name: str(1 << 40) for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")}
# heads, queries, keys, and whether causal and with both passes
ATTENTION = {
    "attention 128": (8, 128, 128, False, True), "attention 512": (8, 512, 512, False, True), "attention 2048": (8, 2048, 2048, False, True),
    "attention 2048 causal": (8, 2048, 2048, True, True), "attention 8192": (1, 8192, 8192, False, True),
    "attention 2048 forward": (8, 2048, 2048, False, False), "one query 512": (8, 1, 512, False, False),
    "one query 2048": (8, 1, 2048, False, False), "eight queries 2048": (8, 8, 2048, False, False),
}
LAYERS = ("lstm", "gru", "char_lstm", *ATTENTION, "encoder", "decoding 128", "decoding 1024")


def both_passes(layer, x, call):
    def passes():
        layer.zero_grad(set_to_none=True)
        x.grad = None
        call().square().mean().backward()
    return passes


def char_lstm(torch):
    from torch import nn
    characters, lstm, head = nn.Embedding(65, 128), nn.LSTM(128, 128, num_layers=2), nn.Linear(128, 65)
    adam = torch.optim.Adam([p for layer in (characters, lstm, head) for p in layer.parameters()])
    text = torch.randint(0, 65, (65, 32))

    def step():
        adam.zero_grad(set_to_none=True)
        y = head(lstm(characters(text[:-1]))[0])
        nn.functional.cross_entropy(y.view(-1, 65), text[1:].reshape(-1)).backward()
        adam.step()
    return step


def attention(torch, heads, dtype):
    count, queries, keys, causal, backward = heads
    q, k, v = (torch.randn(1, count, length, 64).to(dtype).requires_grad_(backward) for length in (queries, keys, keys))

    def call():
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        if backward:
            q.grad = k.grad = v.grad = None
            y.sum().backward()
    return call


def encoder(torch):
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0, activation="gelu", batch_first=True, norm_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def decoding(torch, past, dtype):
    """One token behind `past` tokens. torch.nn has no cache: keys and values lie in blocks made beforehand."""
    F = torch.nn.functional
    layers = encoder(torch).eval().layers
    caches = [torch.randn(2, 1, 4, past + 1, 64).to(dtype) for _ in layers]
    x = torch.randn(1, 1, 256)

    @torch.no_grad()
    def call():
        y = x
        for layer, cache in zip(layers, caches):
            a = layer.self_attn
            q, k, v = F.linear(layer.norm1(y), a.in_proj_weight, a.in_proj_bias).view(1, 3, 4, 1, 64).unbind(1)
            cache[0, :, :, past:], cache[1, :, :, past:] = k, v
            y = y + a.out_proj(F.scaled_dot_product_attention(q, cache[0], cache[1]).view(1, 1, 256))
            y = y + layer.linear2(F.gelu(layer.linear1(layer.norm2(y))))
        return y
    return call


def call_of(torch, name, half):
    dtype = torch.bfloat16 if half else torch.float32
    if name in ATTENTION:
        return attention(torch, ATTENTION[name], dtype)
    if name == "char_lstm":
        return char_lstm(torch)
    if name.startswith("decoding"):
        return decoding(torch, int(name.split()[1]), dtype)
    if name == "encoder":
        layer, x = encoder(torch), torch.randn(8, 128, 256, requires_grad=True)
        return both_passes(layer, x, lambda: layer(x))
    layer, x = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[name](128, 256), torch.randn(64, 32, 128, requires_grad=True)
    return both_passes(layer, x, lambda: layer(x)[0])


def least(call):
    """The least time of a call in a window of 0.3 s, three calls at least; in microseconds."""
    call()
    end, best, calls = time.perf_counter() + 0.3, math.inf, 0
    while calls < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best, calls = min(best, time.perf_counter() - start), calls + 1
    return best * 1e6


def compare(torch, ours, name, amp, rounds):
    pairs = []
    call = call_of(torch, name, amp == "bf16")
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp == "bf16"):
        for _ in range(rounds):
            print(name, amp, file=ours.stdin)
            pairs.append((float(ours.stdout.readline()), least(call)))
    ratios = [b / a for a, b in pairs]
    return [*(round(statistics.median(times), 1) for times in zip(*pairs)), *(round(f(ratios), 2) for f in (statistics.median, min, max))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/release"))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--amp", default="off,bf16")
    parser.add_argument("--layers", default=",".join(LAYERS), help=f"of {', '.join(LAYERS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if unknown := [name for name in args.layers.split(",") if name not in LAYERS]:
        parser.error(f"--layers: {unknown[0]} is none of {', '.join(LAYERS)}")
    if any(name not in os.environ for name in KEEP_BLOCKS):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | KEEP_BLOCKS)
    import torch
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program("layers_lathe.cpp", args.build, pathlib.Path(folder) / "layers")
        for threads in args.threads.split(","):
            torch.set_num_threads(int(threads))
            ours = subprocess.Popen([program, threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            for amp in args.amp.split(","):
                for name in args.layers.split(","):
                    rows.append([name, amp, int(threads), *compare(torch, ours, name, amp, args.rounds)])
                    if not args.json:
                        print("{:<24}{:<5} {} threads: ours {:10.1f} us  PyTorch {:10.1f} us  ratio {:.2f} ({:.2f} to {:.2f})".format(*rows[-1]), flush=True)
            ours.stdin.close()
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
