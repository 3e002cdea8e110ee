#!/usr/bin/env python3
"""Makes golden_onnx/: a small network as torch.onnx.export writes it, and what ten steps of SGD make of it in PyTorch.

    make_onnx_golden.py [FOLDER]     # PyTorch 2.15 with onnx and onnxscript; default: golden_onnx beside this script

- traced.onnx, by the TorchScript export, and exported.onnx, by torch.export. folded.onnx, by torch.export with its default optimize=True,
  has its batch norms in its convolutions.
- golden.safetensors: `x`, `labels`, `losses` of ten steps, the state after them under its names, `scores` in evaluation then.
"""
import pathlib
import sys

import onnx
import torch
from safetensors.torch import save_file
from torch import nn
from torch.onnx import TrainingMode


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8, momentum=0.2)
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8), nn.ReLU())
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 8).view(8, 1, 1))
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(8), nn.Linear(8, 16, bias=False), nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = x + self.block(x) * self.scale
        x = nn.functional.max_pool2d(x, 2).mean((2, 3))
        return self.fc2(nn.functional.gelu(self.fc1(self.norm(x)))) / 2.5


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden_onnx")
    folder.mkdir(exist_ok=True)
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = Net().train()
    x, labels = torch.randn(16, 3, 8, 8), torch.randint(0, 4, (16,))
    names = {"input_names": ["x"], "output_names": ["scores"]}
    state = {name: value.clone() for name, value in model.state_dict().items()}
    torch.onnx.export(model, (x,), folder / "traced.onnx", dynamo=False, training=TrainingMode.TRAINING, do_constant_folding=False,
                      dynamic_axes={"x": {0: "batch"}}, **names)
    torch.onnx.export(model, (x,), folder / "exported.onnx", dynamo=True, external_data=False, optimize=False,
                      dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), **names)
    torch.onnx.export(model, (x,), folder / "folded.onnx", dynamo=True, external_data=False, **names)
    model.load_state_dict(state)
    for path in (folder / "traced.onnx", folder / "exported.onnx"):  # an export runs the model, which moves its statistics
        file = onnx.load(path)
        for tensor in file.graph.initializer:
            tensor.CopyFrom(onnx.numpy_helper.from_array(state[tensor.name].numpy(), tensor.name))
        onnx.save(file, path)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(10):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    with torch.no_grad():
        scores = model.eval()(x)
    tensors = {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    save_file({"x": x, "labels": labels, "losses": torch.tensor(losses, dtype=torch.float64), "scores": scores, **tensors},
              folder / "golden.safetensors")


if __name__ == "__main__":
    main()
