#!/usr/bin/env python3
"""Writes golden_pt2/: small models as torch.export.save writes them, with PyTorch's results.

    make_pt2_golden.py [CASE...]        (needs PyTorch; made with 2.15.0 on the CPU)

NAME.pt2 holds f32 weights. NAME.golden is a safetensors file with PyTorch's numbers for these weights in f64:
  in.I                 inputs
  train.out.NAME       results in training mode, where nothing is drawn
  train.loss, train.grad.NAME, train.buffer.NAME
                       sum over all floating results y of mean(y^2) + mean(y), its gradients, and the buffers after the call
  eval.out.NAME        results in evaluation mode, from the same weights
tied_saved.pt2 has its weights as PyTorch 2.8 wrote them. Sample inputs and all but the last frame of each stack trace are taken out of the files. All 109 targets that 63 models of
torchvision, timm, transformers and torch.nn need (TARGETS) are covered, which this script checks.
"""
import copy
import io
import json
import logging
import pathlib
import re
import sys
import warnings
import zipfile

import torch
from torch import nn
from torch.nn import functional as F

import safetensors.torch
from pt2_golden_fusions import Fused, NotFused
from pt2_golden_models import Alias, Bare, Classifier, ConvHead, Flat, Rare, Shared, Under
from pt2_golden_ops import Dimensions, Elements, Layers, Losses, Products, Rearranged, Sizes, Spectra, Volumes, Written

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
FOLDER = pathlib.Path(__file__).parent / "golden_pt2"
aten = torch.ops.aten

TARGETS = """linear.default conv2d.default flatten.using_ints adaptive_avg_pool2d.default dropout.default add_.Tensor
batch_norm.default add.Tensor relu_.default mul.Tensor cat.default transpose.int reshape.default layer_norm.default view.default
permute.default gelu.default max_pool2d.default mean.dim unsqueeze.default scaled_dot_product_attention.default contiguous.default
sigmoid.default slice.Tensor relu.default expand.default select.int index.Tensor avg_pool2d.default softmax.int unbind.int
bernoulli_.float div_.Tensor matmul.default alias.default sub.Tensor arange.default chunk.default silu_.default
empty.memory_format silu.default _assert_tensor_metadata.default pad.default ne.Scalar div.Tensor to.dtype embedding.default
hardswish_.default hardsigmoid.default dropout_.default linalg_vector_norm.default expand_as.default cumsum.default sin.default
cos.default unflatten.int squeeze.dim roll.default clamp_min.default tanh.default upsample_bilinear2d.vec zeros.default to.device
stack.default split_with_sizes.default split.Tensor neg.default to.dtype_layout diff.default new_ones.default le.Tensor
__and__.Tensor eq.Tensor pow.Tensor_Scalar hardtanh_.default new_zeros.default fill_.Scalar masked_fill.Scalar eq.Scalar
div.Tensor_mode pow.Scalar reshape_as.default rsqrt.default ge.Scalar clone.default zero_.default clamp.default exp.default
einsum.default swapaxes.default conv1d.default addcmul.default group_norm.default bitwise_not.default hardswish.default
arange.start repeat.default new_empty.default upsample_nearest2d.vec leaky_relu_.default leaky_relu.default hardtanh.default
type_as.default lstm.input gru.input addmm.default gather.default sym_size.int""".split()


