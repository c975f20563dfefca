"""Checkpoints on disk: a `safetensors` file of FP16 tensors beside Hugging Face's `config.json`.

Tensors are numpy float16 arrays here and nothing is computed with them; `opt.py` turns them into what it needs.
"""

import json
import pathlib
import struct

import numpy as np


def write_safetensors(path, tensors, metadata):
    """Writes FP16 tensors in the order of their names: an 8-byte header length, the JSON header, the data."""
    header, position = {"__metadata__": metadata}, 0
    for name in sorted(tensors):
        size = 2 * tensors[name].size
        header[name] = {
            "dtype": "F16",
            "shape": list(tensors[name].shape),
            "data_offsets": [position, position + size],
        }
        position += size
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8, as the format asks
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].astype("<f2").tobytes())


def read_safetensors(path):
    """(tensors, metadata) of an FP16 safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data, 0)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F16":
            raise ValueError(f"{path}: tensor {name} is {entry['dtype']}, expected F16")
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[8 + length + begin : 8 + length + end], "<f2")
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


def load(directory):
    """(config, tensors) of a checkpoint directory."""
    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    tensors, _ = read_safetensors(directory / "model.safetensors")
    return config, tensors
