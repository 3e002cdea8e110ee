#!/usr/bin/env python3
"""Writes golden_recurrent.safetensors: what torch.nn's recurrent layers compute, with their gradients, in f64.

    make_recurrent_golden.py        (needs PyTorch and safetensors; made with 2.15.0 on the CPU)

Each case has its state dict under "CASE.model.", what it takes as "CASE.x", "CASE.h", "CASE.c" and "CASE.lengths", what it gives as
"CASE.y", "CASE.hn", "CASE.cn", and gradients under "CASE.grad.": those of sum(y sin(i)) + sum(hn cos(i)) + sum(cn), where i counts
elements. The table in recurrent_test.cpp has the same cases. "steps" is a training: see character_steps().
"""
import pathlib

import safetensors.torch
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# name, layer, whether states are given, lengths of packed sequences, shape of x
CASES = [
    ("lstm", nn.LSTM(2, 3, num_layers=2), True, None, (4, 2, 2)),
    ("lstm_both_ways", nn.LSTM(2, 3, num_layers=2, bias=False, batch_first=True, bidirectional=True), False, None, (2, 4, 2)),
    ("lstm_projected", nn.LSTM(2, 3, num_layers=2, bidirectional=True, proj_size=2), True, None, (3, 2, 2)),
    ("lstm_single", nn.LSTM(2, 3, batch_first=True), True, None, (4, 2)),
    ("lstm_packed", nn.LSTM(2, 3, num_layers=2, batch_first=True, bidirectional=True, proj_size=2), True, [2, 5, 1, 2], (4, 5, 2)),
    ("gru", nn.GRU(2, 3, num_layers=2, bidirectional=True), True, None, (4, 2, 2)),
    ("gru_single", nn.GRU(2, 3, bias=False), False, None, (4, 2)),
    ("gru_packed", nn.GRU(2, 3, bidirectional=True), False, [4, 4, 3, 1], (5, 4, 2)),
    ("rnn", nn.RNN(2, 3, num_layers=2, dropout=0.5), True, None, (4, 2, 2)),
    ("rnn_relu", nn.RNN(2, 3, nonlinearity="relu", bidirectional=True), True, None, (4, 2, 2)),
    ("rnn_packed", nn.RNN(2, 3, batch_first=True), True, [1, 3, 2], (3, 3, 2)),
    ("lstm_cell", nn.LSTMCell(2, 3), True, None, (2, 2)),
    ("lstm_cell_single", nn.LSTMCell(2, 3, bias=False), False, None, (2,)),
    ("gru_cell", nn.GRUCell(2, 3), True, None, (2, 2)),
    ("rnn_cell", nn.RNNCell(2, 3, nonlinearity="relu"), True, None, (2, 2)),
]


def states_of(model, shape, lengths):
    """h and, of LSTM, c before the first step."""
    cell = isinstance(model, nn.RNNCellBase)
    if cell:
        leading, projection = shape[:-1], 0
    else:
        count = model.num_layers * (2 if model.bidirectional else 1)
        leading, projection = (count,), model.proj_size
        if len(shape) == 3:
            leading += (shape[0 if model.batch_first else 1],)
    h = torch.randn(*leading, projection or model.hidden_size).double().requires_grad_()
    c = torch.randn(*leading, model.hidden_size).double().requires_grad_()
    return (h, c) if isinstance(model, (nn.LSTM, nn.LSTMCell)) else (h,)


def run(model, x, states, lengths):
    hx = (states if len(states) == 2 else states[0]) if states else None
    if isinstance(model, nn.RNNCellBase):
        out = model(x, hx)
        return (out[0], *out) if isinstance(out, tuple) else (out, out)
    if lengths:
        packed = pack_padded_sequence(x, lengths, batch_first=model.batch_first, enforce_sorted=False)
        y, end = model(packed, hx)
        y, back = pad_packed_sequence(y, batch_first=model.batch_first, padding_value=0.5)
        assert back.tolist() == lengths
    else:
        y, end = model(x, hx)
    return (y, *end) if isinstance(end, tuple) else (y, end)


def character_steps():
    """Ten steps of a character LSTM in f32: "steps.model.", "steps.text" [T,N], and the losses."""
    net = nn.ModuleDict({"characters": nn.Embedding(9, 6), "lstm": nn.LSTM(6, 8, num_layers=2), "head": nn.Linear(8, 9)})
    out = {f"steps.model.{name}": p.detach().clone() for name, p in net.state_dict().items()}
    text = torch.randint(9, (13, 4))
    opt, losses = torch.optim.Adam(net.parameters(), lr=0.05), []
    for _ in range(10):
        y, _ = net["lstm"](net["characters"](text[:-1]))
        loss = nn.functional.cross_entropy(net["head"](y).flatten(0, 1), text[1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return out | {"steps.text": text, "steps.losses": torch.stack(losses)}


def main():
    torch.manual_seed(1)
    out = {}
    for name, model, with_states, lengths, shape in CASES:
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p))
        model.double().eval()
        x = torch.randn(shape).double().requires_grad_()
        states = states_of(model, shape, lengths) if with_states else ()
        results = run(model, x, states, lengths)
        count = [torch.arange(r.numel()).double().view(r.shape) for r in results]
        loss = (results[0] * count[0].sin()).sum() + (results[1] * count[1].cos()).sum()
        if len(results) == 3:
            loss = loss + results[2].sum()
        loss.backward()
        values = {f"model.{n}": p for n, p in model.state_dict().items()} | {"x": x} | dict(zip("hc", states))
        values |= dict(zip(("y", "hn", "cn"), results))
        values |= {f"grad.{n}": p.grad for n, p in model.named_parameters()} | {"grad.x": x.grad}
        values |= {f"grad.{n}": s.grad for n, s in zip("hc", states)}
        if lengths:
            values["lengths"] = torch.tensor(lengths)
        out |= {f"{name}.{key}": value.detach().contiguous().clone() for key, value in values.items()}
    out |= character_steps()
    safetensors.torch.save_file(out, pathlib.Path(__file__).parent / "golden_recurrent.safetensors")


if __name__ == "__main__":
    main()
