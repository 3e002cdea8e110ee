#!/usr/bin/env python3
"""Writes golden_torch_samples.txt: what PyTorch computes of the sample inputs of its own tests, with gradients.

    make_torch_samples.py        (needs PyTorch, NumPy and expecttest; made with PyTorch 2.15.0 on the CPU)

PyTorch's list of operators (op_db) makes sample inputs for each: the shapes, the arguments and the special values that PyTorch's tests
use. A sample becomes a case if the calls of operators that it amounts to, as torch.export would write them, all have a row in the tables
of graph/pt2. What is left out is counted at the end of the file, per operator and reason. A case is one line of five parts:

    OP DTYPE NUMBER | INPUTS | CALLS | RESULTS | GRADIENTS
    add f32 3 | f32[2]* 1.5 -2.1 ; f32[] 0.3 | aten.add.Tensor self=%0 other=%1 alpha=2 > 2 ; = 2 | f32[2] 2.1 -1.5 | 0.54 -0.84

Inputs and the results of calls are numbered; "_" stands for a result that nobody reads, or for None in a list. "*": the gradients have
a part for this input. Of a tensor with up to 3 elements the file has all, of a larger one three sums over i of y_i cos((j + 1) i + j), in
which NaN, inf and -inf count as 12.5, 17.25 and -19.125. The gradients are those of the sum over k and i of y_ki cos(i + k), where y_k
are the results and i counts elements. Inputs are cut to as few digits as leave different numbers different.
"""
import collections
import json
import math
import pathlib
import random
import re
import sys
import zlib

import numpy
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

HERE = pathlib.Path(__file__).resolve().parent
TABLES = HERE.parent.parent / "graph" / "pt2"
DTYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16,
          "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
SAMPLES = {"f32": 8, "i64": 2, "bool": 2}  # cases per operator
TRIED = 3  # so many samples are tried for each case, evenly from all that PyTorch makes
FEW_NUMBERS, MOST_NUMBERS = 80, 160  # in the inputs of a case; more than a few where an operator has too few small samples
TOO_FEW = 4
NONFINITE = {"nan": 12.5, "inf": 17.25, "-inf": -19.125}


class LeftOut(Exception):
    """Why a sample is no case."""


def known_targets():
    """The operators of the tables, and the other names under which find_target() knows them."""
    text = "".join(path.read_text() for path in sorted(TABLES.glob("*.cpp")))
    known = set(re.findall(r'"(aten\.[\w.]+)"', text))
    others = dict(re.findall(r'^    \{"(\w+)", "(\w+)"\},$', (TABLES / "pt2_call.cpp").read_text(), re.M))
    return known, others


KNOWN, OTHERS = known_targets()


def has_row(target):
    _, name, overload = target.split(".")
    return f"aten.{OTHERS.get(name, name)}.{overload}" in KNOWN


# --- numbers -------------------------------------------------------------------------------------


def cut(value, digits):
    """The number towards zero with so many digits, as text."""
    if math.isnan(value) or math.isinf(value) or value == 0:
        return "-0" if math.copysign(1, value) < 0 and value == 0 else f"{value:g}"
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{math.trunc(value * scale) / scale:.{digits}g}" if 0 < scale < math.inf else f"{value:.9g}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def texts_of(tensors, digits):
    return [[cut(v, digits) if t.is_floating_point() else str(int(v)) for v in t.reshape(-1).tolist()] for t in tensors]


def cut_texts(tensors):
    flat = [v for t in tensors if t.is_floating_point() for v in t.reshape(-1).tolist()]
    for digits in range(2, 9):
        if len({cut(v, digits) for v in flat}) == len({cut(v, 9) for v in flat}):
            break
    return texts_of(tensors, digits)


def from_texts(texts, like):
    return torch.tensor([float(t) if like.is_floating_point() else int(t) for t in texts], dtype=like.dtype).reshape(like.shape)


def kind_of(t):
    if t.dtype not in NAMES:
        raise LeftOut(f"has a tensor of {t.dtype}")
    return f"{NAMES[t.dtype]}[{','.join(str(n) for n in t.shape)}]"


def summary(t):
    values = t.detach().to(torch.float64).reshape(-1).tolist()
    if len(values) > 3:
        finite = [v if math.isfinite(v) else NONFINITE[str(v)] for v in values]
        values = [math.fsum(v * math.cos((j + 1) * i + j) for i, v in enumerate(finite)) for j in range(3)]
    return " ".join(f"{v:.7g}" for v in values)


