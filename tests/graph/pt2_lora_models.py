#!/usr/bin/env python3
"""Trains adapters of LoRA on exported models here, and asks PEFT for its results with them.

    pt2_lora_models.py PT2_LORA        (needs PyTorch, timm, transformers, safetensors and PEFT)

Each model is exported without pretrained weights; PT2_LORA (pt2_lora.cpp) trains adapters and saves them. PEFT reads them into the
PyTorch model. Printed are the layers, how far training moved the first result, and the largest differences from PEFT's result, with
adapters and merged. This is no test of CI.
"""
import copy
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from peft import PeftModel

import safetensors.torch
import timm
import transformers

warnings.filterwarnings("ignore")
LIMIT = 1e-5


class First(torch.nn.Module):
    """The logits alone, of a model whose modules keep their names."""

    def __init__(self, model):
        super().__init__()
        self.__dict__["model"] = model
        for name, child in model.named_children():
            self.add_module(name, child)

    def forward(self, x):
        return self.model(x).logits


def gpt2():
    t = transformers
    return First(t.GPT2LMHeadModel(t.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=32, use_cache=False)))


def resnet():
    return timm.create_model("resnet18", num_classes=10, zero_init_last=False)


def vit():
    return timm.create_model("vit_tiny_patch16_224", num_classes=10)


MODELS = {
    "hf.gpt2, Conv1D": (gpt2, lambda: torch.randint(1, 100, (2, 12)), ["*.c_*"]),
    "hf.gpt2, wpe": (gpt2, lambda: torch.randint(1, 100, (2, 12)), ["*.wpe", "*.c_attn"]),
    "timm.vit_tiny": (vit, lambda: torch.randn(2, 3, 224, 224), ["*.qkv", "*.fc*"]),
    "timm.resnet18": (resnet, lambda: torch.randn(2, 3, 64, 64), ["*conv*", "fc"]),
}


def compare(pt2_lora, name):
    make, given, targets = MODELS[name]
    torch.manual_seed(3)
    model, x = make().eval(), given()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        torch.export.save(torch.export.export(copy.deepcopy(model), (x,)), folder / "model.pt2")
        safetensors.torch.save_file({"in.0": x}, folder / "in")
        layers = subprocess.run([pt2_lora, folder, *targets], check=True, capture_output=True, text=True).stdout.strip()
        ours = safetensors.torch.load_file(folder / "out")
        with torch.no_grad():
            before = model(x)
            peft = PeftModel.from_pretrained(model, folder / "adapter").eval()
            after = peft(x)
            missing = [n for n, p in peft.named_parameters() if "lora_B" in n and not p.any()]
            merged = peft.merge_and_unload()(x)
    assert not missing, missing
    largest = [(a - b).abs().max().item() for a, b in ((ours["before"], before), (ours["after"], after), (ours["merged"], merged))]
    print(f"{name}: {layers} layers, moved by {(after - before).abs().max().item():.3g}; "
          f"before {largest[0]:.1e}, with adapters {largest[1]:.1e}, merged {largest[2]:.1e}", flush=True)
    return max(largest) <= LIMIT * max(1, after.abs().max().item())


def main():
    return 0 if all([compare(sys.argv[1], name) for name in MODELS]) else 1


if __name__ == "__main__":
    sys.exit(main())
