"""The larger ops of golden_programs.py: products, distances, convolution, normalisation, losses. See golden_program_ops.py."""
import math

import torch
from torch.nn import functional as F

from golden_program_ops import OPS, apart, far, index, inside, mask, op, spread, unary

REDUCTIONS = ["none", "mean", "sum"]

# Products, distances.
op("matmul", lambda t, a: torch.matmul(*t), lambda d: d.two(lambda x: x.dim() > 0, lambda a, b: b.dim() > 0 and
   a.shape[-1] == b.shape[max(0, b.dim() - 2)] and
   (min(a.dim(), b.dim()) < 3 or a.shape[0] == b.shape[0] or 1 in (a.shape[0], b.shape[0]))))
op("matmul_t", lambda t, a: torch.matmul(t[0], t[1].transpose(-1, -2)),
   lambda d: d.two(lambda x: x.dim() in (2, 3), lambda a, b: b.shape == a.shape or b.dim() == 2 and b.shape[-1] == a.shape[-1]))
op("bmm", lambda t, a: torch.bmm(t[0], t[1].mT), lambda d: d.two(lambda x: x.dim() == 3, lambda a, b: a.shape == b.shape))
op("mm", lambda t, a: torch.mm(*t), lambda d: d.two(lambda x: x.dim() == 2, lambda a, b: b.dim() == 2 and a.shape[1] == b.shape[0]))
op("mv", lambda t, a: torch.mv(*t), lambda d: d.two(lambda x: x.dim() == 2, lambda a, b: b.shape == a.shape[1:]))
op("addmm", lambda t, a: torch.addmm(t[0], t[1], t[1].t(), beta=a[0] / 8, alpha=a[1] / 8),
   lambda d: d.two(lambda x: x.dim() in (1, 2), lambda x, m: m.dim() == 2 and x.shape[-1] == m.shape[0] and
                   (x.dim() == 1 or x.shape[0] in (1, m.shape[0])),
                   lambda x: [d.int(2, 12), d.int(2, 12)]))
op("dot", lambda t, a: torch.dot(*t), lambda d: d.two(lambda x: x.dim() == 1, lambda a, b: a.shape == b.shape))
op("outer", lambda t, a: torch.outer(*t),
   lambda d: d.two(lambda x: x.dim() == 1 and x.numel() < 7, lambda a, b: b.dim() == 1 and b.numel() < 7))
op("kron", lambda t, a: torch.kron(*t),
   lambda d: d.two(lambda x: 0 < x.dim() < 3, lambda a, b: 0 < b.dim() < 3 and a.numel() * b.numel() < 40))
op("linear", lambda t, a: F.linear(*t), lambda d: d.three(lambda x: x.dim() > 0, lambda x, w: w.dim() == 2 and w.shape[1] == x.shape[-1],
                                                          lambda x, w, b: b.shape == w.shape[:1]))
for approximate in ("none", "tanh"):
    op(f"linear_gelu_{approximate}", lambda t, a, approximate=approximate: F.gelu(F.linear(*t), approximate=approximate), OPS["linear"][1])
EQUATIONS = {"ij,jk->ik": (2, 2), "ij,kj->ki": (2, 2), "bij,bkj->bik": (3, 3), "ij,ij->j": (2, 2), "ij->ji": (2,), "ijk->ik": (3,),
             "bij,j->bi": (3, 1), "i,j->ij": (1, 1), "ij,ij,ij->": (2, 2, 2), "ii->i": (2,), "bij,bij->": (3, 3)}


def einsum_proposal(equation):
    def propose(d):
        found = [d.any(lambda x, n=n: x.dim() == n) for n in EQUATIONS[equation]]
        if None in found:
            return None
        sizes = {}
        for v, word in zip(found, equation.split("->")[0].split(",")):
            for letter, size in zip(word, d.t[v].shape):
                if sizes.setdefault(letter, size) != size:
                    return None
        return found, []
    return propose


for equation in EQUATIONS:
    op(f"einsum={equation}", lambda t, a, equation=equation: torch.einsum(equation, *t), einsum_proposal(equation))
op("cosine_similarity", lambda t, a: F.cosine_similarity(*t, dim=a[0]),
   lambda d: d.two(lambda x: x.dim() > 0 and far(0)(x), lambda a, b: a.shape == b.shape and far(0)(b), lambda x: [d.int(0, x.dim() - 1)]))
op("pairwise_distance", lambda t, a: F.pairwise_distance(*t),
   lambda d: d.two(lambda x: x.dim() == 2, lambda a, b: a.shape == b.shape and far(0)(a - b)))