# --- calls ---------------------------------------------------------------------------------------


def argument_text(value, numbers):
    def one(v):
        if v is None:
            return "_"
        if isinstance(v, torch.fx.Node):
            return f"%{numbers[v]}"
        if isinstance(v, bool):
            return "true" if v else "false"
        if isinstance(v, int):
            if not -(2**63) <= v < 2**63:
                raise LeftOut("has an integer of more than 64 bits")
            return str(v)
        if isinstance(v, float):
            return repr(v) if math.isfinite(v) and ("." in repr(v) or "e" in repr(v)) else f"{v}"
        if isinstance(v, str):
            return f"'{v.replace(' ', '')}'"
        if isinstance(v, torch.dtype):
            if v not in NAMES:
                raise LeftOut(f"asks for {v}")
            return NAMES[v]
        if isinstance(v, torch.memory_format):
            return {"torch.contiguous_format": "contiguous", "torch.channels_last": "channels_last", "torch.preserve_format": "preserve"}[str(v)]
        raise LeftOut(f"has an argument of the kind {type(v).__name__}")
    return f"[{','.join(one(v) for v in value)}]" if isinstance(value, (list, tuple)) else one(value)


def calls_of(graph_module, inputs):
    """The text of the calls, and the tensors that they read besides `inputs`."""
    numbers, constants, parts, count = {}, [], [], len(inputs)
    nodes = [n for n in graph_module.graph.nodes]
    for node in nodes:
        if node.op == "placeholder":
            numbers[node] = len(numbers)
    for node in nodes:
        if node.op == "get_attr":
            numbers[node] = count + len(constants)
            constants.append(getattr(graph_module, node.target).detach().clone())
    count += len(constants)
    for node in nodes:
        if node.op == "output":
            results = pytree.tree_leaves(node.args[0])
            if not results or not all(isinstance(r, torch.fx.Node) for r in results):
                raise LeftOut("has results that are no tensors")
            parts.append("= " + " ".join(str(numbers[r]) for r in results))
        if node.op != "call_function" or str(node.target) == "<built-in function getitem>":
            continue
        if not isinstance(node.target, torch._ops.OpOverload):
            raise LeftOut(f"calls {getattr(node.target, '__name__', node.target)}")
        name = str(node.target)
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            raise LeftOut("draws random numbers")
        if re.match(r"aten\.(new_)?empty", name):
            raise LeftOut("leaves its numbers open")
        if not has_row(name):
            raise LeftOut(f"no row for {name}")
        arguments = {a.name: v for a, v in zip(node.target._schema.arguments, node.args)} | dict(node.kwargs)
        text = [name]
        for key, value in arguments.items():
            if value is None or key in ("device", "layout", "pin_memory", "non_blocking"):
                continue
            if key == "generator":
                raise LeftOut("draws with a generator")
            text.append(f"{key}={argument_text(value, numbers)}")
        value = node.meta["val"]
        if isinstance(value, (list, tuple)):
            readers = {user.args[1]: user for user in node.users}
            if any(str(user.target) != "<built-in function getitem>" for user in node.users):
                raise LeftOut("passes a list on")
            made = []
            for i in range(len(value)):
                made.append("_" if i not in readers else str(count))
                if i in readers:
                    for user in node.users:
                        if user.args[1] == i:
                            numbers[user] = count
                    count += 1
            text += [">", ",".join(made)]
        else:
            numbers[node] = count
            text += [">", str(count)]
            count += 1
        parts.append(" ".join(text))
    return " ; ".join(parts), constants


# --- cases ---------------------------------------------------------------------------------------


def seed(number):
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number % 2**32)


