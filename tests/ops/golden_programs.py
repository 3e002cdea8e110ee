#!/usr/bin/env python3
"""Writes golden_programs.txt: random small programs, and their values and derivatives as PyTorch computes them, in f64.

    golden_programs.py > golden_programs.txt        (needs PyTorch; made with 1.13 on the CPU)
    golden_programs.py --check golden_programs.txt  compares this PyTorch with the file; skipped where there is none

A program is a line, and is replayed from it:

    7 2x3/t/n 3/c/p ; mul 0 1 ; sum 2 : 1 0 ; = 2 3 | value | first | second

It is number 7. Its leaves are a transposed 2x3 and a dense vector of 3; n and p: from [-1.7, 1.7) or [0.3, 2). Each op
makes the next variable, from variables and, after the colon, integers (golden_program_ops.py). The value is the sum of
w * v * v over the variables v after the "=". `first` has two weighed sums of the gradient of each leaf; `second` has the
same of the gradient of the sum of all the former. Leaves, weights and indices come from the hash of tests/nn/golden_resnet.py,
so there are no files of inputs. `second` is "-" where PyTorch cannot.
"""
import math
import random
import sys
import warnings

try:
    import torch
    import golden_program_layers  # noqa: F401: adds to OPS
    from golden_program_ops import FRESH, OPS, VIEWS, WRITES, uniform
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0 if "--check" in sys.argv else 1)

COUNT = 1000
MOST_ELEMENTS = 40
KEEPS_NO_OPERAND = FRESH | VIEWS | {"copy_", "add_", "sub_", "fill_", "zero_", "times_number_", "neg_"}
KEEPS_RESULT = {"exp_", "sqrt_", "tanh_", "sigmoid_", "relu_"}
SHAPES = [  # of the leaves; "-" is a number
    "3x2 2 -", "2x3 2x1 1x3", "2x2x3 3 2x1x3", "4", "- 3", "1x1 3x1", "5 5 5", "3x3 3x3 3x3", "2x4 2x4", "1 1x1x2", "6x2", "2x1x3x1",
    "2x3 3x2 2", "2x2x3 2x3x2", "3 3x3 3", "2x1x2x2 3x2x2", "4x2 3x2 2x3", "2x3 2x3 2x3", "2x2x3 2x2x3", "3x3",
    "1x2x3x4 2x2x2x2 2", "2x2x3x3 2x1x2x3 2", "1x4x4x2 4x2x2x1 4", "2x2x5 2x2x3 2", "1x4x5 4x2x2", "1x1x4x4 2x1x3x3",
    "1x2x3x3 2x1x2x2 2", "1x2x2x3 2x2x2x2 2", "1x4x2x2 4x1x2x2 4", "1x2x4 2x1x2 2", "1x8x4 4", "2x3 4x3 4", "2x2 2x2 2",
    "1x2x4x4 2 2", "2x1x5x3", "1x4x4", "3x4 4 4", "2x3x2 3 3", "3x4 3x4", "4x3 4x3 4x3"]


def stream(number, k):
    return 64 * number + k


def numbers(number, k, shape):
    return torch.from_numpy(uniform(stream(number, k), math.prod(shape))).reshape(shape)


def shape_of(text):
    return [] if text == "-" else [int(n) for n in text.split("x")]


def leaf(number, k, text):
    shape, layout, kind = text.split("/")
    shape = shape_of(shape)
    u = numbers(number, k, shape)
    x = 1.7 * u if kind == "n" else 0.3 + 0.85 * (u + 1)
    if layout == "t":
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    elif layout == "s":
        room = torch.zeros(shape[:-1] + [2 * shape[-1] + 1], dtype=x.dtype)
        room[..., 1::2] = x
        x = room[..., 1::2]
    elif layout == "e":
        x = x[:1].expand(shape)
    return x


def apply(name, operands, integers, variables):
    y = OPS[name][0]([variables[v] for v in operands], integers)
    if y.numel() > MOST_ELEMENTS or y.numel() == 0 or not torch.isfinite(y).all() or y.detach().abs().max() > 1e3:
        raise ValueError("too large")
    variables.append(y)


