#!/usr/bin/env python3
"""Writes golden_rules.h: a parameter after ten steps of PyTorch's optimisers, in f64.

    golden_rules.py > golden_rules.h        (needs PyTorch; made with 2.15)

Parameter and gradients are multiples of 1/8, so both sides have the same ones; see values() in rule_optimizer_test.cpp.
"""
import math

import torch

STEPS, COUNT = 10, 6

# Group of options in C++ → class and options in PyTorch
CASES = {
    "kAdagrad": ("Adagrad", dict(lr=0.1)),
    "kAdagradOptions": ("Adagrad", dict(lr=0.1, lr_decay=0.25, weight_decay=0.125, initial_accumulator_value=0.5, eps=0.01)),
    "kAdadelta": ("Adadelta", dict()),
    "kAdadeltaOptions": ("Adadelta", dict(lr=0.5, rho=0.75, eps=0.01, weight_decay=0.125)),
    "kAdamax": ("Adamax", dict(lr=0.1)),
    "kAdamaxOptions": ("Adamax", dict(lr=0.1, betas=(0.75, 0.5), eps=0.01, weight_decay=0.125)),
    "kNAdam": ("NAdam", dict(lr=0.1)),
    "kNAdamOptions": ("NAdam", dict(lr=0.1, betas=(0.75, 0.5), eps=0.01, weight_decay=0.125, momentum_decay=0.5)),
    "kNAdamDecoupled": ("NAdam", dict(lr=0.1, weight_decay=0.5, decoupled_weight_decay=True)),
    "kRAdam": ("RAdam", dict(lr=0.1)),
    "kRAdamOptions": ("RAdam", dict(lr=0.1, betas=(0.75, 0.875), eps=0.01, weight_decay=0.125)),
    "kRAdamDecoupled": ("RAdam", dict(lr=0.1, weight_decay=0.5, decoupled_weight_decay=True)),
}


# Of Muon, over a matrix of this shape. kMuonBf16 is as PyTorch computes it, the others without its rounding to bf16.
MATRIX_CASES = {
    "kMuonWide": ((2, 3), dict(lr=0.1)),
    "kMuonTall": ((3, 2), dict(lr=0.1, weight_decay=0.5, momentum=0.75, nesterov=False, ns_steps=3)),
    "kMuonRms": ((3, 2), dict(lr=0.1, adjust_lr_fn="match_rms_adamw")),
    "kMuonBf16": ((2, 3), dict(lr=0.1)),
}

# Of Adafactor, over a parameter of this shape.
ADAFACTOR_CASES = {
    "kAdafactorVector": ((COUNT,), dict(lr=0.1)),
    "kAdafactorVectorOptions": ((COUNT,), dict(lr=0.25, beta2_decay=-0.5, eps=(0.25, 0.5), d=1.125, weight_decay=0.125, maximize=True)),
    "kAdafactorMatrix": ((2, 3), dict(lr=0.1)),
    "kAdafactorMatrixOptions": ((3, 2), dict(lr=0.25, beta2_decay=-0.5, eps=(0.25, 0.5), d=1.125, weight_decay=0.125, maximize=True)),
    "kAdafactorStack": ((2, 2, 3), dict(lr=0.1)),
}


def orthogonalized(grad, coefficients, steps, eps):
    """PyTorch's _zeropower_via_newtonschulz in the precision of grad."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


def values(factor, step, count=COUNT):
    return torch.tensor([((factor * i + 5 * step) % 11 - 5) / 8 for i in range(count)], dtype=torch.float64)


def after_steps(name, options, shape=(COUNT,)):
    count = math.prod(shape)
    p = values(3, 0, count).reshape(shape).requires_grad_()
    optimizer = getattr(torch.optim, name)([p], **options)
    for step in range(STEPS):
        p.grad = values(7, step, count).reshape(shape)
        optimizer.step()
    return p.flatten().tolist()


def after_normalized_steps(lr, momentum, steps):
    """Nesterov's momentum over a matrix [2,3] whose norm each step first makes sqrt(2); PyTorch has no such option."""
    p, buffer = values(3, 0).reshape(2, 3), torch.zeros(2, 3)
    for step in range(STEPS):
        grad = values(7, step).reshape(2, 3)
        buffer = momentum * buffer + grad
        p = p * (2**0.5 / p.norm()) - lr * orthogonalized(grad + momentum * buffer, (3.4445, -4.775, 2.0315), steps, 1e-7)
    return p.flatten().tolist()


torch.set_default_dtype(torch.float64)  # PyTorch then keeps numbers such as NAdam's mu_product in f64
print(f"""// A parameter after {STEPS} steps as PyTorch {torch.__version__.split('+')[0]} computes them. Written by golden_rules.py.
#pragma once

#include <vector>

namespace golden {{

// clang-format off""")
def write(case, result):
    words = [repr(value) for value in result]
    print(f"inline const std::vector<double> {case} = {{")
    for i in range(0, len(words), 3):
        print(f"    {', '.join(words[i:i + 3])},")
    print("};")
for case, (name, options) in CASES.items():
    write(case, after_steps(name, options))
for case, (shape, options) in ADAFACTOR_CASES.items():
    write(case, after_steps("Adafactor", options, shape))
in_bf16 = torch.optim._muon._zeropower_via_newtonschulz
for case, (shape, options) in MATRIX_CASES.items():
    torch.optim._muon._zeropower_via_newtonschulz = in_bf16 if case == "kMuonBf16" else orthogonalized
    write(case, after_steps("Muon", options, shape))
write("kMuonNormalized", after_normalized_steps(lr=0.24, momentum=0.6, steps=3))
print("// clang-format on\n\n}  // namespace golden")
