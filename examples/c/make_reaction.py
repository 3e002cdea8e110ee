"""Writes reaction.pt2, the network of reaction.c and reaction.f90.

    python3 make_reaction.py   (with PyTorch 2.8 or later)
"""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
batch = torch.export.Dim.DYNAMIC
program = torch.export.export(model, (torch.zeros(4, 1, dtype=torch.float64),), dynamic_shapes=({0: batch},))
torch.export.save(program, "reaction.pt2")
