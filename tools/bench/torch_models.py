"""The models that the comparisons with PyTorch use, by lathe's names: torchvision's, and the CIFAR ResNets of nn/resnet.h,
parameter for parameter and in the same order. PyTorch is a test tool here; lathe does not need it."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """relu(bn2(conv2(relu(bn1(conv1 x)))) + shortcut). `projection`: a 1x1 convolution where the shape changes (ResNet-18);
    else option A of He et al. 2016: every other pixel, new channels zero (ResNet-20)."""

    def __init__(self, before, width, stride, projection):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.grow = width - before
        self.downsample = None
        if projection and self.grow:
            self.downsample = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            x = self.downsample(x)
        elif self.grow:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.grow // 2, self.grow - self.grow // 2))
        return F.relu(y + x)


class ResNet(nn.Module):
    def __init__(self, widths, blocks, projection, classes=10, channels=3, stem="cifar"):
        super().__init__()
        kernel, stride, pad = (7, 2, 3) if stem == "imagenet" else (3, 1, 1)
        self.conv1 = nn.Conv2d(channels, widths[0], kernel, stride, pad, bias=False)
        self.pools = stem == "imagenet"
        self.bn1 = nn.BatchNorm2d(widths[0])
        before = widths[0]
        self.stages = len(widths)
        for stage, width in enumerate(widths):
            layers = []
            for i in range(blocks):
                layers.append(Block(before, width, 2 if stage > 0 and i == 0 else 1, projection))
                before = width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(before, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.pools:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def resnet18(**options):
    """With stem="imagenet" torchvision's; otherwise the CIFAR form: 3x3 stem, no max-pool."""
    return ResNet((64, 128, 256, 512), 2, True, **options)


def resnet20(**options):
    return ResNet((16, 32, 64), 3, False, **options)


class Shortcut(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return self.body(x) + x


def cifarnet(classes=10, widths=(64, 256, 256), residual=False):
    """nn/cifarnet.h: Jordan 2024 (arXiv:2404.00498)."""
    def norm(channels):
        layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
        layer.weight.requires_grad_(False)
        return layer

    def conv(before, width):
        return nn.Conv2d(before, width, 3, 1, 1, bias=False)

    layers, before = [nn.Conv2d(3, 24, 2), nn.GELU()], 24
    layers[0].weight.requires_grad_(False)
    for width in widths:
        rest = [conv(width, width), norm(width)]
        if residual:
            rest = [Shortcut(*rest, nn.GELU(), conv(width, width), norm(width))]
        layers += [conv(before, width), nn.MaxPool2d(2), norm(width), nn.GELU(), *rest, nn.GELU()]
        before = width
    return nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), nn.Linear(before, classes, bias=False))


# Blocks in each of the three stages of nn/resnet.h's CIFAR family.
CIFAR = {"resnet8": 1, "resnet20": 3, "resnet32": 5, "resnet44": 7, "resnet56": 9}


def make(name, image_size=32, classes=10):
    """Any model of nn/models.h; resnet18 has the stem for CIFAR up to 64 x 64, as `lathe bench step` has it."""
    if name in CIFAR:
        return ResNet((16, 32, 64), CIFAR[name], False, classes=classes)
    if name == "cifarnet":
        return cifarnet(classes)
    if name == "cifarnet_wide":
        return cifarnet(classes, (128, 384, 512), True)
    if name == "resnet18" and image_size <= 64:
        return resnet18(classes=classes)
    from torchvision import models
    if name == "vit_s_16":  # torchvision has its class, but not its sizes (arXiv:2012.12877)
        return models.vision_transformer.VisionTransformer(image_size=image_size, patch_size=16, num_layers=12, num_heads=6,
                                                           hidden_dim=384, mlp_dim=1536, num_classes=classes)
    size = {"image_size": image_size} if name.startswith("vit") else {}
    return getattr(models, name)(num_classes=classes, **size)
