#!/usr/bin/env python3
"""Writes golden_linalg.safetensors: what torch.linalg computes, with gradients, in f64.

    make_linalg_golden.py        (needs PyTorch and safetensors; made with 2.15.0 on the CPU)

Each case has its inputs under "CASE.x0", "CASE.x1", its results under "CASE.y0", …, and the gradients of
sum over k of sum(y_k cos(i + k)) under "CASE.g0", …, where i counts elements. What depends on the signs of singular vectors or
eigenvectors is put into a form that does not. The table in linalg_test.cpp has the same cases.
"""
import pathlib

import safetensors.torch
import torch
from torch import linalg

inf = float("inf")


def positive(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def symmetric(x):
    return x + x.mT


def svd(x, full):
    u, s, vh = linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    return s, u[..., :k] @ vh[..., :k, :], (u[..., :k] * s.square().unsqueeze(-2)) @ u[..., :k].mT


def eigh(x, uplo):
    w, v = linalg.eigh(symmetric(x), UPLO=uplo)
    return w, (v * w.exp().unsqueeze(-2)) @ v.mT


def lstsq(a, b):
    y = linalg.lstsq(a, b, driver="gelsd")
    return (y.solution, y.residuals) if y.residuals.numel() else (y.solution,)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def rank_one(*shape):
    return randn(*shape[:-1], 1) @ randn(*shape[:-2], 1, shape[-1])


CASES = {
    "cholesky": ([(2, 3, 3)], lambda x: linalg.cholesky(positive(x))),
    "cholesky_upper": ([(4, 4)], lambda x: linalg.cholesky(positive(x), upper=True)),
    "solve": ([(2, 1, 3, 3), (2, 3, 2)], linalg.solve),
    "solve_vectors": ([(2, 3, 3), (2, 3)], linalg.solve),
    "solve_one_vector": ([(2, 3, 3), (3,)], linalg.solve),
    "solve_right": ([(2, 3, 3), (2, 2, 3)], lambda a, b: linalg.solve(a, b, left=False)),
    "solve_triangular": ([(2, 3, 3), (3, 2)], lambda a, b: linalg.solve_triangular(a, b, upper=False)),
    "solve_triangular_upper": ([(2, 3, 3), (2, 3, 2)], lambda a, b: linalg.solve_triangular(a, b, upper=True)),
    "solve_triangular_right": ([(3, 3), (2, 2, 3)], lambda a, b: linalg.solve_triangular(a, b, upper=True, left=False)),
    "solve_triangular_unit": ([(3, 3), (3, 2)], lambda a, b: linalg.solve_triangular(a, b, upper=False, unitriangular=True)),
    "inv": ([(2, 3, 3)], linalg.inv),
    "det": ([(2, 2, 4, 4)], linalg.det),
    "slogdet": ([(3, 4, 4)], lambda x: linalg.slogdet(x).logabsdet),
    "qr_tall": ([(2, 4, 3)], linalg.qr),
    "qr_square": ([(3, 3)], linalg.qr),
    "qr_wide": ([(2, 2, 4)], linalg.qr),
    "qr_wide_complete": ([(2, 4)], lambda x: linalg.qr(x, mode="complete")),
    "svd_tall": ([(2, 4, 3)], lambda x: svd(x, False)),
    "svd_square": ([(3, 3)], lambda x: svd(x, True)),
    "svd_wide_full": ([(2, 2, 4)], lambda x: svd(x, True)),
    "eigh": ([(2, 4, 4)], lambda x: eigh(x, "L")),
    "eigh_upper": ([(3, 3)], lambda x: eigh(x, "U")),
    "pinv_tall": ([(2, 4, 3)], linalg.pinv),
    "pinv_wide": ([(2, 4)], linalg.pinv),
    "pinv_rank_one": ([rank_one(2, 3, 3)], lambda x: linalg.pinv(x, rtol=1e-8)),
    "lstsq_tall": ([(2, 5, 3), (2, 5, 2)], lstsq),
    "lstsq_wide": ([(2, 4), (2, 1)], lstsq),
    "lstsq_rank_one": ([rank_one(4, 3), (4, 2)], lstsq),
    "matrix_exp": ([(2, 3, 3)], linalg.matrix_exp),
    "matrix_exp_large": ([20 * randn(3, 3)], linalg.matrix_exp),
    "norm_fro": ([(2, 3, 4)], linalg.matrix_norm),
    "norm_nuc": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, "nuc")),
    "norm_1": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, 1)),
    "norm_minus_1": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, -1)),
    "norm_2": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, 2)),
    "norm_minus_2": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, -2)),
    "norm_inf": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, inf)),
    "norm_minus_inf": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, -inf)),
    "norm_of_other_dims": ([(2, 3, 4)], lambda x: linalg.matrix_norm(x, "nuc", dim=(2, 0), keepdim=True)),
    "svdvals_tall": ([(2, 4, 3)], linalg.svdvals),
    "svdvals_wide": ([(2, 2, 4)], linalg.svdvals),
    "eigvalsh": ([(2, 4, 4)], lambda x: linalg.eigvalsh(x)),
    "eigvalsh_upper": ([(3, 3)], lambda x: linalg.eigvalsh(x, UPLO="U")),
}