for p in (1, 2, 3):
    op(f"cdist{p}", lambda t, a, p=p: torch.cdist(*t, p=float(p)),
       lambda d: d.two(lambda x: x.dim() == 2, lambda a, b: b.dim() == 2 and a.shape[1] == b.shape[1] and far(0)(a[:, None] - b)))


# Convolution, windows, normalisation.
def convolution(name, dims, run, extra):
    def propose(d):
        groups = d.int(1, 2)
        transposed = name.startswith("conv_transpose")
        def fits(x, w):
            if w.dim() != dims:
                return False
            return w.shape[0] == x.shape[1] if transposed else w.shape[1] * groups == x.shape[1]
        found = d.two(lambda x: x.dim() == dims, fits, lambda x: [groups, d.int(1, 2), d.int(0, 1), d.int(1, 2), *extra(d)])
        if not found:
            return None
        filters = d.t[found[0][1]].shape[1] * groups if transposed else d.t[found[0][1]].shape[0]
        bias = d.any(lambda b: b.shape == (filters,))
        return (found[0] + ([bias] if bias is not None else []), found[1])
    op(name, run, propose)


def conv_arguments(t, a):
    return {"bias": t[2] if len(t) > 2 else None, "groups": a[0], "stride": a[1], "padding": a[2], "dilation": a[3]}


convolution("conv1d", 3, lambda t, a: F.conv1d(t[0], t[1], **conv_arguments(t, a)), lambda d: [])
convolution("conv2d", 4, lambda t, a: F.conv2d(t[0], t[1], **conv_arguments(t, a)), lambda d: [])
convolution("conv_transpose2d", 4, lambda t, a: F.conv_transpose2d(t[0], t[1], output_padding=a[4], **conv_arguments(t, a)),
            lambda d: [d.int(0, 1)])


def image(name, run, numbers, domain=lambda x: True):
    unary(name, run, lambda x: x.dim() == 4 and domain(x), numbers)


image("max_pool2d", lambda x, k, s, p, c: F.max_pool2d(x, k, s, p, ceil_mode=bool(c)),
      lambda d: [d.int(2, 3), d.int(1, 2), d.int(0, 1), d.int(0, 1)], apart)
image("avg_pool2d", lambda x, k, s, p, c, i: F.avg_pool2d(x, k, s, p, bool(c), bool(i)),
      lambda d: [d.int(2, 3), d.int(1, 2), d.int(0, 1), d.int(0, 1), d.int(0, 1)])
image("adaptive_avg_pool2d", lambda x, h, w: F.adaptive_avg_pool2d(x, (h, w)), lambda d: [d.int(1, 3), d.int(1, 3)])
image("upsample_nearest", lambda x, h, w: F.interpolate(x, (h, w)), lambda d: [d.int(1, 5), d.int(1, 5)])
image("upsample_bilinear", lambda x, h, w, c: F.interpolate(x, (h, w), mode="bilinear", align_corners=bool(c)),
      lambda d: [d.int(1, 5), d.int(1, 5), d.int(0, 1)])
image("upsample_bicubic", lambda x, h, w, c: F.interpolate(x, (h, w), mode="bicubic", align_corners=bool(c)),
      lambda d: [d.int(1, 5), d.int(1, 5), d.int(0, 1)])
image("unfold", lambda x, k, s, p: F.unfold(x, k, stride=s, padding=p), lambda d: [d.int(1, 2), d.int(1, 2), d.int(0, 1)])
unary("fold", lambda x: F.fold(x, (3, 3), 2), lambda x: x.dim() == 3 and x.shape[1] % 4 == 0 and x.shape[2] == 4)


def norm_proposal(axis, numbers, domain):
    """x alone, or x with a weight and a bias of the size of its dimension `axis`."""
    def propose(d):
        v = d.any(lambda x: x.dim() > 1 and domain(x))
        if v is None:
            return None
        more = [d.any(lambda w: w.shape == (d.t[v].shape[axis],)) for _ in range(2)]
        return [v] + (more if None not in more else []), numbers(d, d.t[v])
    return propose


def channels_spread(x):
    dims = [i for i in range(x.dim()) if i != 1]
    return spread(x, dims)


op("layer_norm", lambda t, a: F.layer_norm(t[0], t[0].shape[-1:], *t[1:]), norm_proposal(-1, lambda d, x: [], lambda x: spread(x, [-1])))
op("batch_norm", lambda t, a: F.batch_norm(t[0], None, None, *t[1:], training=True), norm_proposal(1, lambda d, x: [], channels_spread))
op("batch_norm_relu", lambda t, a: F.relu(F.batch_norm(t[0], None, None, *t[1:], training=True)), OPS["batch_norm"][1])
op("batch_norm_add_relu", lambda t, a: F.relu(F.batch_norm(t[0], None, None, training=True) + t[1]),
   lambda d: d.two(lambda x: x.dim() > 1 and channels_spread(x), lambda x, r: x.shape == r.shape))
