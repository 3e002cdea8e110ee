"""Weights that every machine draws alike, for a program here and for PyTorch: Python's random.Random is the same everywhere."""
import array
import json
import pathlib
import random


def values(name, shape):
    """The values of the weight `name`, row by row: around 1 for scales and variances of norms, else uniform within 1 / sqrt(fan-in)."""
    draw = random.Random(name)
    count = 1
    for size in shape:
        count *= size
    fan_in = count // shape[0] if len(shape) > 1 else 100
    centre = 1 if len(shape) == 1 and name.endswith(("weight", "running_var")) else 0
    return [centre + draw.uniform(-1, 1) / fan_in**0.5 for _ in range(count)]


def save(path, shapes):
    """Writes the values of {name: shape} as f32, and counts of batches for batch norms, as safetensors
    (huggingface.co/docs/safetensors)."""
    header, data = {}, b""

    def add(name, dtype, shape, of_name):
        nonlocal data
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(of_name)]}
        data += of_name

    for name, shape in shapes.items():
        add(name, "F32", shape, array.array("f", values(name, shape)).tobytes())
        if name.endswith("running_var"):
            add(name.replace("running_var", "num_batches_tracked"), "I64", [], bytes(8))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)
