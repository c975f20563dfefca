"""Checkpoints on disk: `safetensors` in one file or in shards beside Hugging Face's `config.json`.

Tensors are numpy float16 arrays here and nothing is computed with them; `decoder.py` turns them into what it needs. What is
stored as BF16 or FP32 is rounded to FP16 once, nearest even.
"""

import json
import pathlib
import struct

import numpy as np

DTYPES = {"F16": "<f2", "BF16": "<u2", "F32": "<f4"}


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
    """(tensors, metadata) of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data, 0)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        dtype = entry["dtype"]
        if dtype not in DTYPES:
            raise ValueError(f"{path}: tensor {name} is {dtype}, expected one of {', '.join(DTYPES)}")
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[8 + length + begin : 8 + length + end], DTYPES[dtype])
        if dtype == "BF16":  # the upper half of an FP32 number
            flat = (flat.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = to_fp16(f"{path}: tensor {name}", flat.reshape(entry["shape"]))
    return tensors, metadata


def to_fp16(name, values):
    """Values rounded to FP16 (nearest even, as numpy's conversion does); the first without a finite result is an error."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float16)
    bad = np.argwhere(~np.isfinite(rounded))
    if len(bad):
        place = tuple(bad[0].tolist())
        what = "overflows FP16" if np.isfinite(values[place]) else "is not finite"
        raise ValueError(f"{name}: {values[place]} at {list(place)} {what}")
    return rounded


def load(directory):
    """(config, tensors) of a checkpoint directory."""
    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.exists() or not index.exists():
        return config, read_safetensors(single)[0]
    return config, read_shards(directory, json.loads(index.read_text(encoding="utf-8"))["weight_map"])


def read_shards(directory, files):
    """The tensors of several safetensors files; `files` maps a tensor's name to its file."""
    shards = {file: read_safetensors(directory / file)[0] for file in sorted(set(files.values()))}
    for name, file in files.items():
        if name not in shards[file]:
            raise ValueError(f"{directory / file}: tensor {name} is missing, which the index places there")
    return {name: shards[file][name] for name, file in files.items()}
