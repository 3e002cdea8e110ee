#!/usr/bin/env python3
"""Writes golden_losses.json: the losses of the first ten steps of example programs, as PyTorch computes them.

    make_golden_losses.py        (needs PyTorch and NumPy; made with 2.15.0 on the CPU)

Each program of PyTorch below does the steps of the example of its name, on its data, from the weights of example_weights.py.
It is written from PyTorch's own parts. Its first weights are f32 numbers; all else is in f64.
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


def philox(key, counter):
    """The four words of Philox4x32-10 (Salmon et al. 2011)."""
    c, k = [counter, 0, 0, 0], [key, 0]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xffffffff, (p >> 32) ^ c[3] ^ k[1], p & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


class Uniform:
    """What rand() and randn() of the CPU draw after manual_seed(key)."""

    def __init__(self, key):
        self.key, self.counter = key, 0

    def __call__(self, count):
        words = [word for i in range(count // 4) for word in philox(self.key, self.counter + i)]
        self.counter += count // 4
        return torch.tensor([(word >> 8) / 2**24 for word in words])

    def normal(self, *shape):
        bits = self(torch.Size(shape).numel()).reshape(-1, 2)
        radius, turn = (-2 * (1 - bits[:, 0]).log()).sqrt(), 2 * torch.pi * bits[:, 1]
        return torch.stack([radius * turn.cos(), radius * turn.sin()], 1).reshape(shape)  # Box and Muller 1958


def begin(model):
    """Gives the model its first weights.   → their shapes by name"""
    state = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    shapes = {name: list(value.shape) for name, value in state.items()}
    for name, value in state.items():
        value.copy_(torch.tensor(example_weights.values(name, shapes[name]), dtype=torch.float32).reshape(value.shape))
    return shapes


def trained(model, optimizer, loss_of_step, clip=None, schedule=None):
    """Ten steps from the first weights.   → the weights' shapes by name, and the losses"""
    shapes, losses = begin(model), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of_step()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if schedule:
            schedule.step()
        losses.append(loss.item())
    return shapes, losses


def encoded(text):
    characters = sorted(set(text))
    return torch.tensor([characters.index(c) for c in text]), len(characters)


# --- mingpt --------------------------------------------------------------------------------------------------------------------


def sums(words, count, digits):
    text, below = "", 10**digits
    while count:
        a, b = words() % below, words() % below
        if (a * 1000 + b) * 2654435761 % 2**32 % 1000 >= 100:
            text += f"{a:0{digits}}+{b:0{digits}}={a + b:0{digits + 1}};"
            count -= 1
    return text


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.attention = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width)})
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.attention["qkv"](self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        h = x + self.attention["out"](y)
        return h + self.down(F.gelu(self.up(self.norm2(h))))


class GPT(nn.Module):
    def __init__(self, characters, context, width=64):
        super().__init__()
        self.characters, self.places = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks, self.norm = nn.ModuleList([Block(width, 4), Block(width, 4)]), nn.LayerNorm(width)

    def forward(self, text):
        h = self.characters(text) + self.places.weight[:text.shape[1]]
        for block in self.blocks:
            h = block(h)
        return F.linear(self.norm(h), self.characters.weight)


def mingpt():
    (text, characters), context, batch = encoded(sums(Words(), 20000, 2)), 40, 32
    model, counter = GPT(characters, context), 0
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=20, pct_start=0.1, cycle_momentum=False)

    def loss():
        nonlocal counter
        words = [word for i in range(batch // 4) for word in philox(2, counter + i)]
        counter += batch // 4
        window = torch.stack([text[at:at + context + 1] for at in (word % (len(text) - context) for word in words)])
        return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
    return trained(model, optimizer, loss, clip=1, schedule=schedule)


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
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)

    def loss():
        starts = [words() % (len(text) - context) for _ in range(8)]
        window = torch.stack([text[at:at + context + 1] for at in starts])
        return F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
    return trained(model, optimizer, loss, clip=1)


# --- char_lstm -----------------------------------------------------------------------------------------------------------------


class CharLSTM(nn.Module):
    def __init__(self, kinds, width):
        super().__init__()
        self.characters, self.lstm = nn.Embedding(kinds, width), nn.LSTM(width, width, num_layers=2)
        self.head = nn.Linear(width, kinds)


def char_lstm():
    lines = ["one man went to mow, ", "went to mow a meadow, ", "two men and their dog ", "went to mow a meadow; "]
    text, kinds = encoded("".join(lines[i % 4] for i in range(400)))
    length, columns = 32, 8
    rows = len(text) // columns
    text = text[:rows * columns].reshape(columns, rows).T
    model, state, at = CharLSTM(kinds, 64), None, -length

    def loss():
        nonlocal state, at
        at += length
        y, state = model.lstm(model.characters(text[at:at + length]), state)
        state = tuple(part.detach() for part in state)
        return F.cross_entropy(model.head(y).flatten(0, 1), text[at + 1:at + length + 1].flatten())
    return trained(model, torch.optim.Adam(model.parameters(), lr=5e-3), loss, clip=1)


# --- vae -----------------------------------------------------------------------------------------------------------------------


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.mean, self.log_variance = nn.Linear(256, 256), nn.Linear(256, 8), nn.Linear(256, 8)
        self.decode, self.image = nn.Linear(8, 256), nn.Linear(256, 256)

    def forward(self, x, noise):
        """→ minus the evidence lower bound per image, in nats"""
        hidden = self.encode(x).relu()
        code = torch.distributions.Normal(self.mean(hidden), (self.log_variance(hidden) / 2).exp())
        scores = self.image(self.decode(code.mean + code.stddev * noise).relu())
        cost = torch.distributions.kl_divergence(code, torch.distributions.Normal(0.0, 1.0)).sum()
        return (F.binary_cross_entropy_with_logits(scores, x, reduction="sum") + cost) / len(x)


def filled(words, count=128, size=16):
    images = torch.zeros(count, size, size)
    for image in images:
        width, height = 4 + words() % 7, 4 + words() % 7
        left, top = words() % (size - width + 1), words() % (size - height + 1)
        image[top:top + height, left:left + width] = 1
    return images.flatten(1)


def vae():
    model, words, uniform = VAE(), Words(), Uniform(2)
    return trained(model, torch.optim.Adam(model.parameters(), lr=2e-3), lambda: model(filled(words), uniform.normal(128, 8)))


# --- normalising_flow ----------------------------------------------------------------------------------------------------------


class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(1, 64), nn.Linear(64, 64), nn.Linear(64, 2)

    def forward(self, fixed, other):
        """→ the other coordinate, moved and stretched, and the logarithm of the stretch"""
        stretch, shift = self.last(self.second(self.first(fixed).relu()).relu()).chunk(2, 1)
        stretch = 2 * stretch.tanh()
        return other * stretch.exp() + shift, stretch


def moons(uniform, count=256):
    """Two half circles."""
    angle, side = torch.pi * uniform(count), (uniform(count) < 0.5) * 2.0 - 1
    normal = uniform.normal(count, 2)
    return torch.stack([angle.cos() * side + 0.5 * side, angle.sin() * side - 0.25 * side], 1) + 0.08 * normal


def normalising_flow():
    model, uniform = nn.ModuleDict({"couplings": nn.ModuleList([Coupling() for _ in range(8)])}), Uniform(2)

    def loss():
        x = list(moons(uniform).split(1, 1))
        stretches = 0
        for i, coupling in enumerate(model["couplings"]):
            fixed = i % 2
            x[1 - fixed], stretch = coupling(x[fixed], x[1 - fixed])
            stretches = stretches + stretch
        normal = torch.distributions.Normal(0.0, 1.0)
        return -(normal.log_prob(x[0]) + normal.log_prob(x[1]) + stretches).mean()
    return trained(model, torch.optim.Adam(model.parameters(), lr=2e-3), loss)


# --- detector ------------------------------------------------------------------------------------------------------------------


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        for i, (inputs, outputs, stride) in enumerate([(1, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1)], 1):
            conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            setattr(self, f"stage{i}", nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU()))
        self.scores, self.distances = nn.Conv2d(64, 3, 1), nn.Conv2d(64, 4, 1)

    def forward(self, x):
        h = self.stage4(self.stage3(self.stage2(self.stage1(x))))
        return self.scores(h), F.softplus(self.distances(h))