class ConvNet(nn.Module):
    """Convolutions, norms, pools and in-place activations, as torchvision's models have them."""

    def __init__(self, freezes=True):
        super().__init__()
        self.freezes = freezes
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8)
        self.norm2 = nn.BatchNorm2d(8, eps=1e-3, momentum=0.01)
        self.same = nn.Conv2d(8, 6, (2, 3), padding="same")
        self.group = nn.GroupNorm(2, 6)
        self.frozen = nn.BatchNorm2d(6)
        self.line = nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.fc = nn.Linear(30, 5)
        self.drop = nn.Dropout(0.0)
        self.drop_ = nn.Dropout(0.0, inplace=True)

    def train(self, mode=True):
        super().train(mode)
        if self.freezes:
            self.frozen.eval()
        return self

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)), inplace=True)
        skip = x
        x = F.silu(self.norm2(self.deep(x)), inplace=True)
        x = x * torch.sigmoid(x.mean((2, 3), keepdim=True))
        x += skip
        x = F.max_pool2d(x, 3, 2, 1, ceil_mode=True)
        x = self.frozen(self.group(self.same(x)))
        a = F.hardtanh(x * 2, 0.0, 6.0, inplace=True)
        b = F.avg_pool2d(x, 2, 1, 1, count_include_pad=False)[:, :, :-1, 1:]
        c = F.interpolate(F.leaky_relu(x, 0.2), scale_factor=2.0, mode="nearest")
        d = F.interpolate(F.hardtanh(x), size=c.shape[2:], mode="bilinear", align_corners=False)
        e = F.leaky_relu(c + d, 0.1, inplace=True)
        y = torch.cat([F.hardswish(a * 0.5, inplace=True), F.hardswish(b), F.hardsigmoid(x), F.silu(x), F.adaptive_avg_pool2d(e, x.shape[2:])], 1)
        y = torch.flatten(F.adaptive_avg_pool2d(y, (1, 1)), 1)
        y = self.line(y.unsqueeze(1)).squeeze(1)
        return self.fc(self.drop_(self.drop(y)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(11, 8, padding_idx=0)
        self.place = nn.Parameter(torch.randn(1, 6, 8))
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.mlp = nn.Linear(8, 12)
        self.back = nn.Linear(12, 8)
        self.kv = nn.Linear(8, 8, bias=False)
        self.register_buffer("base", torch.arange(6.0), persistent=False)

    def forward(self, ids):
        n, t = ids.shape
        x = self.token(ids) + self.place.expand(n, -1, -1)
        q, k, v = self.qkv(self.norm(x)).reshape(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        angle = torch.arange(t)[:, None] * torch.pow(2.0, -torch.arange(0, 4, 2)[None, :].to(torch.float32))
        angle = torch.cat([angle, angle], -1).to(x.dtype)
        halves = torch.cat([-q[..., 2:], q[..., :2]], -1)
        q = q * angle.cos() + halves * angle.sin()
        seen = (ids != 0) & (torch.arange(t)[None, :] >= 0)
        mask = seen[:, None, None, :].expand(n, 1, t, t) & torch.ones(t, t, dtype=torch.bool).tril()
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.4)
        b = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        w = (q @ k.transpose(-2, -1) / 2).masked_fill(~mask, -1e4).softmax(-1)
        c = torch.einsum("bhij,bhjd->bhid", w, v)
        y = (a + b + c).transpose(1, 2).contiguous().view(n, t, -1)
        x = x + self.out(y)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        kv = self.kv(x).view(n, t, 1, 8).transpose(1, 2)
        few = F.scaled_dot_product_attention(x.view(n, t, 2, 4).transpose(1, 2), kv[..., :4], kv[..., 4:], attn_mask=self.base.view(1, 6) * 0.1, enable_gqa=True)
        y = F.gelu(self.mlp(x), approximate="tanh")
        return self.back(F.gelu(y)) + few.transpose(1, 2).flatten(2), torch.tanh(x.mean(1))


class Shapes(nn.Module):
    """Rearrangements and chosen elements."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 12))
        self.b = nn.Parameter(torch.randn(12))
        self.register_buffer("at", torch.tensor([[0, 2], [1, 0]]), persistent=False)

    def forward(self, x):
        n = x.shape[0]
        y = torch.addmm(self.b, x, self.w)
        a, b, c = y.chunk(3, dim=1)
        d, e = y.split([8, 4], 1)
        f, g = y.split(6, dim=-1)
        s = torch.stack([a, b, c], 1).roll([1, -1], [1, 2])
        u = y.unflatten(-1, (3, -1)).swapaxes(0, 1).unsqueeze(0).squeeze(0)
        p = F.pad(u, (1, 2, -1, 0), value=0.5)
        r = F.pad(u, (1, 1), mode="reflect").repeat(1, 1, 2)
        t = s[:, self.at, 1:] + s.index_select(1, self.at[0])[:, :, None, 1:].expand_as(s[:, self.at, 1:])
        m = torch.gather(y, 1, self.at.repeat(1, 2)[:1].expand(n, -1)).cumsum(-1)
        k = (torch.diff(y, prepend=y[:, :1]) * y.new_ones(12)).reshape_as(y.clone())
        z = x.new_zeros(n, 4) + torch.zeros(n, 1) + x.new_empty(n, 4).fill_(0.25)
        ids = torch.arange(1, n + 1).type_as(x)[:, None]
        w = torch.arange(n)
        same = w[:, None] == w[None, :]
        below = torch.le(w[:, None], w[None, :]) & torch.bitwise_not(same)
        q = x @ x.t()
        o = q.masked_fill(below, 2.0) * (w != 1)[:, None] + torch.div(w, 2, rounding_mode="floor")
        o = o + (w == 0) + (w >= 1) * aten.alias(q)
        return {"a": a + b * c, "d": d.mean(1) + e.sum(1), "f": f * g, "s": s, "p": p.permute(1, 0, 2).contiguous(), "r": r.reshape(-1), "t": t, "m": m, "k": k,
                "z": z + ids, "o": o}


class Pointwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        y = x * self.w
        a = y.clamp(-0.5, 0.7) + y.clamp_min(0.1) + torch.exp(y * 0.1) + y.pow(2) + (y * y + 1).pow(0.5)
        b = torch.addcmul(y, x, self.w, value=0.5) / (y.abs() + 1)
        c = torch.linalg.vector_norm(y, ord=2, dim=-1, keepdim=True) + torch.linalg.vector_norm(y, ord=1, dim=[0])
        d = torch.sub(y, x, alpha=0.3) + torch.add(y, 2, alpha=3) - 1.5 + torch.rsub(y, 1)
        e = torch.where(y > 0, y, y * 0.3) + torch.maximum(x, y) + F.softplus(y) + F.elu(y) + F.relu6(y) + F.mish(y)
        f = y.to(torch.float64).to(device="cpu", dtype=x.dtype) + aten.to.device(y, torch.device("cpu"), torch.float64).to(x.dtype)
        g = aten.to.dtype_layout(y, dtype=x.dtype, layout=torch.strided, device=torch.device("cpu"))
        return a, b, c, d, e, f + g, y.std(1) + y.var(0, keepdim=True)[:, :4].sum(0) + y.amax(1) + y.log_softmax(-1)[:, 0]


class InPlace(nn.Module):
    """Writes into values, views of them and views of views."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(2.0)
        y = x @ self.w
        y[:, 1] = 3.0
        y[:, 2:5].mul_(2.0)
        top = y[:2]
        top[:, 0].mul_(0.3)
        top += 0.5
        y[1].zero_()
        y[:, 5].relu_()
        z = y * 1
        first, rest = z[:, :1], z[:, 1:]
        rest.copy_(torch.tanh(rest) * x[:, :1])
        first.add_(1)
        z.transpose(0, 1)[2].sigmoid_()
        e = torch.empty(3, 6).fill_(1.5)
        e[0] = x[0]
        v = e.view(2, 9)
        e.mul_(2)
        kept = z * 1
        old = kept.sum(1)
        kept.add_(e[:1])
        return y, z, v + v.new_zeros(9), old, (F.relu(kept) * 2).neg_()


class Depth(nn.Module):
    """Stochastic depth by torchvision's and timm's class names."""

    class StochasticDepth(nn.Module):
        def __init__(self, p):
            super().__init__()
            self.p = p

        def forward(self, x):
            if not self.training or self.p == 0.5:
                return x
            noise = torch.empty([x.shape[0], 1], dtype=x.dtype).bernoulli_(1 - self.p)
            noise.div_(1 - self.p)
            return x * noise

    class DropPath(StochasticDepth):
        def forward(self, x):
            if not self.training:
                return x
            return x * x.new_empty((x.shape[0], 1)).bernoulli_(1 - self.p).div_(1 - self.p)

    def __init__(self, p):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.one = Depth.StochasticDepth(p)
        self.two = Depth.DropPath(p)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        x = x + self.one(self.fc(x))
        x = x + self.two(F.relu(self.norm(x)))
        y = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], dropout_p=0.3 if self.training and self.drop.p else 0.0)
        return self.drop(x) + y[:, 0]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 5, num_layers=2)
        self.short = nn.LSTM(5, 4, proj_size=3, bias=False)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, g = self.gru(y.transpose(0, 1))
        u, (p, q) = self.short(z)
        return u, h + c, g, p.sum() + q.sum()


