#!/usr/bin/env python3
"""Writes golden_lora/: a small model with adapters, as PEFT saves them, and what it computes.

    make_lora_golden.py        (needs PyTorch, safetensors and PEFT; made with 2.15.0 and PEFT 0.21.2 on the CPU)

model.safetensors has the model's own weights in f32, and these numbers: "x", and "y", the result of the model with its
adapters in f64. adapter_model.safetensors and adapter_config.json are PEFT's. One of the layers, "fc", has another rank.
"""
import json
import pathlib

import safetensors.torch
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

FOLDER = pathlib.Path(__file__).parent / "golden_lora"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(7, 4, padding_idx=0)
        self.conv = nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=1)
        self.fc = nn.Linear(4, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        words = self.emb(torch.tensor([0, 3, 6])).sum(0)
        return self.head(torch.relu(self.fc(self.conv(x).mean((2, 3)) + words)))


def main():
    torch.manual_seed(5)
    net = Net()
    base = {name: t.clone() for name, t in net.state_dict().items()}
    x = torch.randn(3, 2, 7, 6)
    config = LoraConfig(r=3, lora_alpha=5, use_rslora=True, target_modules=["emb", "conv", "fc"], modules_to_save=["head"],
                        rank_pattern={"fc": 2}, lora_dropout=0.25)
    model = get_peft_model(net, config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.requires_grad:
                p.copy_(torch.randn_like(p) / 2)
    model.save_pretrained(FOLDER)
    (FOLDER / "README.md").unlink()
    path = FOLDER / "adapter_config.json"
    settings = json.loads(path.read_text())
    settings["target_modules"].sort()  # a set
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    y = model.double().eval()(x.double())
    safetensors.torch.save_file(base | {"x": x, "y": y.detach()}, FOLDER / "model.safetensors")


if __name__ == "__main__":
    main()
