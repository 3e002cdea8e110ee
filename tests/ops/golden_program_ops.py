"""The ops of golden_programs.py: what PyTorch computes for each, and which operands and numbers may be drawn for it. Products,
convolution, normalisation and losses are in golden_program_layers.py.

An op is a name, operands (tensors) and integers; golden_program_ops.cpp has the same names. Where a number is not whole the
integer is a multiple of 1/8. Proposals return (operands, integers), or None where nothing fits. They keep away from kinks,
poles and ties, where finite precision decides, or PyTorch leaves the answer open.
"""
import math
import pathlib
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "nn"))
from golden_resnet import uniform  # noqa: E402

MARGIN = 0.03
OPS = {}  # name: (run(tensors, integers), propose(draw))
VIEWS, WRITES, FRESH = set(), set(), set()  # names: results share memory, operand 0 is written, results are saved by nothing


def mask(stream, shape):
    return torch.from_numpy(uniform(stream, math.prod(shape)) > 0).reshape(shape)


def index(stream, shape, size):
    return torch.from_numpy(((uniform(stream, math.prod(shape)) + 1) / 2 * size).astype("int64")).reshape(shape)


def far(*points):
    return lambda x: all((x - p).abs().min() > MARGIN for p in points)


def inside(low, high):
    return lambda x: x.min() > low + MARGIN and x.max() < high - MARGIN


def apart(x):
    """No two elements are nearly equal."""
    return x.numel() > 0 and (x.numel() < 2 or x.flatten().sort().values.diff().min() > 1e-3)


# Where PyTorch 1.13 has wrong derivatives of its own, by finite differences. Its hardsigmoid has 1/6 as a float.
def hardsigmoid(x):
    return (x + 3).clamp(0, 6) / 6


def prelu(x, weight):  # the second derivative
    return torch.where(x > 0, x, x * weight.reshape([-1] + [1] * (x.dim() - 2)))


def trace(x):  # of more rows than columns
    return x.diagonal().sum()


def masked_select(x, where):  # of a transposed x
    return x.contiguous().masked_select(where)


def op(name, run, propose, kind=None):
    OPS[name] = (run, propose)
    if kind is not None:
        kind.add(name)


def unary(name, run, domain=lambda x: True, numbers=lambda d: [], dims=0):
    """An op of one tensor, in `domain`, with at least so many dimensions."""
    def propose(d):
        v = d.any(lambda x: x.dim() >= dims and domain(x))
        return v is not None and ([v], numbers(d))
    op(name, lambda t, a: run(t[0], *a), propose)


for name in ("neg square exp expm1 sin cos sinh cosh atan asinh tanh sigmoid erf gelu silu softplus mish softsign logsigmoid "
             "softmax_all").split():
    unary(name, {"softsign": F.softsign, "gelu": F.gelu, "silu": F.silu, "softplus": F.softplus, "mish": F.mish,
                 "logsigmoid": F.logsigmoid, "softmax_all": lambda x: x.flatten().softmax(0)}.get(name) or getattr(torch, name))
for name in "abs sign relu elu selu leaky_relu".split():
    unary(name, {"elu": F.elu, "selu": F.selu, "leaky_relu": F.leaky_relu}.get(name) or getattr(torch, name), far(0))
for name in "log log2 log10 sqrt rsqrt".split():
    unary(name, getattr(torch, name), inside(0.1, 1e4))
for name in "floor ceil trunc frac".split():
    unary(name, getattr(torch, name), lambda x: far(0)(x - x.round()))
unary("round", torch.round, lambda x: far(0.5)(x - x.floor()))
unary("log1p", torch.log1p, inside(-0.8, 1e4))
unary("exp2", torch.exp2)
unary("reciprocal", torch.reciprocal, far(0, 0.1, -0.1))
unary("tan", torch.tan, inside(-1.3, 1.3))
for name in "asin acos atanh".split():
    unary(name, getattr(torch, name), inside(-0.95, 0.95))
