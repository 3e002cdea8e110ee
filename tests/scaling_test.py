#!/usr/bin/env python3
"""tools/scaling.py on a ledger whose table can be counted by hand, and on input that is none.

    scaling_test.py TOOLS
"""
import json
import pathlib
import subprocess
import sys

SCALING = pathlib.Path(sys.argv[1]) / "scaling.py"


def launch(op, kind, seconds, written=0):
    return {"launch": "k", "op": op, "kind": kind, "written_bytes": written, "seconds_fast": seconds / 2, "seconds_slow": seconds}


LEDGER = [launch("conv2d", "convolutions", 0.010),
          launch("linear backward", "matrix products", 0.010, 4_000_000),  # 2,000,000 halves: 8 MB of f32
          launch("conv2d_input_grad", "convolutions", 0.010, 999),
          launch("conv2d_weight_grad", "element-wise", 0.010, 999),
          launch("conv2d_weight_grad", "convolutions", 0.010, 2_000_000),  # 4 MB
          launch("SGD", "optimiser", 0.010),
          {"plan": "net", "gpu": "GPU", "batch_size": 10, "amp": "fp16"}]


def scaling(*words, text=None):
    text = "".join(json.dumps(row) + "\n" for row in LEDGER) if text is None else text
    return subprocess.run([sys.executable, SCALING, *words], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_table():
    # A ring of two: 2 (latency + half of the bytes / rate). The last bucket, 4 MB, begins as the backward pass ends.
    result = scaling("--gpus", "1,2", "--per-node", "1", "--between", "1000,1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "net, batch 10 per GPU, GPU: 60.00 ms alone, 12.0 MB of gradients in 2 buckets", lines
    assert lines[-2:] == ["| 1 | 60.00 | 0.00 | 167 | 100 % |", "| 2 | 66.00 | 6.00 | 303 | 91 % |"], lines
    # Half of it as halves; and both buckets after the backward pass.
    assert "| 2 | 64.00 | 4.00 |" in scaling("--gpus", "2", "--per-node", "1", "--between", "1000,1", "--bytes", "2").stdout
    assert "| 2 | 76.00 | 16.00 |" in scaling("--gpus", "2", "--per-node", "1", "--between", "1000,1", "--no-overlap").stdout
    assert "| 2 | 70.00 | 10.00 |" in scaling("--gpus", "2", "--per-node", "1", "--between", "1000,1", "--slowest", "0.5").stdout
    assert "| 1 | 30.00 | 0.00 |" in scaling("--gpus", "1", "--speed", "fast").stdout


def check_bad_input():
    for words, text, expected in ((["--between", "8"], None, "expected LATENCY,RATE"), ([], "{}\n", "is not what lathe plan --json prints")):
        result = scaling(*words, text=text)
        assert result.returncode == 1 and expected in result.stderr, result.stderr
    for words in (["--ring", "2"], ["--link", "1,1"], ["--ring", "0", "--link", "1,1"]):
        result = scaling("--ledger", "unread", *words)
        assert result.returncode == 2 and "error: --ledger needs --ring N" in result.stderr, result.stderr


check_table()
check_bad_input()
print("2 passed, 0 failed, 0 skipped")
