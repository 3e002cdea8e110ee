"""Models of make_pt2_golden.py about steps that run as one op: those that do, and those that must not."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """torchvision's BasicBlock."""

    def __init__(self, channels, out):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.downsample(x)
        return self.relu(y)


class Fused(nn.Module):
    """A norm before a relu, before a residual and before a convolution."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.block = Block(16, 24)
        self.last = nn.BatchNorm2d(24, momentum=0.3, eps=1e-3)

    def forward(self, x):
        y = self.block(F.relu(self.norm(self.stem(x))))
        return F.relu(y + self.last(y)).mean((2, 3))


class NotFused(nn.Module):
    """Norms and relus that are no single op, but for five: each branch has its reason."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 1, 1))
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(16))
        self.fixed = nn.ModuleList(nn.BatchNorm2d(4, affine=False) for _ in range(2))
        self.bare = nn.BatchNorm2d(4, track_running_stats=False)
        self.group = nn.Conv2d(4, 4, 3, groups=2)
        self.conv = nn.Conv2d(4, 4, 1, bias=False)

    def forward(self, x):
        norms = iter(self.norms)
        y = x * self.w
        a = next(norms)(y)
        out = a * 2 + F.relu(a)  # the relu is not the only reader
        out = out + F.relu(torch.add(next(norms)(y), y, alpha=2))
        b = next(norms)(y)
        out = out + F.relu(b + b)
        b = next(norms)(y)
        b += b
        out = out + F.relu(b)
        c = x * 1  # without a gradient, which the write would spoil
        d = self.fixed[0](c)
        c.mul_(2.0)  # writes what the norm has read
        out = out + F.relu(d) + c
        norm = next(norms)
        e = norm(y)
        out = out + norm.running_mean[:, None, None]  # reads what the norm has written
        out = out + F.relu(e)
        norm = next(norms)
        f, g = norm(y), norm(y * 2)  # writes the same statistics twice
        out = out + F.relu(f) * F.relu(g)
        h = next(norms)(y)
        v = h.flatten(2)  # a view of what the relu writes into
        out = out + F.relu(h, inplace=True) + v.sum(-1)[:, :, None, None]
        out = out + F.relu(next(norms)(y) + self.w)  # no residual, because it has another shape
        i = next(norms)(y)
        with torch.autocast("cpu", enabled=False):
            out = out + F.relu(i)
        j = next(norms)(y)  # a result
        k = F.relu(next(norms)(y))
        out = out + self.conv(k) + k  # the convolution is not the only reader
        m = self.group(F.relu(next(norms)(y)))  # one op takes no groups and no bias
        n = F.relu(self.bare(y))
        p = x * 1
        q = self.fixed[1](p)
        p.view(-1)[:8].zero_()  # writes through a view
        r = next(norms)(y)
        out = out + F.relu(q) + n + r
        s = y * 1
        t = s.flatten(2)  # a view of what the sum writes into
        s += next(norms)(y)
        out = out + F.relu(s) + t.sum(-1)[:, :, None, None]
        out = out + F.relu(next(norms)(y) + next(norms)(y * 2))  # the sum belongs to one of them
        return out, j, F.relu(j), m