unary("acosh", torch.acosh, inside(1.1, 1e4))
unary("hardtanh", F.hardtanh, far(-1, 1))
unary("relu6", F.relu6, far(0, 6))
unary("hardsigmoid", hardsigmoid, far(-3, 3))
unary("hardswish", F.hardswish, far(-3, 3))
unary("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
unary("leaky_relu_by", lambda x, a: F.leaky_relu(x, a / 8), far(0), lambda d: [d.int(1, 6)])
unary("elu_by", lambda x, a: F.elu(x, a / 8), far(0), lambda d: [d.int(1, 16)])
unary("softplus_by", lambda x, a: F.softplus(x, a / 8, 4), lambda x: True, lambda d: [d.int(2, 12)])
unary("clamp", lambda x, a, b: x.clamp(a / 8, b / 8), far(-0.5, 0.75), lambda d: [-4, 6])
unary("add_number", lambda x, a: x + a / 8, numbers=lambda d: [d.int(-12, 12)])
unary("rsub_number", lambda x, a: a / 8 - x, numbers=lambda d: [d.int(-12, 12)])
unary("times_number", lambda x, a: x * (a / 8), numbers=lambda d: [d.some([-12, -5, 3, 10])])
unary("div_number", lambda x, a: x / (a / 8), numbers=lambda d: [d.some([-12, -5, 6, 10])])
unary("rdiv_number", lambda x, a: (a / 8) / x, far(0, 0.1, -0.1), lambda d: [d.some([-12, -5, 3, 10])])
unary("pow_whole", lambda x, a: x**a, numbers=lambda d: [d.int(0, 4)])
unary("pow_number", lambda x, a: x**(a / 8), inside(0.1, 20), lambda d: [d.int(-12, 20)])
unary("rpow_number", lambda x, a: (a / 8)**x, numbers=lambda d: [d.int(4, 20)])
unary("fmod_number", lambda x, a: torch.fmod(x, a / 8), lambda x: far(0)(x / 0.75 - (x / 0.75).round()), lambda d: [6])
unary("remainder_number", lambda x, a: torch.remainder(x, a / 8), lambda x: far(0)(x / 0.75 - (x / 0.75).round()), lambda d: [6])
unary("clone", torch.clone)
unary("to_dense", lambda x: x.contiguous() * 1)
FRESH.update(["add_number", "times_number", "clone", "to_dense"])


def binary(name, run, domain=lambda a, b: True, numbers=lambda d: []):
    """An op of two tensors that broadcast."""
    op(name, lambda t, a: run(*t, *a), lambda d: (p := d.pair(domain)) is not None and (p, numbers(d)))


def quotient_far(a, b):
    return far(0, 0.1, -0.1)(b) and far(0)(a / b - (a / b).round())


for name in "add sub mul".split():
    binary(name, getattr(torch, name))
FRESH.update(["add", "sub"])
binary("div", torch.div, lambda a, b: far(0, 0.1, -0.1)(b))
binary("div_floor", lambda a, b: torch.div(a, b, rounding_mode="floor") * a, quotient_far)
binary("div_trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc") * a, quotient_far)
binary("fmod", torch.fmod, quotient_far)
binary("remainder", torch.remainder, quotient_far)
for name in "maximum minimum".split():
    binary(name, getattr(torch, name), lambda a, b: far(0)(a - b))
