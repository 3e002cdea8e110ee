"""Weights that every machine draws alike, for a program here and for PyTorch: Python's random.Random is the same everywhere."""
import array
import json
import pathlib
import random


def values(name, shape):
    """The values of the weight `name`, row by row: around 1 for the scale of a norm, else uniform within 1 / sqrt(fan-in)."""
    draw = random.Random(name)
    count = 1
    for size in shape:
        count *= size
    fan_in = count // shape[0] if len(shape) > 1 else 100
    centre = 1 if len(shape) == 1 and name.endswith("weight") else 0
    return [centre + draw.uniform(-1, 1) / fan_in**0.5 for _ in range(count)]


def save(path, shapes):
    """Writes the values of {name: shape} as f32, as safetensors (huggingface.co/docs/safetensors)."""
    header, data = {}, b""
    for name, shape in shapes.items():
        of_name = array.array("f", values(name, shape)).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(of_name)]}
        data += of_name
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)