def evenly(items, most):
    return items if len(items) <= most else [items[i * (len(items) - 1) // (most - 1)] for i in range(most)]


def numbers_in(sample):
    return sum(x.numel() for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(x, torch.Tensor))


def same(a, b):
    return all(x.shape == y.shape and torch.equal(torch.nan_to_num(x.double()), torch.nan_to_num(y.double())) for x, y in zip(a, b))


def gradients_of(run, xs, wanted):
    """The gradients by the wanted inputs, None for those without one; and the results."""
    leaves = [x.clone().requires_grad_(is_wanted) for x, is_wanted in zip(xs, wanted)]
    ys = run(leaves)
    loss = sum((y.reshape(-1) * torch.cos(torch.arange(y.numel(), dtype=torch.float64) + k).to(y.dtype)).sum() for k, y in enumerate(ys) if y.requires_grad)
    if not isinstance(loss, torch.Tensor):
        return [None] * len(xs), ys
    found = iter(torch.autograd.grad(loss, [x for x in leaves if x.requires_grad], allow_unused=True))
    return [next(found) if x.requires_grad else None for x in leaves], ys


def case_of(op, sample):
    """The parts of the line."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    inputs = [x for x in leaves if isinstance(x, torch.Tensor)]
    if any(x.layout != torch.strided for x in inputs):
        raise LeftOut("has a sparse tensor")

    def f(*tensors):
        rest = iter(tensors)
        first, args, kwargs = pytree.tree_unflatten([next(rest) if isinstance(x, torch.Tensor) else x for x in leaves], spec)
        return sample.output_process_fn_grad(op(first, *args, **kwargs))

    def run(tensors, number=1):
        seed(number)
        results = pytree.tree_leaves(f(*tensors))
        if not results or not all(isinstance(y, torch.Tensor) for y in results):
            raise LeftOut("has results that are no tensors")
        return results

    kinds = [kind_of(x) for x in inputs]
    texts = cut_texts(inputs)
    xs = [from_texts(text, x) for text, x in zip(texts, inputs)]
    try:
        ys = run([x.clone() for x in xs])
    except RuntimeError:  # the digits mattered
        texts = texts_of(inputs, 9)
        xs = [from_texts(text, x) for text, x in zip(texts, inputs)]
        ys = run([x.clone() for x in xs])
    calls, constants = calls_of(make_fx(f, pre_dispatch=True)(*xs), inputs)
    if not same(ys, run([x.clone() for x in xs], 2)):
        raise LeftOut("draws random numbers")
    kinds += [kind_of(x) for x in constants]
    texts += texts_of(constants, 9)
    gradients = [None] * len(xs)
    if op.supports_autograd:
        try:
            gradients, ys = gradients_of(run, xs, [x.is_floating_point() for x in xs])
        except RuntimeError as error:  # by a target or a weight
            if "is not differentiable" not in str(error):
                raise
            gradients, ys = gradients_of(run, xs, [i == 0 for i in range(len(xs))])
    gradients += [None] * len(constants)
    given = " ; ".join(" ".join([kind + ("*" if g is not None else ""), *text]) for kind, text, g in zip(kinds, texts, gradients))
    results = " ; ".join(f"{kind_of(y)} {summary(y)}".rstrip() for y in ys)
    return f"{given} | {calls} | {results} | {' ; '.join(summary(g) for g in gradients if g is not None)}".rstrip()


def reason_of(error):
    if isinstance(error, LeftOut):
        return str(error)
    return f"PyTorch: {type(error).__name__}: {str(error).splitlines()[0][:60] if str(error) else ''}"


def main():
    lines, seen, left_out = [], set(), collections.Counter()
    for op in sorted(op_db, key=lambda o: (o.name, o.variant_test_name)):
        name = op.name + (":" + op.variant_test_name.replace(" ", "_") if op.variant_test_name else "")
        for dtype, most in SAMPLES.items():
            if DTYPES[dtype] not in op.supported_dtypes("cpu"):
                continue
            seed(zlib.crc32(f"{name} {dtype}".encode()))
            cases, reasons = [], collections.Counter()
            try:
                samples = list(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False))
            except Exception as error:
                left_out[name, reason_of(error)] += 1
                continue
            small = [(i, sample) for i, sample in enumerate(samples) if numbers_in(sample) <= MOST_NUMBERS]
            few = [(i, sample) for i, sample in small if numbers_in(sample) <= FEW_NUMBERS]
            small = few if len(few) >= TOO_FEW else small
            if len(small) < len(samples):
                reasons["has too many numbers"] = len(samples) - len(small)
            for i, sample in evenly(small, TRIED * most):
                try:
                    parts = case_of(op, sample)
                except Exception as error:
                    reasons[reason_of(error)] += 1
                    continue
                if parts not in seen:
                    seen.add(parts)
                    cases.append(f"{name} {dtype} {i} | {parts}")
            lines += evenly(cases, most)
            for reason, count in reasons.items():
                left_out[name, reason] += count
        print(name, len(lines), file=sys.stderr)
    made = f"# Made by make_torch_samples.py with PyTorch {torch.__version__.split('+')[0]}; do not edit.\n"
    table = [f"# left out: {name}: {count}: {reason}\n" for (name, reason), count in sorted(left_out.items())]
    (HERE / "golden_torch_samples.txt").write_text(made + "".join(line + "\n" for line in lines) + "".join(table))


if __name__ == "__main__":
    main()
