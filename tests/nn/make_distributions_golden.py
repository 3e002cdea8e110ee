#!/usr/bin/env python3
"""Writes golden_distributions.safetensors: what torch.distributions computes, with gradients, in f64.

    make_distributions_golden.py        (needs PyTorch and safetensors; made with 2.15.0 on the CPU)

Each case is a distribution, with the parameters "CASE.p0", …, other parameters of the same class, "CASE.q0", …, and a value,
"CASE.value". "CASE.log_prob", "CASE.entropy", "CASE.cdf", "CASE.mean", "CASE.variance" and "CASE.kl" (to the distribution of the
other parameters) stand where PyTorch has them. "CASE.g0", … are the gradients of the sum of log_prob, entropy and kl by the
parameters. The table in distributions_test.cpp has the same cases.
"""
import pathlib

import safetensors.torch
import torch
from torch import distributions as d


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def positive(*shape):
    return torch.rand(*shape, dtype=torch.float64) * 3 + 0.2


def simplex(*shape):
    return torch.softmax(randn(*shape), -1)


def matrix(*shape):
    x = randn(*shape)
    return x @ x.mT + torch.eye(shape[-1], dtype=x.dtype)


def mixture(weights, loc, scale):
    return d.MixtureSameFamily(d.Categorical(logits=weights), d.Normal(loc, scale))


def mixture_of_vectors(weights, loc, scale):
    return d.MixtureSameFamily(d.Categorical(logits=weights), d.Independent(d.Normal(loc, scale), 1))


# name: (the class, how parameters are made, how values are made)
CASES = {
    "normal": (d.Normal, lambda: (randn(2, 1), positive(3)), lambda: randn(4, 2, 3)),
    "log_normal": (d.LogNormal, lambda: (randn(3), positive(3)), lambda: positive(4, 3)),
    "uniform": (d.Uniform, lambda: (-positive(3) - 1, positive(3) + 1), lambda: torch.tensor([[0.1, -0.5, 0.7], [-0.1, 0.4, 0.0]]).double()),
    "exponential": (d.Exponential, lambda: (positive(3),), lambda: positive(2, 3)),
    "gamma": (d.Gamma, lambda: (positive(3), positive(2, 1)), lambda: positive(2, 3)),
    "beta": (d.Beta, lambda: (positive(3), positive(2, 1)), lambda: torch.rand(2, 3, dtype=torch.float64)),
    "bernoulli": (lambda p: d.Bernoulli(probs=p), lambda: (torch.rand(3, dtype=torch.float64),), lambda: torch.tensor([[0, 1, 1], [1, 0, 1]]).double()),
    "bernoulli_logits": (lambda p: d.Bernoulli(logits=p), lambda: (randn(3),), lambda: torch.tensor([1, 0, 1]).double()),
    "categorical": (lambda p: d.Categorical(probs=p), lambda: (positive(2, 4),), lambda: torch.tensor([[0, 3], [2, 1], [1, 1]])),
    "categorical_logits": (lambda p: d.Categorical(logits=p), lambda: (randn(2, 4),), lambda: torch.tensor([2, 1])),
    "multinomial": (lambda p: d.Multinomial(5, probs=p), lambda: (positive(2, 3),), lambda: torch.tensor([[5, 0, 0], [2, 1, 2]]).double()),
    "dirichlet": (d.Dirichlet, lambda: (positive(2, 3),), lambda: simplex(4, 2, 3)),
    "multivariate_normal": (d.MultivariateNormal, lambda: (randn(3), matrix(2, 3, 3)), lambda: randn(2, 3)),
    "multivariate_normal_precision": (lambda loc, p: d.MultivariateNormal(loc, precision_matrix=p), lambda: (randn(2, 3), matrix(3, 3)), lambda: randn(2, 3)),
    "multivariate_normal_tril": (lambda loc, p: d.MultivariateNormal(loc, scale_tril=p.tril()), lambda: (randn(3), torch.linalg.cholesky(matrix(3, 3))), lambda: randn(2, 3)),
    "independent": (lambda loc, scale: d.Independent(d.Normal(loc, scale), 1), lambda: (randn(2, 3), positive(2, 3)), lambda: randn(2, 3)),
    "mixture": (mixture, lambda: (randn(2, 3), randn(2, 3), positive(2, 3)), lambda: randn(4, 2)),
    "mixture_of_vectors": (mixture_of_vectors, lambda: (randn(3), randn(3, 2), positive(3, 2)), lambda: randn(4, 2)),
}


def attempt(f):
    try:
        return f()
    except (NotImplementedError, AttributeError):
        return None


def main():
    torch.manual_seed(23)
    out = {}
    for name, (make, parameters, value) in CASES.items():
        p, q, x = [t.requires_grad_() for t in parameters()], parameters(), value()
        if name == "uniform":
            q = (p[0].detach() - 1, p[1].detach() + 0.5)
        one, other = make(*p), make(*q)
        results = {
            "log_prob": one.log_prob(x),
            "entropy": attempt(one.entropy),
            "cdf": attempt(lambda: one.cdf(x)) if name != "gamma" else None,
            "mean": one.mean,
            "variance": one.variance,
            "kl": attempt(lambda: d.kl_divergence(one, other)),
        }
        loss = sum(results[key].sum() for key in ("log_prob", "entropy", "kl") if results[key] is not None)
        gradients = torch.autograd.grad(loss, p)
        entries = {key: t for key, t in results.items() if t is not None and not torch.isnan(t).any()}
        entries |= {f"{kind}{k}": t for kind, ts in (("p", p), ("q", q), ("g", gradients)) for k, t in enumerate(ts)} | {"value": x}
        out |= {f"{name}.{key}": t.detach().clone().contiguous() for key, t in entries.items()}
    safetensors.torch.save_file(out, pathlib.Path(__file__).with_name("golden_distributions.safetensors"))


if __name__ == "__main__":
    main()
