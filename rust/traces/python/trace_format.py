"""Writes activation traces, byte for byte as the Rust writer does (docs/traces.md). Needs numpy and nothing else."""

import os
import struct
import tempfile
import zlib

import numpy as np

MAGIC = b"NDPTRACE"
VERSION = 1
END = 0xFFFFFFFF
FIRST, GENERATED = 1, 2


def pack(active):
    """Bits of a block, neuron 0 first: bool array [neurons] -> uint8 array."""
    return np.packbits(np.asarray(active, dtype=bool), bitorder="little")


def header_bytes(model, layers, attention, mlp, tokens, prompt_tokens, sequences, seed, source):
    """Magic to checksum."""
    model, source = model.encode(), source.encode()
    if len(model) > 256 or len(source) > 4096:
        raise ValueError(f"model name of {len(model)} bytes (256 at most) or source of {len(source)} (4096)")
    body = struct.pack("<IIIQQQQ", layers, attention, mlp, tokens, prompt_tokens, sequences, seed)
    for text in (model, source):
        body += struct.pack("<H", len(text)) + text
    data = MAGIC + struct.pack("<II", VERSION, len(body)) + body
    return data + struct.pack("<I", zlib.crc32(data))


def varints(values):
    """LEB128 of the values, below 2^21 each, one after the other."""
    values = np.asarray(values, dtype=np.uint32)
    digits = np.stack([values & 0x7F, values >> 7 & 0x7F, values >> 14], axis=-1)
    lengths = 1 + (values >= 1 << 7).astype(int) + (values >= 1 << 14)
    position = np.arange(3)
    digits |= np.where(position < lengths[..., None] - 1, 0x80, 0).astype(np.uint32)
    return digits[position < lengths[..., None]].astype(np.uint8).tobytes()


def block_bytes(bits, before):
    """A block of a record: the changes since the token before as gaps, or all bits, whichever is shorter."""
    raw = 1 + len(bits)
    changed = np.flatnonzero(np.unpackbits(bits ^ before, bitorder="little"))
    if len(changed) < raw:
        gaps = np.diff(changed, prepend=-1) - 1
        listed = varints(np.concatenate(([len(changed) + 1], gaps)))
        if len(listed) <= raw:
            return listed
    return b"\0" + bits.tobytes()


def trace_bytes(model, layers, attention, mlp, tokens, seed=0, source=""):
    """A whole trace, piece by piece.

    tokens: list of (first, generated, blocks); blocks are in the order of computation (attention and MLP of layer 0, of layer 1, ...;
    a kind without neurons has none), each as pack() makes it.
    """
    prompt = sum(not generated for _, generated, _ in tokens)
    sequences = sum(bool(first) for first, _, _ in tokens)
    data = header_bytes(model, layers, attention, mlp, len(tokens), prompt, sequences, seed, source)
    yield data
    chain = data[-4:]
    widths = [n for _ in range(layers) for n in (attention, mlp) if n]
    before = None
    for index, (first, generated, blocks) in enumerate(tokens):
        if [len(bits) for bits in blocks] != [(n + 7) // 8 for n in widths]:
            raise ValueError(f"token {index}: the blocks are not those of the header")
        if index == 0 and not first:
            raise ValueError("the first token begins no sequence")
        if first:
            before = [np.zeros_like(bits) for bits in blocks]
        elif not generated and tokens[index - 1][1]:
            raise ValueError(f"token {index}: a token of the prompt follows a generated one")
        record = bytes([FIRST * bool(first) | GENERATED * bool(generated)])
        record += b"".join(map(block_bytes, blocks, before))
        data = struct.pack("<I", len(record)) + record
        chain = struct.pack("<I", zlib.crc32(chain + data))
        yield data + chain
        before = blocks
    data = struct.pack("<IQ", END, len(tokens))
    yield data + struct.pack("<I", zlib.crc32(chain + data))


def write_trace(path, **trace):
    """trace_bytes() to a file, which gets its name when it is complete."""
    directory = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".trace-", suffix=".partial", delete=False) as file:
        try:
            for piece in trace_bytes(**trace):
                file.write(piece)
            file.flush()
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(file.name, 0o666 & ~mask)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