class Draw:
    """What a program has so far, and the dice; golden_program_ops.py asks it for operands."""

    def __init__(self, dice, t):
        self.dice, self.t = dice, t
        self.clean = set()  # memory that nothing has saved: it may be written

    def int(self, low, high):
        return self.dice.randint(low, high)

    def some(self, choices):
        return self.dice.choice(choices)

    def stream(self):
        return self.int(0, 999)

    def any(self, fits=lambda x: True):
        """A variable that fits, the newer ones more often; None if none does."""
        order = sorted(range(len(self.t)), key=lambda v: self.dice.random() * (1 + v))
        return next((v for v in reversed(order) if fits(self.t[v].detach())), None)

    def pair(self, fits=lambda a, b: True, count=2, broadcast=True):
        first = self.any()
        found = [first]
        for _ in range(count - 1):
            def fitting(y):
                shapes = [self.t[v].shape for v in found] + [y.shape]
                if broadcast:
                    try:
                        if math.prod(torch.broadcast_shapes(*shapes)) > MOST_ELEMENTS:
                            return False
                    except RuntimeError:
                        return False
                return len(found) > 1 or fits(self.t[first].detach(), y)
            v = self.any(fitting)
            if v is None:
                return None
            found.append(v)
        return found

    def two(self, fits_one, fits_both, integers=lambda x: []):
        v = self.any(fits_one)
        w = None if v is None else self.any(lambda y: fits_both(self.t[v].detach(), y))
        return w is not None and ([v, w], integers(self.t[v]))

    def three(self, fits_one, fits_two, fits_three, integers=lambda x: []):
        found = self.two(fits_one, fits_two, integers)
        if not found:
            return None
        v = self.any(lambda z: fits_three(*(self.t[i].detach() for i in found[0]), z))
        return v is not None and (found[0] + [v], found[1])

    def with_scalar(self, integers):
        return self.two(lambda x: x.dim() > 0, lambda x, y: y.dim() == 0, lambda x: integers())

    def dims(self, n):
        return sorted(self.dice.sample(range(n), self.int(1, n)))

    def order(self, n):
        return self.dice.sample(range(n), n)

    def expanded(self):
        v = self.any(lambda x: x.numel() <= 12 and (x.dim() < 3 or 1 in x.shape))
        if v is None:
            return None
        shape = [self.int(2, 3) if n == 1 and self.int(0, 1) else n for n in self.t[v].shape]
        return [v], ([2] if len(shape) < 3 and self.int(0, 1) else []) + shape

    def reshaped(self):
        v = self.any()
        left, shape = self.t[v].numel(), []
        for _ in range(self.int(0, 3)):
            shape.append(self.some([n for n in range(1, left + 1) if left % n == 0]))
            left //= shape[-1]
        return [v], shape + [left]

    def joined(self):
        v = self.any(lambda x: x.dim() > 0)
        if v is None:
            return None
        shape = self.t[v].shape
        dim = self.int(0, len(shape) - 1)
        w = self.any(lambda y: y.dim() == len(shape) and all(a == b for i, (a, b) in enumerate(zip(shape, y.shape)) if i != dim))
        return ([v, w, v] if self.int(0, 3) == 0 else [v, w]), [dim]

    def indexed(self, integers):
        """x, a source that is x's size but for one dimension, where it may be shorter; and the dimension."""
        v = self.any(lambda x: x.dim() > 0)
        if v is None:
            return None
        shape = self.t[v].shape
        dim = self.int(0, len(shape) - 1)
        w = self.any(lambda y: y.dim() == len(shape) and y.shape[dim] <= shape[dim] and
                     all(a == b for i, (a, b) in enumerate(zip(shape, y.shape)) if i != dim))
        return w is not None and ([v, w], [dim, *integers()])

    @staticmethod
    def memory(t):
        return t.storage().data_ptr()

    def shares(self, a, b):
        return self.memory(a) == self.memory(b)

    @staticmethod
    def broadcasts_to(shape, target):
        try:
            return torch.broadcast_shapes(shape, target) == target
        except RuntimeError:
            return False

    def writable(self):
        def alone(x):
            places = torch.arange(x.storage().size()).as_strided(x.shape, x.stride(), x.storage_offset())
            return self.memory(x) in self.clean and places.unique().numel() == x.numel()
        return self.any(alone)

    def done(self, name, operands):
        """Notes what may be written after the op that made the last variable."""
        y = self.t[-1]
        if name not in KEEPS_NO_OPERAND:
            for v in operands[1 if name in WRITES else 0:]:
                self.clean.discard(self.memory(self.t[v]))
        if name in KEEPS_RESULT:
            self.clean.discard(self.memory(y))
        elif name in FRESH and not any(self.shares(y, self.t[v]) for v in operands):
            self.clean.add(self.memory(y))


def checksums(number, variables, leaf_count, sinks):
    """(value, first, second); second is None where PyTorch cannot."""
    leaves = variables[:leaf_count]
    weights = lambda k, x: numbers(number, k, x.shape)
    value = sum((weights(32 + v, variables[v]) * variables[v] * variables[v]).sum() for v in sinks)
    zeros = lambda gradients: [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, leaves)]
    sums = lambda gradients: [(weights(8 * s + k, g) * g).sum() for s in (1, 2) for k, g in enumerate(gradients)]
    g = zeros(torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True))
    first = sums(g)
    target = sum(first[:leaf_count])
    try:
        second = sums(zeros(torch.autograd.grad(target, leaves, allow_unused=True))) if target.requires_grad else [target * 0] * len(first)
    except RuntimeError as error:
        if "not implemented" not in str(error) and "not differentiable" not in str(error):
            raise
        second = None
    return [value.item()], [s.item() for s in first], second and [s.item() for s in second]


