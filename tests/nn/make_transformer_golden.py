#!/usr/bin/env python3
"""Writes golden_transformer.safetensors: what torch.nn's attention and Transformer layers compute, with their gradients, in f64.

    make_transformer_golden.py        (needs PyTorch and safetensors; made with 2.15.0 on the CPU)

Each case has its state dict under "CASE.model.", its arguments as "CASE.NAME", its result as "CASE.y", the weights of an attention as
"CASE.weights", and gradients of sum(y sin(i)) under "CASE.grad.", where i counts elements. transformer_test.cpp has the same cases.
Bool masks are stored as they are given, true where nobody looks.
"""
import pathlib

import safetensors.torch
import torch
from torch import nn

PADDING = torch.tensor([[False, False, False, True], [False, False, False, False]])  # [N,S]
LATER = torch.ones(4, 4, dtype=torch.bool).triu(1)
LAYER = {"dim_feedforward": 5, "dropout": 0.1}


def normal(*shape):
    return torch.randn(*shape).double()


def attention_cases():
    """name, module, arguments, keyword arguments"""
    q, k, v = normal(2, 3, 4), normal(2, 4, 4), normal(2, 4, 4)
    some = torch.rand(3, 4) < 0.3
    some[:, 0] = False
    yield "padded", nn.MultiheadAttention(4, 2, batch_first=True), {"query": q, "key": k, "value": v}, {
        "key_padding_mask": PADDING, "attn_mask": some}
    yield "by_heads", nn.MultiheadAttention(4, 2, batch_first=True, bias=False), {"query": q, "key": k, "value": v}, {
        "attn_mask": normal(4, 3, 4), "key_padding_mask": normal(2, 4), "average_attn_weights": False}
    # Of a mask of floats and one of bools PyTorch warns; together they are added.
    yield "mixed", nn.MultiheadAttention(4, 2), {"query": q.transpose(0, 1), "key": k.transpose(0, 1), "value": v.transpose(0, 1)}, {
        "attn_mask": normal(3, 4), "key_padding_mask": PADDING}
    yield "single", nn.MultiheadAttention(4, 2), {"query": q[0], "key": k[0], "value": v[0]}, {"key_padding_mask": PADDING[0]}


def layer_cases():
    x, memory = normal(2, 4, 6), normal(2, 4, 6)
    yield "encoder_layer", nn.TransformerEncoderLayer(6, 2, batch_first=True, **LAYER), {"src": x}, {
        "src_mask": LATER, "src_key_padding_mask": PADDING}
    yield "encoder_layer_norm_first", nn.TransformerEncoderLayer(
        6, 3, norm_first=True, activation="gelu", bias=False, layer_norm_eps=1e-3, **LAYER), {"src": x}, {}
    yield "encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, batch_first=True, **LAYER), 2, norm=nn.LayerNorm(6)), {"src": x}, {
        "mask": LATER}
    yield "decoder_layer", nn.TransformerDecoderLayer(6, 2, batch_first=True, **LAYER), {"tgt": x, "memory": memory}, {
        "tgt_mask": LATER, "memory_key_padding_mask": PADDING}
    yield "decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, norm_first=True, activation="gelu", **LAYER), 2), {
        "tgt": x, "memory": memory}, {}
    yield "rms_norm", nn.RMSNorm(6, eps=0.25), {"x": x}, {}
    yield "rms_norm_default", nn.RMSNorm((4, 6)), {"x": x / 1000}, {}


def main():
    torch.manual_seed(1)
    out = {}
    for name, model, arguments, options in [*attention_cases(), *layer_cases()]:
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p))
        model.double()
        for module in model.modules():  # not eval(), in which PyTorch has other code
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        arguments = {n: a.detach().clone().requires_grad_() for n, a in arguments.items()}
        y = model(*arguments.values(), **options)
        y, weights = y if isinstance(y, tuple) else (y, None)
        (y * torch.arange(y.numel()).double().view(y.shape).sin()).sum().backward()
        values = {f"model.{n}": p for n, p in model.state_dict().items()} | arguments | {"y": y}
        values |= {n: o for n, o in options.items() if isinstance(o, torch.Tensor)}
        values |= {} if weights is None else {"weights": weights}
        values |= {f"grad.{n}": t.grad for n, t in [*model.named_parameters(), *arguments.items()]}
        out |= {f"{name}.{key}": value.detach().contiguous().clone() for key, value in values.items()}
    safetensors.torch.save_file(out, pathlib.Path(__file__).parent / "golden_transformer.safetensors")


if __name__ == "__main__":
    main()