binary("pow", torch.pow, lambda a, b: inside(0.1, 5)(a) and inside(-3, 4)(b))
binary("hypot", torch.hypot, lambda a, b: far(0)(a.square() + b.square()))
binary("atan2", torch.atan2, lambda a, b: far(0)(a.square() + b.square()) and far(0)(a))
binary("add_alpha", lambda a, b, n: torch.add(a, b, alpha=n / 8), numbers=lambda d: [d.int(-12, 12)])
binary("sub_alpha", lambda a, b, n: torch.sub(a, b, alpha=n / 8), numbers=lambda d: [d.int(-12, 12)])
binary("lerp_number", lambda a, b, n: torch.lerp(a, b, n / 8), numbers=lambda d: [d.some([2, 6])])
binary("where", lambda a, b, s: torch.where(mask(s, torch.broadcast_shapes(a.shape, b.shape)), a, b), numbers=lambda d: [d.stream()])
op("lerp", lambda t, a: torch.lerp(*t), lambda d: (p := d.pair(lambda a, b: a.shape == b.shape, 3)) is not None and (p, []))
op("clamp_by", lambda t, a: torch.clamp(*t),
   lambda d: (p := d.pair(lambda a, b: far(0)(a - b), 3)) is not None and far(0)(d.t[p[1]] - d.t[p[2]]) and
   far(0)(d.t[p[0]] - d.t[p[2]]) and (p, []))
unary("masked_fill", lambda x, s, a: x.masked_fill(mask(s, x.shape), a / 8), numbers=lambda d: [d.stream(), d.int(-12, 12)])
op("masked_fill_by", lambda t, a: t[0].masked_fill(mask(a[0], t[0].shape), t[1]), lambda d: d.with_scalar(lambda: [d.stream()]))
unary("masked_select", lambda x, s: masked_select(x, mask(s, x.shape)), lambda x: x.numel() > 2, lambda d: [d.stream()])
op("masked_scatter", lambda t, a: t[0].masked_scatter(mask(a[0], t[0].shape), t[1]),
   lambda d: (p := d.pair(lambda a, b: b.numel() >= a.numel(), broadcast=False)) is not None and (p, [d.stream()]))
op("prelu", lambda t, a: prelu(*t), lambda d: d.two(lambda x: x.dim() > 1 and far(0)(x), lambda x, w: w.shape == (x.shape[1],)))


# Reductions: keepdim, then the dimensions.
def reduction(name, run, domain=lambda x, dims: True):
    def propose(d):
        v = d.any(lambda x: x.dim() > 0)
        if v is None:
            return None
        dims = d.dims(d.t[v].dim())
        return domain(d.t[v], dims) and ([v], [d.int(0, 1), *dims])
    op(name, lambda t, a: run(t[0], a[1:], bool(a[0])), propose)


def spread(x, dims):
    return x.numel() > 1 and math.prod(x.shape[i] for i in dims) > 1 and x.var(dims, unbiased=False).min() > MARGIN


reduction("sum", lambda x, dims, k: x.sum(dims, keepdim=k))
reduction("mean", lambda x, dims, k: x.mean(dims, keepdim=k))
reduction("amax", lambda x, dims, k: x.amax(dims, keepdim=k), lambda x, dims: apart(x))
reduction("amin", lambda x, dims, k: x.amin(dims, keepdim=k), lambda x, dims: apart(x))
reduction("var", lambda x, dims, k: x.var(dims, keepdim=k), spread)
reduction("var_biased", lambda x, dims, k: x.var(dims, unbiased=False, keepdim=k), spread)
reduction("std", lambda x, dims, k: x.std(dims, keepdim=k), spread)
reduction("norm", lambda x, dims, k: torch.linalg.vector_norm(x, 2, dims, keepdim=k),
          lambda x, dims: torch.linalg.vector_norm(x, 2, dims).min() > 0.1)
reduction("norm1", lambda x, dims, k: torch.linalg.vector_norm(x, 1, dims, keepdim=k), lambda x, dims: far(0)(x))
reduction("norm3", lambda x, dims, k: torch.linalg.vector_norm(x, 3, dims, keepdim=k), lambda x, dims: far(0)(x))
reduction("norm_inf", lambda x, dims, k: torch.linalg.vector_norm(x, math.inf, dims, keepdim=k), lambda x, dims: apart(x.abs()))
reduction("logsumexp", lambda x, dims, k: x.logsumexp(dims, keepdim=k))
for name, run in {"sum_all": torch.sum, "mean_all": torch.mean, "prod_all": torch.prod}.items():
    unary(name, run)
unary("max_all", torch.max, apart)
unary("min_all", torch.min, apart)


