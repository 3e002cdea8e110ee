#!/usr/bin/env python3
"""Writes promotion.txt: what PyTorch gives for two operands of every pair of dtypes, and for every dtype and a number.

    promotion.py > promotion.txt        (needs PyTorch; made with 2.15 on the CPU)

    a u8 250 3                        the first operand [2] of this dtype; `b`: the second
    add tt u8 i8=i16:247,5 i16=…      add(a, b) of a u8 and each second operand: [2] and [2], the result's dtype and values
    add tz …                          the second one is 0-d, with b's first value
    add tn u8 n:-1=u8:249,2 …         and a number: n:TRUE or n:FALSE for bool, with a point for floating ones
    div nt u8 n:-1=f32:-0.004,…       number first
    E                                 an error
Left out are the results that differ from PyTorch's on purpose, as ops/README.md says: arithmetic on bool, and numbers
that a half type would have to round first.
"""
import torch

DTYPES = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
          "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
HALF = ("f16", "bf16")
A = {"bool": (0, 1), "u8": (250, 3), "i8": (100, -128), "i16": (300, -7), "i32": (70000, 5), "i64": (2**33 + 1, -6),
     "f16": (-5.5, 250), "bf16": (-5.5, 250), "f32": (-5.5, 250), "f64": (-5.5, 250)}
B = {"bool": (1, 1), "u8": (200, 2), "i8": (-3, 7), "i16": (300, -2), "i32": (70000, -3), "i64": (2**32 + 2, 3),
     "f16": (0.5, -2), "bf16": (0.5, -2), "f32": (0.5, -2), "f64": (0.5, -2)}
NUMBERS = {"TRUE": True, "-1": -1, "2": 2, "100": 100, "256": 256, "0.5": 0.5}
MASK = torch.tensor([True, False])


def in_place(f):
    def of(a, b):
        a = a.clone()
        f(a, b)
        return a
    return of


OPS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor") if torch.is_tensor(a) else a // b,
    "remainder": torch.remainder, "pow": torch.pow, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b,
    "maximum": torch.maximum, "where": lambda a, b: torch.where(MASK, a, b), "clamp_low": lambda a, b: a.clamp(min=b),
    "add_": in_place(lambda a, b: a.add_(b)), "mul_": in_place(lambda a, b: a.mul_(b)),
    "sub_3_": in_place(lambda a, b: a.sub_(b, alpha=3)), "div_": in_place(lambda a, b: a.div_(b)),
    "div_floor_": in_place(lambda a, b: a.div_(b, rounding_mode="floor")),
    "clamp_low_": in_place(lambda a, b: a.clamp_(min=b)), "fill_": in_place(lambda a, b: a.fill_(b)),
    "masked_fill": lambda a, b: a.masked_fill(MASK, b), "full_like": torch.full_like,
}
FORMS = {
    "tt": ("add sub mul div div_floor remainder pow lt eq maximum where clamp_low "
           "add_ mul_ sub_3_ div_ div_floor_ clamp_low_").split(),
    "tz": "add div div_floor lt add_ div_floor_ clamp_low_".split(),
    "tn": "add sub mul div div_floor remainder pow lt eq where clamp_low add_ mul_ div_ fill_ masked_fill full_like".split(),
    "nt": "sub div div_floor remainder pow where".split(),
}


def differs_on_purpose(form, op, a, b):
    """a, b: names of dtypes; of a number "bool", "int" or "float"."""
    if form == "tz" and a in HALF and b in ("i32", "i64"):
        return True
    if op in ("div", "lt", "eq", "where", "fill_", "full_like"):
        return False
    if a == b == "bool" or op.startswith("sub") and "bool" in (a, b):
        return True
    if op == "masked_fill":
        return a == "bool" or b == "float" and not DTYPES[a].is_floating_point
    if op == "clamp_low" and a == "bool":
        return b in ("int", "float")
    return op.endswith("_") and a in HALF and b not in (a, "int", "float")


def text(op, a, b):
    try:
        y = OPS[op](a, b)
    except (RuntimeError, NotImplementedError, ZeroDivisionError):
        return "E"
    values = y.double().tolist() if y.is_floating_point() else y.long().tolist()
    return NAMES[y.dtype] + ":" + ",".join(f"{v:.9g}" if y.is_floating_point() else str(v) for v in values)


def main():
    print("# By promotion.py, which says how to read it, with PyTorch " + torch.__version__.split("+")[0] + ".")
    for mark, table in (("a", A), ("b", B)):
        for name, values in table.items():
            print(mark, name, *values)
    for form, ops in FORMS.items():
        for op in ops:
            for name, dtype in DTYPES.items():
                tensor = torch.tensor((A if form[0] == "t" else B)[name], dtype=dtype)
                cases = []
                if "n" in form:
                    for word, number in NUMBERS.items():
                        y = text(op, tensor, number) if form == "tn" else text(op, number, tensor)
                        if not differs_on_purpose(form, op, name, type(number).__name__):
                            cases.append(f"n:{word}={y}")
                else:
                    for other, its in DTYPES.items():
                        b = torch.tensor(B[other] if form == "tt" else B[other][0], dtype=its)
                        if not differs_on_purpose(form, op, name, other):
                            cases.append(f"{other}={text(op, tensor, b)}")
                if cases:
                    print(op, form, name, *cases)


if __name__ == "__main__":
    main()
