#!/usr/bin/env python3
"""Writes golden_losses.json: the losses of the first ten steps of example programs, as PyTorch computes them.

    make_golden_losses.py        (needs PyTorch and NumPy; made with 2.15.0 on the CPU)

Each program of PyTorch below does the steps of the example of its name, on its data, from the weights of example_weights.py.
It is written from PyTorch's own parts, and computes in f64; data are rounded to f32 as in the example.
"""
import json
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import example_weights

STEPS = 10


class Words:
    """The 32-bit numbers of std::mt19937(1)."""

    def __init__(self):
        self.state = numpy.random.RandomState(1)

    def __call__(self):
        return int(self.state.randint(0, 1 << 32, dtype=numpy.uint32))


def begin(model):
    """Gives the model its first weights.   → their shapes by name"""
    shapes = {name: list(p.shape) for name, p in model.named_parameters()}
    with torch.no_grad():
        for name, p in model.named_parameters():
            drawn = torch.tensor(example_weights.values(name, shapes[name]), dtype=torch.float32)
            p.copy_(drawn.reshape(p.shape))
    return shapes


def encoded(text):
    characters = sorted(set(text))
    return torch.tensor([characters.index(c) for c in text]), len(characters)


# --- llama ---------------------------------------------------------------------------------------------------------------------


def rhyme():
    lines = ["malt that lay in", "rat that ate", "cat that killed", "dog that worried", "cow that tossed", "maiden that milked",
             "man that kissed", "priest that married", "cock that woke"]
    text, end = "", "the house that Jack built.\n"
    for line in lines:
        text += "This is " + end
        end = f"the {line} {end}"
    return text + "This is " + end


def turned(x, base=10000):
    """Rotary positions as a product of complex numbers."""
    count, half = x.shape[-2], x.shape[-1] // 2
    angles = torch.outer(torch.arange(count).double(), base ** (-torch.arange(half).double() / half))
    y = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([y.real, y.imag], -1)


class Attention(nn.Module):
    def __init__(self, width, heads, key_heads):
        super().__init__()
        self.heads, self.key_heads = heads, key_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width // heads * key_heads, bias=False)
        self.v_proj = nn.Linear(width, width // heads * key_heads, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        def split(y, n):
            return y.unflatten(-1, (n, -1)).transpose(1, 2)
        q, k = turned(split(self.q_proj(x), self.heads)), turned(split(self.k_proj(x), self.key_heads))
        v = split(self.v_proj(x), self.key_heads)
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.self_attn, self.mlp = Attention(width, heads=4, key_heads=2), Mlp(width, 176)

    def forward(self, x):
        h = x + self.self_attn(self.input_layernorm(x))
        return h + self.mlp(self.post_attention_layernorm(h))


class Llama(nn.Module):
    def __init__(self, characters, width=64):
        super().__init__()
        self.embed_tokens = nn.Embedding(characters, width)
        self.layers = nn.ModuleList([Layer(width), Layer(width)])
        self.norm, self.lm_head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, characters, bias=False)

    def forward(self, text):
        h = self.embed_tokens(text)
        for layer in self.layers:
            h = layer(h)
        return self.lm_head(self.norm(h))


def llama():
    text, characters = encoded(rhyme())
    model, words, context = Llama(characters), Words(), 128
    shapes, losses = begin(model), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    for _ in range(STEPS):
        starts = [words() % (len(text) - context) for _ in range(8)]
        window = torch.stack([text[at:at + context + 1] for at in starts])
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        losses.append(loss.item())
    return shapes, losses


PROGRAMS = [llama]

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    golden = {}
    for program in PROGRAMS:
        shapes, losses = program()
        golden[program.__name__] = {"losses": losses, "weights": shapes}
    records = ",\n".join(f'"{name}": {json.dumps(record)}' for name, record in golden.items())
    pathlib.Path(__file__).with_name("golden_losses.json").write_text("{" + records + "}\n")