class Scopes(nn.Module):
    """Sub-graphs and symbolic sizes; a second input by its name."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, *, other=None):
        n = x.shape[0]
        with torch.autocast("cpu", enabled=False):
            y = self.fc(x.to(self.fc.weight.dtype)) * 2
        with torch.no_grad():
            w = torch.softmax(y, -1)
        z = torch.arange((n * 3 - n + 1) // 2 + n % 2, dtype=torch.float32)
        return {"y": y * w + other, "z": z, "n": y.reshape(n * 2, 2) / n}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(7, 4)
        self.fc = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.token.weight
        self.fc.bias.requires_grad_(False)

    def forward(self, ids):
        return self.head(F.relu(self.fc(self.token(ids))))


def batch(*arguments):
    return tuple({0: torch.export.Dim.DYNAMIC} if isinstance(x, torch.Tensor) else None for x in arguments)


def image():
    return (torch.randn(3, 3, 9, 12),)


def ids(most, *shape):
    out = torch.randint(1, most, shape)
    out[0, -1] = 0
    return (out,)


CASES = {  # name: (model, arguments, arguments by name, exported in training, whether training draws nothing)
    "conv_net": (ConvNet, image, {}, True, True),
    "conv_net_eval": (lambda: ConvNet(freezes=False), image, {}, False, True),
    "attention": (Attention, lambda: ids(11, 3, 6), {}, True, True),
    "shapes": (Shapes, lambda: (torch.randn(3, 8),), {}, True, True),
    "pointwise": (Pointwise, lambda: (torch.randn(4, 6),), {}, True, True),
    "in_place": (InPlace, lambda: (torch.randn(3, 6),), {}, True, True),
    "depth_of_none": (lambda: Depth(0.0), lambda: (torch.randn(5, 4),), {}, True, True),
    "depth": (lambda: Depth(0.25), lambda: (torch.randn(5, 4),), {}, True, False),
    "recurrent": (Recurrent, lambda: (torch.randn(3, 4, 3),), {}, True, True),
    "scopes": (Scopes, lambda: (torch.randn(3, 4),), {"other": torch.linspace(-1, 1, 12).view(3, 4)}, True, True),
    "shared": (Shared, lambda: (torch.randn(3, 6),), {}, True, True),
    "flat": (Flat, lambda: (torch.randn(2, 2, 5, 6),), {}, True, True),
    "under": (Under, lambda: (torch.randn(3, 4),), {}, True, True),
    "under_eval": (Under, lambda: (torch.randn(3, 4),), {}, False, True),
    "alias": (Alias, lambda: (torch.randn(3, 4), True, 3, None), {"word": "b"}, True, True),
    "bare": (lambda: Bare(False), lambda: (torch.randn(3, 4),), {}, True, False),
    "bare_norm": (lambda: Bare(True), lambda: (torch.randn(3, 4),), {}, True, True),
    "rare": (Rare, lambda: ids(7, 3, 5), {}, True, True),
    "fused": (Fused, lambda: (torch.randn(4, 3, 8, 8),), {}, True, True),
    "not_fused": (NotFused, lambda: (torch.randn(3, 4, 5, 6),), {}, True, True),
    "tied": (Tied, lambda: ids(7, 3, 5), {}, True, True),
    "tied_saved": (Tied, lambda: ids(7, 3, 5), {}, True, True),
    "classifier": (Classifier, lambda: (torch.randn(3, 3, 16, 16),), {}, True, False),
    "conv_head": (ConvHead, image, {}, True, True),
    "elements": (Elements, lambda: (torch.randn(4, 6),), {}, True, True),
    "written": (Written, lambda: (torch.randn(4, 6),), {}, True, True),
    "dimensions": (Dimensions, lambda: (torch.randn(3, 4, 5),), {}, True, True),
    "products": (Products, lambda: (torch.randn(4, 5), torch.randn(5, 4)), {}, True, True),
    "losses": (Losses, lambda: (torch.randn(4, 6), torch.randn(4, 6)), {}, True, True),
    "rearranged": (Rearranged, lambda: (torch.randn(4, 6),), {}, True, True),
    "layers": (Layers, lambda: (torch.randn(2, 4, 6),), {}, True, True),
    "volumes": (Volumes, lambda: (torch.randn(2, 2, 5, 6, 4),), {}, True, True),
    "spectra": (Spectra, lambda: (torch.randn(2, 3, 4),), {}, True, True),
    "sizes": (Sizes, lambda: (torch.randn(5, 3),), {}, True, False),
}
WHOLE = {"classifier", "conv_head"}  # the types of all values stay: with_new_head() changes them
FIXED = {"pointwise", "in_place", "elements", "written", "dimensions", "products", "losses", "rearranged", "layers", "spectra"}  # the size of the batch


def named(results):
    if isinstance(results, dict):
        return list(results.items())
    results = results if isinstance(results, tuple) else (results,)
    return [(str(i), y) for i, y in enumerate(results)]


def double(arguments):
    return tuple(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in arguments)


def golden(model, arguments, more, trains):
    out = {f"in.{i}": x for i, x in enumerate(x for x in (*arguments, *more.values()) if isinstance(x, torch.Tensor))}
    arguments, more = double(arguments), dict(zip(more, double(more.values())))
    torch.set_default_dtype(torch.float64)  # of tensors that the model makes
    original, F.hardsigmoid = F.hardsigmoid, lambda x: F.relu6(x + 3) / 6  # PyTorch's gradient has 1/6 in f32, also of f64
    if trains:
        copied = copy.deepcopy(model).double().train()
        results = named(copied(*arguments, **more))
        loss = sum((y * y).mean() + y.mean() for _, y in results if y.is_floating_point())
        loss.backward()
        out["train.loss"] = loss.detach()
        out |= {f"train.out.{name}": y.detach() for name, y in results}
        out |= {f"train.grad.{name}": p.grad for name, p in copied.named_parameters() if p.grad is not None}
        out |= {f"train.buffer.{name}": b for name, b in copied.state_dict().items() if not isinstance(b, nn.Parameter)
                and name in dict(copied.named_buffers())}
    with torch.no_grad():
        out |= {f"eval.out.{name}": y for name, y in named(copy.deepcopy(model).double().eval()(*arguments, **more))}
    torch.set_default_dtype(torch.float32)
    F.hardsigmoid = original
    return {key: value.detach().clone().contiguous() for key, value in out.items()}


def shortened(node):
    trace = node["metadata"].get("stack_trace")
    if trace:
        last = trace[trace.rfind("File "):].replace(str(pathlib.Path(__file__).parent) + "/", "")
        node["metadata"]["stack_trace"] = re.sub(r'"[^"]*/site-packages/', '"', last)
    node["metadata"].pop("torch_fn", None)
    for argument in node["inputs"]:
        for inner in argument["arg"].get("as_graph", {}).get("graph", {}).get("nodes", []):
            shortened(inner)


def saved(value):
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


def written(program, path):
    """Saves the program; what the tests do not need is taken out.   → its targets"""
    whole = io.BytesIO()
    torch.export.save(program, whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
        for entry in sorted(source.namelist()):
            content = source.read(entry)
            if "/data/sample_inputs/" in entry or ("/data/" in entry and path.stem.endswith("_saved")):
                continue
            if entry.endswith("/models/model.json"):
                text = json.loads(content)
                graph = text["graph_module"]["graph"]
                for node in graph["nodes"]:
                    shortened(node)
                inputs = {json.dumps(i) for i in graph["inputs"]}
                if path.stem not in WHOLE:
                    graph["tensor_values"] = {k: v for k, v in graph["tensor_values"].items() if any(f'"{k}"' in i for i in inputs)}
                content = json.dumps(text, separators=(",", ":"))
            target.writestr(zipfile.ZipInfo(entry), content)
        if path.stem.endswith("_saved"):
            folder = entry.partition("/")[0]
            target.writestr(zipfile.ZipInfo(f"{folder}/data/weights/model.pt"), saved(program.state_dict))
            target.writestr(zipfile.ZipInfo(f"{folder}/data/constants/model.pt"), saved({}))
    found = set()

    def walk(nodes):
        for node in nodes:
            found.add(node["target"].removeprefix("torch.ops.").removeprefix("aten."))
            for argument in node["inputs"]:
                walk(argument["arg"].get("as_graph", {}).get("graph", {}).get("nodes", []))

    walk(graph["nodes"])
    return found


def main():
    FOLDER.mkdir(exist_ok=True)
    found = set()
    for name in sys.argv[1:] or CASES:
        make, arguments, more, in_training, trains = CASES[name]
        torch.manual_seed(1)
        model, given = make(), arguments()
        for key, buffer in model.state_dict().items():
            if key.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            if key.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
        dynamic = None if name in FIXED else (*batch(*given), *batch(*more.values()))
        keys = dict(zip(list(__import__("inspect").signature(model.forward).parameters), dynamic)) if dynamic else None
        program = torch.export.export(copy.deepcopy(model).train(in_training), given, more, dynamic_shapes=keys, strict=False)
        found |= written(program, FOLDER / f"{name}.pt2")
        safetensors.torch.save_file(golden(model, given, more, trains), FOLDER / f"{name}.golden")
        print(name, sum((FOLDER / f"{name}.{end}").stat().st_size for end in ("pt2", "golden")))
    if len(sys.argv) == 1:
        print("not covered:", " ".join(target for target in TARGETS if target not in found) or "none")


if __name__ == "__main__":
    main()
