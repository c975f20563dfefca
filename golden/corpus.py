"""The training text and its tokens: six novels of Jane Austen out of Debian's package r-cran-janeaustenr.

Finds or downloads the Debian packages, decodes R's lazy-load data base with the standard library, joins wrapped lines to
paragraphs and cuts a held-out part off each novel. Also reads Debian's British word list, the measure of how many words
a model spells. The OPT reads bytes; the sub-word tokenizer of the LLaMA is trained here.
"""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import zlib

NOVELS_PACKAGE = "r-cran-janeaustenr"
NOVELS_PATH = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
WORDS_PACKAGE = "wbritish"
WORDS_PATH = "usr/share/dict/british-english"
HELD_OUT_FRACTION = 0.025
# Words, numbers and punctuation, each with the blank before it, and runs of white space: what no token crosses.
TOKEN_PATTERN = r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+"

_STRING_VECTOR = 0x10
_CHARSXP = 0x09


def debian_file(package, path, cache_dir):
    """Path of a file of a Debian package: the installed one, else one extracted into `cache_dir` (nothing is installed)."""
    installed = pathlib.Path("/") / path
    if installed.exists():
        return installed
    root = pathlib.Path(cache_dir) / package
    extracted = root / path
    if extracted.exists():
        return extracted
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise SystemExit(
                f"/{path} is missing and so is {tool}: install the Debian package {package}, "
                f"or put the file at {extracted}"
            )
    root.mkdir(parents=True, exist_ok=True)
    print(f"/{path} is not installed; fetching {package} into {root}", flush=True)
    done = subprocess.run(["apt-get", "download", package], cwd=root, capture_output=True, text=True)
    archives = sorted(root.glob(f"{package}_*.deb"))
    if done.returncode != 0 or not archives:
        raise SystemExit(f"apt-get download {package} failed (try apt-get update first):\n{done.stderr}")
    subprocess.run(["dpkg-deb", "-x", str(archives[-1]), str(root)], check=True)
    return extracted


def lazy_load_blocks(data):
    """The decompressed blocks of an R lazy-load data base: a big-endian length, then a zlib stream, repeated."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        stream = zlib.decompressobj()
        block = stream.decompress(data[position + 4 :])
        if len(block) != length:
            raise ValueError(f"block at {position}: {len(block)} bytes, its header says {length}")
        yield block
        position = len(data) - len(stream.unused_data)


def string_vector(block):
    """The strings of a serialized R character vector (XDR, serialization version 3)."""
    if block[:2] != b"X\n":
        raise ValueError(f"not an XDR serialization: {block[:2]!r}")
    (version,) = struct.unpack_from(">I", block, 2)
    if version != 3:
        raise ValueError(f"serialization version {version}, expected 3")
    (encoding_length,) = struct.unpack_from(">I", block, 14)
    position = 18 + encoding_length
    kind, count = struct.unpack_from(">II", block, position)
    if kind & 0xFF != _STRING_VECTOR:
        raise ValueError(f"R type {kind & 0xFF}, expected a character vector ({_STRING_VECTOR})")
    position += 8
    strings = []
    for _ in range(count):
        flags, length = struct.unpack_from(">Ii", block, position)
        if flags & 0xFF != _CHARSXP or length < 0:
            raise ValueError(f"unexpected item (flags {flags:#x}, length {length}) at {position}")
        position += 8
        strings.append(block[position : position + length])
        position += length
    return strings


def paragraphs(lines):
    """One line of text per paragraph: wrapped lines joined, runs of blanks and the underscores of italics removed."""
    text = b"\n".join(line.strip() for line in lines).replace(b"_", b"")
    joined = (re.sub(rb"\s+", b" ", part).strip() for part in re.split(rb"\n\s*\n", text))
    return b"\n".join(part for part in joined if part) + b"\n"


def novels(cache_dir):
    """The six novels as bytes, in the order of the package."""
    data = debian_file(NOVELS_PACKAGE, NOVELS_PATH, cache_dir).read_bytes()
    return [paragraphs(string_vector(block)) for block in lazy_load_blocks(data)]


def split(texts):
    """(training text, held-out text): the last `HELD_OUT_FRACTION` of each novel is held out."""
    cuts = [len(text) - int(len(text) * HELD_OUT_FRACTION) for text in texts]
    train = b"".join(text[:cut] for text, cut in zip(texts, cuts))
    held_out = b"".join(text[cut:] for text, cut in zip(texts, cuts))
    return train, held_out


def words(text):
    """The words of a text in lower case, apostrophes inside a word kept."""
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.decode("utf-8", "replace").replace("\u2019", "'").lower())


def dictionary(cache_dir):
    """Debian's British word list in lower case."""
    data = debian_file(WORDS_PACKAGE, WORDS_PATH, cache_dir).read_text(encoding="utf-8")
    return {line.strip().lower() for line in data.splitlines()}


def subword_tokenizer(text, size):
    """A byte-level BPE tokenizer of `size` tokens (256 bytes and merges, no special tokens) trained on the text."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # only the LLaMA model needs them

    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(TOKEN_PATTERN), "isolated"), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=[], show_progress=False)
    tokenizer.train_from_iterator([text.decode("utf-8")], trainer)
    return tokenizer