def along(name, run, domain=lambda x: True, numbers=lambda d, n: [], kind=None):
    """An op along one dimension, which is its first integer."""
    def propose(d):
        v = d.any(lambda x: x.dim() > 0 and domain(x))
        if v is None:
            return None
        dim = d.int(0, d.t[v].dim() - 1)
        more = numbers(d, d.t[v].shape[dim])
        return more is not None and ([v], [dim, *more])
    op(name, lambda t, a: run(t[0], *a), propose, kind)


along("prod", lambda x, dim, k: x.prod(dim, keepdim=bool(k)), numbers=lambda d, n: [d.int(0, 1)])
along("max_along", lambda x, dim, k: x.max(dim, keepdim=bool(k)).values, apart, lambda d, n: [d.int(0, 1)])
along("min_along", lambda x, dim, k: x.min(dim, keepdim=bool(k)).values, apart, lambda d, n: [d.int(0, 1)])
along("cumsum", torch.cumsum)
along("cumprod", torch.cumprod)
along("softmax", torch.softmax)
along("log_softmax", torch.log_softmax)
along("normalize", lambda x, dim: F.normalize(x, dim=dim), far(0))
along("sort", lambda x, dim, down: x.sort(dim, descending=bool(down)).values, apart, lambda d, n: [d.int(0, 1)])
along("topk", lambda x, dim, k, big: x.topk(k, dim, bool(big)).values, apart, lambda d, n: [d.int(1, n), d.int(0, 1)])
along("glu", lambda x, dim: F.glu(x, dim), numbers=lambda d, n: [] if n % 2 == 0 else None)

# Views and rearrangements.
along("select", lambda x, dim, i: x.select(dim, i), numbers=lambda d, n: [d.int(0, n - 1)], kind=VIEWS)
along("narrow", lambda x, dim, i, k: x.narrow(dim, i, k), numbers=lambda d, n: [i := d.int(0, n - 1), d.int(1, n - i)], kind=VIEWS)
along("slice", lambda x, dim, i, j, step: x[(slice(None),) * dim + (slice(i, j, step),)],
      numbers=lambda d, n: [i := d.int(0, n - 1), d.int(i + 1, n), d.int(1, 2)], kind=VIEWS)