op("group_norm", lambda t, a: F.group_norm(t[0], a[0], *t[1:]),
   norm_proposal(1, lambda d, x: [1], lambda x: spread(x, list(range(1, x.dim())))))


# Losses: the reduction is the last integer.
def loss(name, run, domain=lambda x, y: True, numbers=lambda d: []):
    op(name, lambda t, a: run(*t, *a[:-1], reduction=REDUCTIONS[a[-1]]),
       lambda d: d.two(lambda x: True, lambda x, y: x.shape == y.shape and domain(x, y), lambda x: [*numbers(d), d.int(0, 2)]))


loss("mse_loss", F.mse_loss)
loss("l1_loss", F.l1_loss, lambda x, y: far(0)(x - y))
loss("smooth_l1_loss", F.smooth_l1_loss, lambda x, y: far(0, 1, -1)(x - y))
loss("huber_loss", lambda x, y, reduction: F.huber_loss(x, y, reduction, delta=0.5), lambda x, y: far(0, 0.5, -0.5)(x - y))
loss("bce_with_logits", F.binary_cross_entropy_with_logits)
loss("binary_cross_entropy", F.binary_cross_entropy, lambda x, y: inside(0.02, 0.98)(x) and inside(0, 1)(y))
loss("kl_div", lambda x, y, log, reduction: F.kl_div(x, y, reduction=reduction, log_target=bool(log)),
     lambda x, y: inside(0.02, 50)(y), lambda d: [d.int(0, 1)])
loss("poisson_nll_loss", F.poisson_nll_loss)
op("gaussian_nll_loss", lambda t, a: F.gaussian_nll_loss(*t, reduction=REDUCTIONS[a[0]]),
   lambda d: d.three(lambda x: x.dim() > 0, lambda x, y: x.shape == y.shape,
                     lambda x, y, v: v.shape == x.shape and inside(0.1, 50)(v), lambda x: [d.int(0, 2)]))


def signs(stream, shape):
    return mask(stream, shape).double() * 2 - 1


loss("margin_ranking_loss", lambda x, y, s, reduction: F.margin_ranking_loss(x, y, signs(s, x.shape), 0.25, reduction=reduction),
     lambda x, y: far(0.25, -0.25)(x - y), lambda d: [d.stream()])
unary("hinge_embedding_loss", lambda x, s, r: F.hinge_embedding_loss(x, signs(s, x.shape), 1.0, reduction=REDUCTIONS[r]),
      far(1), lambda d: [d.stream(), d.int(0, 2)])
op("cosine_embedding_loss", lambda t, a: F.cosine_embedding_loss(*t, signs(a[0], t[0].shape[:1]), -2.0, reduction=REDUCTIONS[a[1]]),
   lambda d: d.two(lambda x: x.dim() == 2 and far(0)(x), lambda a, b: a.shape == b.shape and far(0)(b),
                   lambda x: [d.stream(), d.int(0, 2)]))
op("triplet_margin_loss", lambda t, a: F.triplet_margin_loss(*t, margin=20.0, reduction=REDUCTIONS[a[0]]),
   lambda d: d.three(lambda x: x.dim() == 2, lambda a, p: a.shape == p.shape and far(0)(a - p),
                     lambda a, p, n: n.shape == a.shape and far(0)(a - n), lambda x: [d.int(0, 2)]))
unary("cross_entropy", lambda x, s, smooth, r:
      F.cross_entropy(x, index(s, [x.shape[0]], x.shape[1]), label_smoothing=smooth / 8, reduction=REDUCTIONS[r]),
      lambda x: x.dim() == 2, lambda d: [d.stream(), d.int(0, 2), d.int(0, 2)])
op("cross_entropy_with", lambda t, a: F.cross_entropy(t[0], t[1].softmax(1), reduction=REDUCTIONS[a[0]]),
   lambda d: d.two(lambda x: x.dim() == 2, lambda x, y: x.shape == y.shape, lambda x: [d.int(0, 2)]))
unary("nll_loss", lambda x, s, r: F.nll_loss(x, index(s, [x.shape[0]], x.shape[1]), reduction=REDUCTIONS[r]),
      lambda x: x.dim() == 2, lambda d: [d.stream(), d.int(0, 2)])
