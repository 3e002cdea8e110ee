"""Models of make_pt2_golden.py that show one difficulty each: aliases, order in memory, sub-graphs, inputs that are no tensors."""
import torch
from torch import nn
from torch.nn import functional as F

aten = torch.ops.aten


class Shared(nn.Module):
    """Writes in place into values that are read again through another view."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6))
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        out = []
        for write in (lambda t: F.silu(t, True), lambda t: F.hardswish(t, True), lambda t: F.leaky_relu(t, 0.2, True), lambda t: t.clamp_(-0.5, 0.5),
                      lambda t: t.mul_(self.w), lambda t: t.div_(self.w), lambda t: F.hardtanh(t, inplace=True), lambda t: F.elu(t, inplace=True),
                      lambda t: F.mish(t, True), lambda t: F.relu(t, True), lambda t: torch.tanh_(t)):
            y = self.fc(x)
            turned = y.t()
            write(y)
            out.append(turned.sum(1) + y[0])
        return torch.stack(out)


class Flat(nn.Module):
    """Writes through views of a convolution's result, whose order in memory is that of the input."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)

    def forward(self, x):
        y = self.conv(x)
        y.view(y.shape[0], -1)[:, 1:5].mul_(3.0)
        z = self.conv(x) * 1
        z.flatten(2).add_(1.0)
        z.reshape(-1)[:7].zero_()
        return y, z + y


class Under(nn.Module):
    """All layers under autocast: norms, dropout, counters and a symbolic size in sub-graphs."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4, bias=False)  # before a norm its gradient is rounding errors
        self.norm = nn.BatchNorm1d(4)
        self.norm2 = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.0)
        self.act = nn.ReLU(inplace=True)
        self.register_buffer("scale", torch.full((4,), 0.5), persistent=False)

    def forward(self, x):
        n = x.shape[0]
        with torch.autocast("cpu", enabled=False):
            y = self.act(self.norm(self.fc(x)))
            w = self.norm2(self.drop(y)).view(n * 2, 2)
            z = (y.reshape(n * 2, 2) * w).reshape(n, 4) * self.scale
        return z + y, w


class Alias(nn.Module):
    """A buffer that lies in a parameter's storage, and constant inputs."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("start", self.fc.weight.data)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x, flag=False, times=1, none=None, *, word="a"):
        y = self.fc(x) * times if flag else x
        self.count.add_(1.0)
        return (y + self.start.sum(0) + self.count) * (2.0 if word == "b" and none is None else 1.0)


class Bare(nn.Module):
    """Constants, but no parameters, or those of a norm alone."""

    def __init__(self, has_norm):
        super().__init__()
        self.norm = nn.BatchNorm1d(4) if has_norm else nn.Identity()
        self.register_buffer("at", torch.linspace(0, 1, 4), persistent=False)

    def forward(self, x):
        return self.norm(x) * self.at + torch.ones(4) + torch.tensor([0.25, 0.5, 0.75, 2.0])


class Rare(nn.Module):
    """Arguments that no other case has."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(7, 4)

    def forward(self, ids):
        y = self.token(ids)
        return torch.rsub(y, 1.5, alpha=0.3) + torch.roll(y, 3) + aten.rsub.Scalar(y, 2, 2)


class Classifier(nn.Module):
    """Images to scores of ten classes, whose last layer can be replaced: its view names the number of classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(8, 10)
        self.register_buffer("scale", torch.full((1, 8), 2.0), persistent=False)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)), inplace=True)
        x = F.relu(x + self.block(x))
        return self.fc(self.drop(x.mean((2, 3)) * self.scale)).view(x.shape[0], 10)


class ConvHead(nn.Module):
    """A convolution is the last layer, as in SqueezeNet."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Conv2d(4, 6, 1)

    def forward(self, x):
        x = F.relu(self.head(F.relu(self.stem(x))), inplace=True)
        return F.log_softmax(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1), 1)