def rectangles(words, count, size=64):
    """Images [N,1,64,64], and the rectangles of each: (label, x1, y1, x2, y2)."""
    images, boxes = numpy.zeros((count, 1, size, size)), []
    for image in images[:, 0]:
        boxes.append([])
        for _ in range(4):
            label, w, h = 1 + words() % 2, 12 + words() % 17, 12 + words() % 17
            x, y = words() % (size - 28), words() % (size - 28)
            light = 0.5 + words() % 256 / 256
            if all(x > x2 or x1 > x + w or y > y2 or y1 > y + h for _, x1, y1, x2, y2 in boxes[-1]):
                boxes[-1].append((label, x, y, x + w, y + h))
                inner = image[y + 3:y + h - 3, x + 3:x + w - 3].copy()
                image[y:y + h, x:x + w] = light
                if label == 2:
                    image[y + 3:y + h - 3, x + 3:x + w - 3] = inner
        image += numpy.array([words() % 256 / 256 - 0.5 for _ in range(size * size)]).reshape(size, size)
    return torch.tensor(images), boxes


def detector():
    model, words = Detector(), Words()
    middle = torch.arange(8) * 8.0 + 4

    def loss():
        images, boxes = rectangles(words, 16)
        scores, distances = model(images)
        labels, found, wanted = torch.zeros(16, 8, 8, dtype=torch.int64), [], []
        for n, of_image in enumerate(boxes):
            for label, *box in of_image:
                x1, y1, x2, y2 = torch.tensor(box).double()
                for row in ((middle - (y1 + y2) / 2).abs() < 8).nonzero().flatten():
                    for column in ((middle - (x1 + x2) / 2).abs() < 8).nonzero().flatten():
                        x, y = middle[column], middle[row]
                        labels[n, row, column] = label
                        found.append(distances[n, :, row, column])
                        wanted.append(torch.stack([x - x1, y - y1, x2 - x, y2 - y]) / 8)
        return F.cross_entropy(scores, labels) + F.smooth_l1_loss(torch.stack(found), torch.stack(wanted))
    return trained(model, torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-4), loss)


PROGRAMS = [mingpt, llama, char_lstm, vae, normalising_flow, detector]

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    golden = {}
    for program in PROGRAMS:
        shapes, losses = program()
        golden[program.__name__] = {"losses": losses, "weights": shapes}
    records = ",\n".join(f'"{name}": {json.dumps(record)}' for name, record in golden.items())
    pathlib.Path(__file__).with_name("golden_losses.json").write_text("{" + records + "}\n")
