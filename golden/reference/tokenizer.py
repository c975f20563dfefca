"""Byte-level BPE from a Hugging Face `tokenizer.json`: text to token ids and back to bytes.

A text is cut into pieces by a regular expression, and the UTF-8 bytes of a piece are joined by the merges, the one of lowest
rank first. What a `tokenizer.json` may ask for beyond that is refused with its name.
"""

import functools
import json
import pathlib
import re
import sys
import unicodedata

# GPT-2's pattern, which a ByteLevel with use_regex applies.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Unicode's White_Space; Python's \s has four control characters more.
WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def byte_characters():
    """The character that stands for each byte: itself if it can be seen, else the next one from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return [chr(0x100 + others.index(byte)) if byte in others else chr(byte) for byte in range(256)]


CHARACTERS = byte_characters()
BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


class Tokenizer:
    """`encode` and `decode` of one `tokenizer.json`."""

    def __init__(self, description):
        check(description)
        model = description["model"]
        self.ids = model["vocab"]
        self.tokens = {index: token for token, index in self.ids.items()}
        pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
        self.ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self.whole_words = model.get("ignore_merges", False)
        self.pattern = pattern_of(description["pre_tokenizer"])
        self.added = {entry["content"]: entry["id"] for entry in description.get("added_tokens") or []}
        self.contents = {index: content for content, index in self.added.items()}
        for token in self.ids:
            if token not in self.added and not set(token) <= set(CHARACTERS):
                refuse("model.vocab", token, "a token of byte characters")

    def encode(self, text):
        """The ids of a text."""
        ids = []
        for part in self._parts(text):
            if part in self.added:
                ids.append(self.added[part])
                continue
            for piece in pieces(self.pattern, part):
                ids += self._encode_piece("".join(CHARACTERS[byte] for byte in piece.encode("utf-8")))
        return ids

    def decode(self, ids):
        """The bytes that the ids spell, which need not be UTF-8 as a whole."""
        return b"".join(self._spelled(index) for index in ids)

    def _parts(self, text):
        """The text cut at its added tokens, the longest first where several begin."""
        if not self.added:
            return [text]
        contents = sorted(self.added, key=len, reverse=True)
        return [part for part in re.split("(" + "|".join(map(re.escape, contents)) + ")", text) if part]

    def _encode_piece(self, piece):
        """The ids of one piece, written in byte characters."""
        if self.whole_words and piece in self.ids:
            return [self.ids[piece]]
        symbols = list(piece)
        while True:
            ranked = [(self.ranks[pair], i) for i, pair in enumerate(zip(symbols, symbols[1:])) if pair in self.ranks]
            if not ranked:
                break
            _, i = min(ranked)
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        for symbol in symbols:
            if symbol not in self.ids:
                raise ValueError(f"the vocabulary has no token for the bytes {bytes(BYTES[c] for c in symbol)!r}")
        return [self.ids[symbol] for symbol in symbols]

    def _spelled(self, index):
        if index in self.contents:
            return self.contents[index].encode("utf-8")
        if index not in self.tokens:
            raise ValueError(f"token {index} is not in the vocabulary")
        return bytes(BYTES[character] for character in self.tokens[index])


def load(directory):
    """The Tokenizer of a checkpoint directory."""
    path = pathlib.Path(directory) / "tokenizer.json"
    return Tokenizer(json.loads(path.read_text(encoding="utf-8")))


def refuse(key, value, expected):
    """The error of a part that is not supported."""
    raise ValueError(f"tokenizer.json: {key} is {json.dumps(value)}, expected {expected}")


def check(description):
    """Refuses what is not a byte-level BPE, or would change its ids."""
    get = lambda part, key: (description.get(part) or {}).get(key)
    expected = [("model", "type", "BPE"), ("decoder", "type", "ByteLevel")]
    for part, key, value in expected:
        if get(part, key) != value:
            refuse(f"{part}.{key}", get(part, key), json.dumps(value))
    for key in ("normalizer", "truncation", "padding"):
        if description.get(key) is not None:
            refuse(key, description[key], "null")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if get("model", key):
            refuse(f"model.{key}", get("model", key), "null, empty or false")
    if description.get("post_processor") is not None and get("post_processor", "type") != "ByteLevel":
        refuse("post_processor.type", get("post_processor", "type"), '"ByteLevel", or no post_processor')
    for entry in description.get("added_tokens") or []:
        for key in ("single_word", "lstrip", "rstrip"):
            if entry.get(key):
                refuse(f"added_tokens, {entry['content']}, {key}", True, "false")


def pattern_of(pre_tokenizer):
    """The compiled pattern whose matches are pieces, as what lies between them; None if the whole text is one piece."""
    if pre_tokenizer is None:
        refuse("pre_tokenizer", None, "ByteLevel, or a Sequence of Split and ByteLevel")
    steps = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    kinds = [step["type"] for step in steps]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]):
        refuse("pre_tokenizer", kinds, "ByteLevel, or a Sequence of Split and ByteLevel")
    if steps[-1].get("add_prefix_space", True):
        refuse("pre_tokenizer ByteLevel, add_prefix_space", True, "false")
    use_regex = steps[-1].get("use_regex", True)
    if kinds == ["ByteLevel"]:
        return compiled(GPT2_PATTERN) if use_regex else None
    if use_regex:
        refuse("pre_tokenizer ByteLevel, use_regex", True, "false after a Split")
    split = steps[0]
    if split["behavior"] != "Isolated" or split.get("invert", False):
        refuse("pre_tokenizer Split", {"behavior": split["behavior"], "invert": split.get("invert")}, "Isolated, not inverted")
    if "Regex" not in split["pattern"]:
        refuse("pre_tokenizer Split, pattern", split["pattern"], "a Regex")
    return compiled(split["pattern"]["Regex"])


def pieces(pattern, text):
    """The non-empty matches of the pattern and what lies between them, in order."""
    if pattern is None:
        return [text] if text else []
    found, position = [], 0
    for match in pattern.finditer(text):
        found += [text[position : match.start()], match.group()]
        position = match.end()
    return [piece for piece in found + [text[position:]] if piece]


@functools.lru_cache(maxsize=None)
def category(letter):
    """All characters whose general category begins with the letter, as ranges inside a class of Python's `re`."""
    member = [unicodedata.category(chr(c))[0] == letter for c in range(sys.maxunicode + 1)] + [False]
    ends = [c for c in range(len(member)) if member[c] != member[c - 1]]
    return "".join(f"\\U{first:08x}-\\U{after - 1:08x}" for first, after in zip(ends[::2], ends[1::2]))


def compiled(pattern):
    r"""A regular expression of the `tokenizers` library in Python's `re`, with \s, \S, \p{L} and \p{N} spelled out as ranges."""
    translated, inside, position = [], False, 0
    while position < len(pattern):
        part = re.compile(r"\\p\{[LN]\}|\\.|.", re.DOTALL).match(pattern, position).group()
        position += len(part)
        if part in "[]":
            inside = part == "["
        ranges = WHITE_SPACE if part in (r"\s", r"\S") else category(part[3]) if part.startswith(r"\p{") else None
        if ranges is None and part[0] == "\\" and part[1].isalpha() and part[1] not in "rntfvdux":
            refuse("pre_tokenizer Split, pattern", pattern, f"no {part}")
        if part == r"\S" and inside:
            refuse("pre_tokenizer Split, pattern", pattern, r"no \S in a class")
        translated.append(part if ranges is None else ranges if inside else f"[{'^' if part[1] == 'S' else ''}{ranges}]")
    try:
        return re.compile("".join(translated))
    except re.error as error:
        raise ValueError(f"tokenizer.json: Python's re does not understand {pattern!r}: {error}") from error