def replay(line, move=lambda k, x: x):
    """The checksums of a line, at leaves that are moved."""
    head, *parts = line.split("|")[0].split(";")
    number, *leaves = head.split()
    number = int(number)
    variables = [move(k, leaf(number, k, text)).requires_grad_() for k, text in enumerate(leaves)]
    for part in parts:
        words = part.split()
        if words[0] == "=":
            return checksums(number, variables, len(leaves), [int(v) for v in words[1:]])
        colon = words.index(":") if ":" in words else len(words)
        apply(words[0], [int(v) for v in words[1:colon]], [int(a) for a in words[colon + 1:]], variables)


def differ(a, b, tolerance):
    return any(len(p) != len(q) or any(not abs(x - y) <= tolerance * (1 + abs(x)) for x, y in zip(p, q)) for p, q in zip(a, b) if p and q)


def names(dice, state):
    """Which ops to try. Results that may be written are rare: more of them, of views into them and of writes than by chance."""
    die = dice.random()
    if state.writable() is not None:
        group = WRITES if die < 0.4 else VIEWS if die < 0.6 else OPS
    else:
        group = FRESH if die < 0.2 else OPS
    return dice.sample(sorted(group), 12 if group is OPS else 4)


def is_true(line, result):
    """Whether finite differences of the value and of the sum of `first` agree. PyTorch has a few wrong derivatives."""
    number, *leaves = line.split(";")[0].split()
    for k in range(len(leaves)):
        def moved(step):
            value, first, _ = replay(line, lambda n, x: x + step * numbers(int(number), 8 + k, x.shape) if n == k else x)
            return [value, [sum(first[:len(leaves)])]]
        slopes = [[(a - b) / 2e-6] for (a,), (b,) in zip(moved(1e-6), moved(-1e-6))]
        if differ(slopes, [part and [part[k]] for part in result[1:]], 1e-4):
            print(f"not as finite differences say: {line}", file=sys.stderr)
            return False
    return True


def draw(number, dice, used):
    """A program as a line without its checksums, or None."""
    leaves = []
    for text in dice.choice(SHAPES).split():
        dims = len(shape_of(text))
        layout = dice.choice("cct" * (dims > 1) + "cs" * (dims > 0) + "e" * (dims > 1 and shape_of(text)[0] > 1) or "c")
        leaves.append(f"{text}/{layout}/{dice.choice('nnp')}")
    variables = [leaf(number, k, text).requires_grad_() for k, text in enumerate(leaves)]
    state, parts, consumed = Draw(dice, variables), [], set()
    for _ in range(dice.randint(3, 8)):
        for name in sorted(names(dice, state), key=lambda n: used[n]):
            proposal = OPS[name][1](state)
            if not proposal:
                continue
            operands, integers = proposal
            try:
                apply(name, operands, integers, variables)
            except (RuntimeError, ValueError, IndexError):
                if name in WRITES:
                    return None
                continue
            state.done(name, operands)
            consumed.update(operands)
            parts.append(" ".join([name, *map(str, operands)] + [":"] * bool(integers) + [str(a) for a in integers]))
            break
    sinks = [v for v in range(len(leaves), len(variables)) if v not in consumed]
    if len(parts) < 3:
        return None
    return " ; ".join([" ".join([str(number), *leaves]), *parts, "= " + " ".join(map(str, sinks))])


def program(number, used):
    for attempt in range(1000):
        try:
            line = draw(number, random.Random(f"{number}/{attempt}"), used)
            if line is None:
                continue
            result = replay(line)
            moved = replay(line, lambda k, x: x * (1 + 1e-12))
        except (RuntimeError, ValueError):
            continue
        everything = [x for part in result if part for x in part]
        tame = all(abs(x) < 1e4 for x in everything) and any(x != 0 for x in result[1]) and not differ(result, moved, 1e-7)
        if tame and is_true(line, result):
            return line, result
    raise AssertionError(f"no program {number}")


def ops_of(line):
    return [part.split()[0] for part in line.split("|")[0].split(";")[1:-1]]


def check(path):
    lines = [line for line in open(path, encoding="utf-8") if not line.startswith("#")]
    wrong = 0
    for line in lines:
        want = [None if part.split() == ["-"] else [float(w) for w in part.split()] for part in line.split("|")[1:]]
        if differ(replay(line), want, 1e-9):
            wrong += 1
            print(line, end="")
    print(f"PyTorch {torch.__version__}: {len(lines)} programs, {wrong} differ")
    print(f"{0 if wrong else 1} passed, {1 if wrong else 0} failed, 0 skipped")
    return wrong


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--check"]:
        return min(1, check(sys.argv[2]))
    print(f"# Made by golden_programs.py with PyTorch {torch.__version__.split('a')[0]}; do not edit.")
    used = dict.fromkeys(OPS, 0)
    twice = 0
    for number in range(1, COUNT + 1):
        line, (value, first, second) = program(number, used)
        for name in ops_of(line):
            used[name] += 1
        twice += second is not None
        text = [" ".join(f"{x:.13g}" for x in part) if part else "-" for part in (value, first, second)]  # compared to 1e-9
        print(line, *text, sep=" | ")
    rare = sorted(used.items(), key=lambda item: item[1])[:12]
    print(f"{len(used)} ops, {twice} programs twice; the rarest: {rare}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