along("split", lambda x, dim, size, k: x.split(size, dim)[k],
      numbers=lambda d, n: [size := d.int(1, n), d.int(0, (n - 1) // size)], kind=VIEWS)
along("chunk", lambda x, dim, count, k: x.chunk(count, dim)[k], numbers=lambda d, n: [d.int(1, 3), 0], kind=VIEWS)
along("unbind", lambda x, dim, k: x.unbind(dim)[k], numbers=lambda d, n: [d.int(0, n - 1)], kind=VIEWS)
along("unsqueeze", lambda x, dim: x.unsqueeze(dim), lambda x: x.dim() < 4, kind=VIEWS)
along("transpose", lambda x, dim: x.transpose(dim, -1), lambda x: x.dim() > 1, kind=VIEWS)
along("movedim", lambda x, dim: x.movedim(dim, 0), lambda x: x.dim() > 1, kind=VIEWS)
along("windows", lambda x, dim, size, step: x.unfold(dim, size, step), lambda x: x.dim() < 4,
      lambda d, n: [d.int(1, min(3, n)), d.int(1, 2)], kind=VIEWS)
unary("squeeze", torch.squeeze)
unary("permute", lambda x, *order: x.permute(order), dims=2)
OPS["permute"] = (OPS["permute"][0], lambda d: (v := d.any(lambda x: x.dim() > 1)) is not None and ([v], d.order(d.t[v].dim())))
op("expand", lambda t, a: t[0].expand(a), lambda d: d.expanded())
unary("diagonal", lambda x, k: x.diagonal(k), lambda x: x.dim() > 1 and min(x.shape[:2]) > 1, lambda d: [d.int(-1, 1)])
VIEWS.update(["squeeze", "permute", "expand", "diagonal"])
op("reshape", lambda t, a: t[0].reshape(a), lambda d: d.reshaped())
unary("flatten", torch.flatten)
along("flip", lambda x, dim: x.flip(dim))
along("roll", lambda x, dim, k: x.roll(k, dim), numbers=lambda d, n: [d.int(-2, 3)])
unary("roll_all", lambda x, k: x.roll(k), lambda x: x.dim() > 0, lambda d: [d.int(-2, 3)])
unary("tile", lambda x, *k: x.tile(k), lambda x: x.numel() < 10, lambda d: d.some([[2], [1, 2], [2, 1]]))
unary("repeat", lambda x, *k: x.repeat(k), lambda x: x.dim() < 3 and x.numel() < 10, lambda d: d.some([[2, 1], [1, 2]]))
along("repeat_interleave", lambda x, dim, k: x.repeat_interleave(k, dim), lambda x: x.numel() < 12, lambda d, n: [2])
unary("tril", torch.tril, numbers=lambda d: [d.int(-1, 1)], dims=2)
unary("triu", torch.triu, numbers=lambda d: [d.int(-1, 1)], dims=2)
unary("diag_embed", torch.diag_embed, lambda x: 0 < x.dim() < 4 and x.numel() < 10, lambda d: [d.int(-1, 1)])
unary("diag", torch.diag, lambda x: 0 < x.dim() < 3 and x.shape[0] < 5, lambda d: [d.int(-1, 1)])
unary("trace", trace, lambda x: x.dim() == 2)
along("cat_self", lambda x, dim: torch.cat([x, x * 2, x], dim), lambda x: x.numel() < 12)
op("cat", lambda t, a: torch.cat(t, a[0]), lambda d: d.joined())
op("stack", lambda t, a: torch.stack(t, a[0]),
   lambda d: (p := d.pair(lambda a, b: a.shape == b.shape)) is not None and (p, [d.int(0, d.t[p[0]].dim())]))
op("meshgrid", lambda t, a: torch.meshgrid(*t, indexing="ij")[a[0]],
   lambda d: (v := d.any(lambda x: x.dim() == 1 and x.numel() < 5)) is not None and ([v, v], [d.int(0, 1)]))
unary("pad", lambda x, a, b, v: F.pad(x, (a, b), value=v / 8), numbers=lambda d: [d.int(0, 2), d.int(-1, 2), d.int(-8, 8)], dims=1)
for mode in ("reflect", "replicate", "circular"):
    unary(f"pad_{mode}", lambda x, a, b, mode=mode: F.pad(x, (a, b), mode),
          lambda x: x.dim() == 3 and x.shape[-1] > 2, lambda d: [d.int(0, 2), d.int(0, 2)])
unary("as_strided", lambda x, i: (x.contiguous() * 1).as_strided((2, 2), (1, 2), i), lambda x: x.numel() > 5, lambda d: [d.int(0, 2)])

# Indexing.
along("index_select", lambda x, dim, s, k: x.index_select(dim, index(s, [k], x.shape[dim])), numbers=lambda d, n: [d.stream(), d.int(1, 4)])
along("gather", lambda x, dim, s, k: x.gather(dim, index(s, x.shape[:dim] + (k,) + x.shape[dim + 1:], x.shape[dim])),
      numbers=lambda d, n: [d.stream(), d.int(1, 3)])
along("take_along_dim", lambda x, dim, s: torch.take_along_dim(x, index(s, x.shape, x.shape[dim]), dim), numbers=lambda d, n: [d.stream()])
unary("take", lambda x, s, *shape: x.take(index(s, shape, x.numel())),
      numbers=lambda d: [d.stream(), *d.some([[3], [2, 3], [3, 3], [2, 2, 3], [1, 2, 3, 3], [2, 2, 2, 2], [2, 2, 4]])])
unary("index_rows", lambda x, s, k: x[index(s, [k], x.shape[0])], numbers=lambda d: [d.stream(), d.int(1, 3)], dims=1)
unary("embedding", lambda x, s: F.embedding(index(s, [2, 2], x.shape[0]), x), lambda x: x.dim() == 2, lambda d: [d.stream()])
op("index_add", lambda t, a: t[0].index_add(a[0], index(a[1], [t[1].shape[a[0]]], t[0].shape[a[0]]), t[1], alpha=a[2] / 8),
   lambda d: d.indexed(lambda: [d.stream(), d.int(2, 12)]))
op("scatter_add", lambda t, a: t[0].scatter_add(a[0], index(a[1], t[1].shape, t[0].shape[a[0]]), t[1]),
   lambda d: d.indexed(lambda: [d.stream()]))
op("scatter", lambda t, a: t[0].scatter(a[0], distinct(a, t), t[1]), lambda d: d.indexed(lambda: []))
op("put_add", lambda t, a: t[0].put(index(a[0], t[1].shape, t[0].numel()), t[1], accumulate=True),
   lambda d: (p := d.pair(broadcast=False)) is not None and (p, [d.stream()]))
op("put", lambda t, a: t[0].put(torch.arange(t[1].numel()).flip(0).reshape(t[1].shape), t[1]),
   lambda d: (p := d.pair(lambda a, b: b.numel() <= a.numel(), broadcast=False)) is not None and (p, []))
op("index_put", lambda t, a: t[0].index_put([torch.tensor([a[0]])], t[1]),
   lambda d: d.two(lambda x: x.dim() > 1, lambda x, v: v.shape == x.shape[1:], lambda x: [d.int(0, x.shape[0] - 1)]))


def distinct(a, t):
    """Positions 0, 1, … along the dimension, the same in every line."""
    n = t[1].shape[a[0]]
    shape = [1] * t[1].dim()
    shape[a[0]] = n
    return (t[0].shape[a[0]] - 1 - torch.arange(n)).reshape(shape).expand(t[1].shape)


# In place: operand 0 is written, and is the result.
def write(name, run, domain=lambda x, y=None: True, numbers=lambda d: [], operands=1):
    def propose(d):
        v = d.writable()
        if v is None:
            return None
        found = [v]
        if operands > 1:
            other = d.any(lambda y: d.broadcasts_to(y.shape, d.t[v].shape) and not d.shares(y, d.t[v]))
            if other is None:
                return None
            found.append(other)
        return domain(*(d.t[i] for i in found)) and (found, numbers(d))
    op(name, lambda t, a: run(*t, *a), propose, WRITES)


write("add_", torch.Tensor.add_, operands=2)
write("sub_", torch.Tensor.sub_, operands=2)
write("mul_", torch.Tensor.mul_, operands=2)
write("div_", torch.Tensor.div_, lambda x, y: far(0, 0.1, -0.1)(y), operands=2)
write("copy_", torch.Tensor.copy_, operands=2)
write("fill_", lambda x, a: x.fill_(a / 8), numbers=lambda d: [d.int(-12, 12)])
write("zero_", torch.Tensor.zero_)
write("times_number_", lambda x, a: x.mul_(a / 8), numbers=lambda d: [d.some([-12, -5, 3, 10])])
write("clamp_", lambda x, a, b: x.clamp_(a / 8, b / 8), far(-0.5, 0.75), lambda d: [-4, 6])
write("neg_", torch.Tensor.neg_)
write("exp_", torch.Tensor.exp_)
write("sqrt_", torch.Tensor.sqrt_, inside(0.1, 1e4))
write("tanh_", torch.Tensor.tanh_)
write("sigmoid_", torch.Tensor.sigmoid_)
write("relu_", torch.Tensor.relu_, far(0))
write("masked_fill_", lambda x, s, a: x.masked_fill_(mask(s, x.shape), a / 8), numbers=lambda d: [d.stream(), d.int(-12, 12)])
write("index_put_", lambda x, v, i: x.index_put_([torch.tensor([i])], v),
      lambda x, v: x.dim() > 0 and v.dim() < x.dim(), lambda d: [0], operands=2)