def with_values(values, symmetric):
    """Matrices of 5 x 5 with these singular values, or with these eigenvalues."""
    u, v = linalg.qr(randn(2, 5, 5)).Q
    return u @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ (u if symmetric else v).mT


RANKS = {  # without gradients
    "rank": (lambda: torch.stack([with_values((3, 2, 1, 0.5, 0), False), with_values((1, 1e-9, 1e-17, 0, 0), False)]), {}),
    "rank_wide": (lambda: rank_one(3, 2, 4), {}),
    "rank_f32": (lambda: with_values((1, 1e-3, 1e-5, 1e-8, 1e-9), False).float(), {}),
    "rank_atol": (lambda: with_values((3, 2, 1, 0.5, 1e-12), False), {"atol": 0.75}),
    "rank_tiny_atol": (lambda: with_values((3, 2, 1, 0.5, 1e-12), False), {"atol": 1e-13}),
    "rank_rtol": (lambda: with_values((3, 2, 1, 0.5, 1e-12), False), {"rtol": 0.5}),
    "rank_both": (lambda: with_values((3, 2, 1, 0.5, 1e-12), False), {"atol": 1.5, "rtol": 0.1}),
    "rank_tol": (lambda: with_values((3, 2, 1, 0.5, 1e-20), False), {"tol": 0.0}),
    "rank_hermitian": (lambda: with_values((-3, 2, -1, 0.5, 0), True), {"hermitian": True}),
    "rank_hermitian_rtol": (lambda: with_values((-3, 2, -1, 0.5, 0), True), {"hermitian": True, "rtol": 0.5}),
}


def main():
    torch.manual_seed(17)
    out = {}
    for name, (inputs, f) in CASES.items():
        xs = [(x if isinstance(x, torch.Tensor) else randn(*x)).requires_grad_() for x in inputs]
        ys = f(*xs)
        ys = (ys,) if isinstance(ys, torch.Tensor) else tuple(ys)
        loss = 0
        for k, y in enumerate(ys):
            loss = loss + (y.reshape(-1) * torch.cos(torch.arange(y.numel(), dtype=torch.float64) + k)).sum()
        gradients = torch.autograd.grad(loss, xs)
        for kind, tensors in (("x", xs), ("y", ys), ("g", gradients)):
            for k, t in enumerate(tensors):
                out[f"{name}.{kind}{k}"] = t.detach().clone().contiguous()
    for name, (make, options) in RANKS.items():
        out[f"{name}.x0"] = make().contiguous()
        out[f"{name}.y0"] = linalg.matrix_rank(out[f"{name}.x0"], **options)
    safetensors.torch.save_file(out, pathlib.Path(__file__).with_name("golden_linalg.safetensors"))


if __name__ == "__main__":
    main()
