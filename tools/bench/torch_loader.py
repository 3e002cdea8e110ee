#!/usr/bin/env python3
"""Images per second of torch.utils.data.DataLoader with torchvision-style transforms, for compare_loader.py, which runs it.

    torch_loader.py DATA_ROOT PIPELINE WORKERS SECONDS

The transforms are torchvision's for PIL images, call for call: PIL crops, flips and resizes, tensors are made and normalised. DATA_ROOT
holds cifar-10-batches-bin. Prints one number. Everything that steady training does not pay is left out: the start of the workers
and the first batches.
"""
import math
import pathlib
import sys
import time
import warnings

import numpy
import torch
from PIL import Image, ImageOps

MEAN, STD, BATCH = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), 128


def random_crop(image):
    image = ImageOps.expand(image, border=4, fill=0)
    width, height = image.size
    top = torch.randint(0, height - 32 + 1, size=(1,)).item()
    left = torch.randint(0, width - 32 + 1, size=(1,)).item()
    return image.crop((left, top, left + 32, top + 32))


def random_resized_crop(image, side=224, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    width, height = image.size
    log_ratio = torch.log(torch.tensor(ratio))
    for _ in range(10):
        area = height * width * torch.empty(1).uniform_(scale[0], scale[1]).item()
        aspect = torch.exp(torch.empty(1).uniform_(log_ratio[0], log_ratio[1])).item()
        w, h = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            top, left = torch.randint(0, height - h + 1, size=(1,)).item(), torch.randint(0, width - w + 1, size=(1,)).item()
            break
    else:  # 32 x 32 has a ratio that is allowed
        top, left, h, w = 0, 0, height, width
    return image.crop((left, top, left + w, top + h)).resize((side, side), Image.BILINEAR)


def random_flip(image):
    return image.transpose(Image.FLIP_LEFT_RIGHT) if torch.rand(1) < 0.5 else image


def to_tensor(image):
    x = torch.from_numpy(numpy.array(image, numpy.uint8, copy=True)).view(image.size[1], image.size[0], 3)
    return x.permute((2, 0, 1)).contiguous().to(dtype=torch.get_default_dtype()).div(255)


def normalize(x):
    x = x.clone()
    mean, std = torch.as_tensor(MEAN, dtype=x.dtype).view(-1, 1, 1), torch.as_tensor(STD, dtype=x.dtype).view(-1, 1, 1)
    return x.sub_(mean).div_(std)


PIPELINES = {"pad-crop": [random_crop, random_flip, to_tensor, normalize],
             "resized-crop": [random_resized_crop, random_flip, to_tensor, normalize]}


class Images(torch.utils.data.Dataset):
    def __init__(self, root, transforms):
        records = numpy.concatenate([numpy.fromfile(path, numpy.uint8).reshape(-1, 3073)
                                     for path in sorted((root / "cifar-10-batches-bin").glob("data_batch_*.bin"))])
        self.targets = records[:, 0].tolist()
        self.data = numpy.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        self.transforms = transforms

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image = Image.fromarray(self.data[index])
        for transform in self.transforms:
            image = transform(image)
        return image, self.targets[index]


def main():
    root, pipeline, workers, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # more workers than processors: to be tried, too
    images = Images(root, PIPELINES[pipeline])
    sampler = torch.utils.data.RandomSampler(images, num_samples=10**6)  # epoch after epoch without a pause
    batches = iter(torch.utils.data.DataLoader(images, batch_size=BATCH, sampler=sampler, num_workers=workers))
    for _ in range(4 + 2 * workers):
        next(batches)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        count += len(next(batches)[0])
    print(count / (time.perf_counter() - start))


if __name__ == "__main__":
    main()
