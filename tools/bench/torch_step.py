"""One training step of PyTorch in the variants that people use, for the comparisons: eager, torch.compile in its modes, and a
CUDA graph captured by hand; fp32 (TF32 as asked for) or autocast with a half type. PyTorch is a test tool here."""
import contextlib
import statistics
import time

import torch
from torch.nn import functional as F

import torch_models

VARIANTS = ("eager", "compile", "reduce-overhead", "max-autotune", "graph")
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Step:
    """`run()` is one step: forward, loss, backward, update with momentum. fp16 goes through a GradScaler."""

    def __init__(self, variant, model, batch, side, amp, device, tf32):
        self.device, self.amp, self.batch = torch.device(device), amp, batch
        self.cuda = self.device.type == "cuda"
        if self.cuda:
            torch.backends.cudnn.benchmark = True
            torch.backends.cudnn.benchmark_limit = 0  # all plans
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.manual_seed(0)
        options = {"stem": "imagenet", "classes": 1000} if side > 64 else {}
        net = getattr(torch_models, model)(**options).to(self.device).to(memory_format=torch.channels_last)
        self.net = torch.compile(net, **({} if variant == "compile" else {"mode": variant})) \
            if variant in ("compile", "reduce-overhead", "max-autotune") else net
        fused = {"fused": True} if self.cuda else {}
        self.optimizer = torch.optim.SGD(net.parameters(), 0.01, 0.9, weight_decay=5e-4, **fused)
        self.scaler = torch.amp.GradScaler("cuda") if amp == "fp16" and self.cuda else None
        self.x = torch.randn(batch, 3, side, side, device=self.device).to(memory_format=torch.channels_last)
        self.y = torch.randint(0, options.get("classes", 10), (batch,), device=self.device)
        self.run = self.capture() if variant == "graph" else self.eager

    def loss(self):
        autocast = torch.autocast(self.device.type, HALF[self.amp]) if self.amp != "off" else contextlib.nullcontext()
        with autocast:
            return F.cross_entropy(self.net(self.x), self.y)

    def eager(self):
        self.optimizer.zero_grad(set_to_none=True)
        if self.scaler is None:
            self.loss().backward()
            self.optimizer.step()
        else:
            self.scaler.scale(self.loss()).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def capture(self):
        """The step as one CUDA graph, warmed up on a side stream as PyTorch's documentation asks."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.eager()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.eager()
        return graph.replay

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def window(self, seconds):
        """→ images per second over about `seconds`, one wait at the end."""
        self.wait()
        begin = time.perf_counter()
        self.run()
        self.wait()
        steps = max(3, int(seconds / max(time.perf_counter() - begin, 1e-6)))
        begin = time.perf_counter()
        for _ in range(steps):
            self.run()
        self.wait()
        return steps * self.batch / (time.perf_counter() - begin)

    def warm_up(self, steps=30):
        """→ seconds until the first step was done, and until all were."""
        begin = time.perf_counter()
        self.run()
        self.wait()
        first = time.perf_counter() - begin
        for _ in range(steps):
            self.run()
        self.wait()
        return first, time.perf_counter() - begin

    def peak_reserved_bytes(self):
        return torch.cuda.max_memory_reserved() if self.cuda else 0

    def kernels(self, steps=10):
        """→ [{name, milliseconds per step, calls per step}], the slowest first."""
        from torch.profiler import ProfilerActivity, profile
        activity = ProfilerActivity.CUDA if self.cuda else ProfilerActivity.CPU
        with profile(activities=[activity]) as records:
            for _ in range(steps):
                self.run()
            self.wait()
        rows = []
        for event in records.key_averages():
            microseconds = getattr(event, "self_device_time_total", 0) if self.cuda else event.self_cpu_time_total
            if microseconds > 0:
                rows.append({"name": event.key, "ms": microseconds / 1e3 / steps, "calls": event.count / steps})
        return sorted(rows, key=lambda row: -row["ms"])


def kind_of(kernel):
    """What a kernel of PyTorch's or cuDNN's works on, by its name."""
    name = kernel.lower()
    for kind, words in {
        "batch norm": ("batch_norm", "bn_fw", "bn_bw", "batchnorm", "_norm_"),
        "convolution": ("conv", "wgrad", "dgrad", "fprop", "implicit", "xmma", "winograd"),
        "matrix product": ("gemm", "cublas", "splitk", "gemv"),
        "optimizer": ("multi_tensor", "fused_sgd", "foreach", "amp_"),
        "layout": ("nchwtonhwc", "nhwctonchw", "transpose"),
        "copy": ("memcpy", "memset", "copy_"),
        "reduction": ("reduce", "softmax", "nll"),
        "pointwise": ("elementwise", "vectorized", "triton_poi", "relu", "add", "pool"),
    }.items():
        if any(word in name for word in words):
            return kind
    return "other"


def by_kind(rows):
    """Milliseconds per step by kind, the largest first."""
    sums = {}
    for row in rows:
        kind = kind_of(row["name"])
        sums[kind] = sums.get(kind, 0) + row["ms"]
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def median(values):
    return statistics.median(values)
